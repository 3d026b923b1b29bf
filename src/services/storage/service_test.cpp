#include "services/storage/service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "crypto/outboard.h"
#include "services/storage/simulated_service.h"
#include "store/log.h"

namespace cairn::storage {
namespace {

using io::sim::Answer;
using io::sim::DiskCall;
using io::sim::Guest;
using testing::HasSubstr;

std::string sample(std::size_t size, std::uint64_t seed = 1) {
  Random random(seed * 1'000'003 + size);
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(random.next());
  return bytes;
}

std::string code_of(const Answer& answer) {
  const std::string start = R"({"error":{"code":")";
  if (!answer.body.starts_with(start)) return "not an error: " + answer.body;
  return answer.body.substr(start.size(), answer.body.find('"', start.size()) - start.size());
}

// The first segment.
std::string log_file() { return store::segment_path("data/segments", 1); }

TEST(Storage, what_was_put_is_read_back_on_every_shard) {
  SimulatedService sample_node({.shards = 3});
  for (const std::size_t size : {0u, 1u, 65'536u, 65'537u, 300'000u}) {
    const std::string bytes = sample(size);
    EXPECT_EQ(sample_node.ask(put(bytes)).status, 201) << size;
    EXPECT_EQ(sample_node.ask(put(bytes)).status, 200) << size;
    for (int i = 0; i < 6; ++i) EXPECT_EQ(sample_node.ask(get(bytes)).body, bytes) << size;
  }
}

TEST(Storage, a_media_type_that_would_end_its_line_is_refused_wherever_it_is_said) {
  SimulatedService sample_node;
  const std::string bytes = "bytes";
  for (const char* type : {"text/html\\r\\nX-Evil: yes", "a\\nb", "a\\u0000b", "", " a", "caf\xc3\xa9"}) {
    const std::string document = fmt::format("{{\"media_type\":\"{}\"}}", type);
    EXPECT_EQ(code_of(sample_node.ask(request("POST", "/uploads", document))), "malformed") << type;
    const std::string target = sample_node.ask(request("POST", "/uploads")).field("Location").value();
    ASSERT_EQ(sample_node.ask(request("PATCH", target, bytes, "Upload-Offset: 0\r\n")).status, 204);
    EXPECT_EQ(code_of(sample_node.ask(request("POST", target + "/commit", document))), "malformed") << type;
  }
  EXPECT_EQ(sample_node.ask(get(bytes)).status, 404);
  ASSERT_EQ(sample_node.ask(put(bytes, "Content-Type: caf\xc3\xa9\r\n")).status, 201);
  EXPECT_EQ(sample_node.ask(get(bytes)).field("Content-Type"), "application/octet-stream");
}

TEST(Storage, what_a_browser_may_run_is_shown_in_a_sandbox) {
  SimulatedService sample_node;
  const std::pair<const char*, bool> types[] = {{"text/html; charset=utf-8", true},
                                                {"IMAGE/SVG+XML", true},
                                                {"application/xhtml+xml", true},
                                                {"text/xml", true},
                                                {"text/plain", false},
                                                {"image/png", false}};
  for (const auto& [type, active] : types) {
    const std::string bytes = sample(70'000, std::hash<std::string_view>()(type));
    ASSERT_EQ(sample_node.ask(put(bytes, fmt::format("Content-Type: {}\r\n", type))).status, 201);
    for (const char* more :
         {"", "Range: bytes=0-1\r\n", "Range: bytes=0-1,5-6\r\n", "If-None-Match: *\r\n"}) {
      const auto policy = sample_node.ask(get(bytes, more)).field("Content-Security-Policy");
      EXPECT_EQ(policy.has_value(), active) << type << more;
      if (policy) EXPECT_THAT(*policy, testing::StartsWith("sandbox; default-src 'none'; ")) << type << more;
    }
  }
}

TEST(Storage, slow_bodies_hold_no_worker) {
  SimulatedService sample_node({.workers = 1});
  const std::string bytes = sample(5000), other = sample(6000), fast = sample(7000);
  ASSERT_EQ(sample_node.ask(put(other)).status, 201);
  std::vector<std::unique_ptr<Guest>> slow;
  for (int i = 0; i < 5; ++i) {
    slow.push_back(
        std::make_unique<Guest>(sample_node.world, sample_node.away, io::Endpoint{"host", 80, {}}));
    const std::string whole = put(sample(5000, 10 + static_cast<std::uint64_t>(i)));
    slow.back()->send(whole.substr(0, whole.size() - 1000));
    slow.back()->run_for(Duration::millis(10));
  }
  EXPECT_EQ(sample_node.inflight(), 5);
  EXPECT_EQ(sample_node.ask(put(fast)).status, 201);
  EXPECT_EQ(sample_node.ask(get(other)).body, other);
  for (int i = 0; i < 5; ++i) {
    const std::string whole = put(sample(5000, 10 + static_cast<std::uint64_t>(i)));
    slow[static_cast<std::size_t>(i)]->send(whole.substr(whole.size() - 1000));
    EXPECT_EQ(slow[static_cast<std::size_t>(i)]->answer().status, 201);
  }
}

TEST(Storage, rot_is_502_and_never_404_or_other_bytes) {
  SimulatedService sample_node;
  const std::string bytes = sample(200'000), good = sample(100'000);
  ASSERT_EQ(sample_node.ask(put(bytes)).status, 201);
  ASSERT_EQ(sample_node.ask(put(good)).status, 201);
  sample_node.crash(io::sim::Crash::process);        // nothing is in memory now
  sample_node.world.run_for(Duration::millis(500));  // and the scrubber has passed
  const std::size_t at = sample_node.disk().view().text(log_file()).find(bytes.substr(70'000, 64));
  ASSERT_NE(at, std::string::npos);
  ASSERT_TRUE(sample_node.disk().rot(log_file(), at));
  // Its first group is good: the head has gone out by then, and the answer ends short.
  const Answer whole = sample_node.ask(get(bytes));
  EXPECT_FALSE(whole.whole);
  EXPECT_TRUE(bytes.starts_with(whole.body));
  for (int i = 0; i < 2; ++i) {
    const Answer ranged = sample_node.ask(get(bytes, "Range: bytes=69000-71000\r\n"));
    EXPECT_EQ(ranged.status, 502);
    EXPECT_EQ(code_of(ranged), "integrity");
  }
  EXPECT_EQ(sample_node.ask(get(good)).body, good);
  // Good bytes in place of the bad ones.
  EXPECT_EQ(sample_node.ask(put(bytes)).status, 201);
  EXPECT_EQ(sample_node.ask(get(bytes)).body, bytes);
}

TEST(Storage, what_the_cache_has_no_room_for_is_read_by_parts_whole_and_in_ranges) {
  SimulatedService sample_node({.settings = {{"storage.cache_bytes", "1MiB"}}});
  const std::string bytes = sample(1'000'000);
  std::vector<std::string> others;
  for (std::uint64_t i = 0; i < 12; ++i) others.push_back(sample(65'536, 20 + i));
  ASSERT_EQ(sample_node.ask(put(bytes)).status, 201);
  for (const std::string& other : others) ASSERT_EQ(sample_node.ask(put(other)).status, 201);
  sample_node.crash(io::sim::Crash::process);
  for (int i = 0; i < 3; ++i)
    for (const std::string& other : others) ASSERT_EQ(sample_node.ask(get(other)).body, other);
  for (const std::uint32_t cold : {0u, 1'000'000u}) {
    sample_node.disk().faults.cold = cold;
    for (int i = 0; i < 3; ++i) EXPECT_EQ(sample_node.ask(get(bytes)).body, bytes);
    const Answer one = sample_node.ask(get(bytes, "Range: bytes=65535-700000\r\n"));
    EXPECT_EQ(one.status, 206);
    EXPECT_EQ(one.body, bytes.substr(65'535, 634'466));
    const Answer two = sample_node.ask(get(bytes, "Range: bytes=1-200000,100000-999999\r\n"));
    EXPECT_EQ(two.status, 206);
    EXPECT_NE(two.body.find(bytes.substr(1, 200'000)), std::string::npos);
    EXPECT_NE(two.body.find(bytes.substr(100'000)), std::string::npos);
  }
  // Rot far behind the first groups: the head has gone out by then, and the answer ends short.
  const std::size_t at = sample_node.disk().view().text(log_file()).find(bytes.substr(900'000, 64));
  ASSERT_TRUE(sample_node.disk().rot(log_file(), at));
  for (const std::string& other : others) ASSERT_EQ(sample_node.ask(get(other)).body, other);
  const Answer rotten = sample_node.ask(get(bytes, "Range: bytes=131072-999999\r\n"));
  EXPECT_FALSE(rotten.whole);
  EXPECT_TRUE(bytes.substr(131'072).starts_with(rotten.body));
  EXPECT_EQ(sample_node.ask(get(bytes, "Range: bytes=890000-990000\r\n")).status, 502);
}

TEST(Storage, a_full_disk_is_507_and_reads_and_deletes_go_on) {
  SimulatedService sample_node;
  const std::string bytes = sample(50'000);
  ASSERT_EQ(sample_node.ask(put(bytes)).status, 201);
  sample_node.disk().set_capacity(sample_node.disk().used() + 4096);
  // The log has some room of its own ahead.
  Answer refused;
  std::string more;
  for (std::uint64_t i = 0; i < 64 && refused.status != 507; ++i) {
    more = sample(300'000, i);
    refused = sample_node.ask(put(more));
  }
  EXPECT_EQ(refused.status, 507);
  EXPECT_EQ(code_of(refused), "storage_full");
  EXPECT_EQ(sample_node.ask(get(bytes)).body, bytes);
  EXPECT_EQ(sample_node.ask(get(more)).status, 404);
  EXPECT_EQ(sample_node.ask(request("DELETE", "/o/" + address_of(bytes))).status, 204);
  EXPECT_EQ(sample_node.ask(get(bytes)).status, 404);
  sample_node.disk().set_capacity(std::uint64_t{1} << 40);
  EXPECT_EQ(sample_node.ask(put(more)).status, 201);
  EXPECT_EQ(sample_node.ask(get(more)).body, more);
}

TEST(Storage, a_drain_answers_what_was_begun) {
  SimulatedService sample_node({.shards = 2});
  const std::string bytes = sample(50'000), late = sample(900);
  Guest guest = sample_node.connect();
  Guest idle = sample_node.connect();
  sample_node.disk().stall(Duration::millis(700));
  guest.send(put(bytes));
  guest.run_for(Duration::millis(100));
  EXPECT_EQ(sample_node.inflight(), 1);
  sample_node.drain(Duration::seconds(3));
  EXPECT_EQ(guest.answer().status, 201);
  EXPECT_TRUE(sample_node.world.run_until([&] { return sample_node.outcome.has_value(); }));
  EXPECT_TRUE(idle.until_ended(Duration::seconds(1)));
  EXPECT_EQ(sample_node.outcome->aborted, 0u);
  EXPECT_TRUE(sample_node.outcome->still_alive.empty());
  sample_node.crash();
  EXPECT_EQ(sample_node.ask(get(bytes)).body, bytes);
}

TEST(Storage, what_was_acknowledged_survives_a_power_cut) {
  SimulatedService sample_node({.shards = 2});
  std::vector<std::string> all;
  for (std::uint64_t i = 0; i < 8; ++i) {
    all.push_back(sample(1000 + 30'000 * i));
    ASSERT_EQ(sample_node.ask(put(all.back())).status, 201);
    if (i % 3 == 0) sample_node.crash();
  }
  ASSERT_EQ(sample_node.ask(request("DELETE", "/o/" + address_of(all[1]))).status, 204);
  sample_node.crash();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Answer answer = sample_node.ask(get(all[i]));
    EXPECT_EQ(answer.status, i == 1 ? 404 : 200);
    if (i != 1) EXPECT_EQ(answer.body, all[i]);
  }
}

TEST(Storage, a_failed_sync_fences_writes_until_the_next_start_and_reads_go_on) {
  SimulatedService sample_node;
  const std::string bytes = sample(5000), lost = sample(6000);
  ASSERT_EQ(sample_node.ask(put(bytes)).status, 201);
  sample_node.disk().fail_call(DiskCall::sync_data, 1);
  EXPECT_GE(sample_node.ask(put(lost)).status, 500);
  const Answer refused = sample_node.ask(put(sample(7000)));
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(code_of(refused), "degraded");
  EXPECT_EQ(sample_node.ask(get(bytes)).body, bytes);
  sample_node.world.run_for(Duration::millis(200));
  const Answer ready = sample_node.ask("GET /readyz HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_THAT(ready.body, HasSubstr("\"write_ready\":false"));
  // What the page cache may still hold of it is on no disk: the next start must not take it for stored.
  sample_node.crash(io::sim::Crash::process);
  EXPECT_EQ(sample_node.ask(get(lost)).status, 404);
  EXPECT_EQ(sample_node.ask(put(lost)).status, 201);
  sample_node.crash();
  EXPECT_EQ(sample_node.ask(get(lost)).body, lost);
  EXPECT_EQ(sample_node.ask(get(bytes)).body, bytes);
}

TEST(Storage, a_damaged_index_is_503_and_told_until_there_is_a_new_one) {
  SimulatedService sample_node({.shards = 2});
  std::vector<std::string> all;
  for (std::uint64_t i = 0; i < 8; ++i) {
    all.push_back(sample(1000, i));
    ASSERT_EQ(sample_node.ask(put(all.back())).status, 201);
  }
  sample_node.maps().damage("data/index", "o", "p");
  const std::uint64_t used = sample_node.disk().used();
  sample_node.disk().set_capacity(used);  // no room for two
  for (const std::string& bytes : all) {
    const std::string target = "/o/" + address_of(bytes);
    for (const std::string& asked : {request("DELETE", target), put(bytes), request("GET", "/o")}) {
      const Answer refused = sample_node.ask(asked);
      EXPECT_EQ(refused.status, 503);
      EXPECT_EQ(code_of(refused), "degraded");
    }
  }
  sample_node.world.run_for(Duration::millis(500));
  const Answer ready = sample_node.ask("GET /readyz HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(ready.status, 200) << "most reads are answered";
  EXPECT_THAT(ready.body, HasSubstr("\"degraded\":true,\"missing\":[\"index\"]"));
  EXPECT_THAT(sample_node.ask(request("GET", "/admin/status")).body, HasSubstr("\"index\":\"no_room\""));
  sample_node.disk().set_capacity(std::uint64_t{1} << 40);
  sample_node.world.run_for(Duration::seconds(70));
  for (const std::string& bytes : all) EXPECT_EQ(sample_node.ask(get(bytes)).body, bytes);
  EXPECT_THAT(sample_node.ask(request("GET", "/admin/status")).body, HasSubstr("\"index\":\"ok\""));
  EXPECT_THAT(sample_node.ask("GET /readyz HTTP/1.1\r\nHost: h\r\n\r\n").body, HasSubstr("\"missing\":[]"));
  for (const std::string& bytes : all)
    EXPECT_EQ(sample_node.ask(request("DELETE", "/o/" + address_of(bytes))).status, 204);
}

TEST(Storage, a_wrong_address_is_409_and_nothing_is_kept) {
  SimulatedService sample_node({.settings = {{"limits.max_body_bytes", "4MiB"}}});
  for (const std::size_t size : {std::size_t{1000}, 2 * crypto::part_size + 5}) {
    const std::string bytes = sample(size), other = sample(10, 2);
    EXPECT_EQ(sample_node.ask(request("PUT", "/o/" + address_of(other), bytes)).status, 409);
    EXPECT_EQ(sample_node.ask(get(other)).status, 404);
    EXPECT_EQ(sample_node.ask(get(bytes)).status, 404);
  }
  sample_node.world.run_for(Duration::seconds(1));
  EXPECT_THAT(sample_node.ask("GET /admin/status HTTP/1.1\r\nHost: h\r\n\r\n").body,
              HasSubstr("\"objects\":0,\"bytes\":0,\"uploads\":0"));
}

TEST(Storage, a_body_that_does_not_end_in_time_is_answered_at_its_deadline_and_nothing_is_kept) {
  SimulatedService sample_node({.settings = {{"limits.max_body_bytes", "4MiB"}}});
  const std::string whole = put(sample(2 * crypto::part_size), "X-Deadline-Ms: 400\r\n");
  Guest guest = sample_node.connect();
  guest.send(whole.substr(0, whole.size() - 1000));
  // One part is kept by now; then the disk does not answer for longer than the request may take.
  guest.run_for(Duration::millis(300));
  const Instant begun = sample_node.world.now();
  sample_node.disk().stall(Duration::seconds(3));
  EXPECT_EQ(guest.answer().status, 504);
  EXPECT_LT(sample_node.world.now() - begun, Duration::millis(500));
  sample_node.world.run_for(Duration::seconds(5));
  EXPECT_THAT(sample_node.ask("GET /admin/status HTTP/1.1\r\nHost: h\r\n\r\n").body,
              HasSubstr("\"objects\":0,\"bytes\":0,\"uploads\":0"));
}

TEST(Storage, an_acknowledged_part_of_an_upload_survives_a_power_cut) {
  SimulatedService sample_node;
  const std::string bytes = sample(crypto::part_size + 777);
  const Answer begun =
      sample_node.ask(request("POST", "/uploads", fmt::format("{{\"size\":{}}}", bytes.size())));
  ASSERT_EQ(begun.status, 201);
  const std::string target = begun.field("Location").value();
  const auto patch = [&](std::size_t offset) {
    return sample_node
        .ask(request("PATCH", target, std::string_view(bytes).substr(offset, crypto::part_size),
                     fmt::format("Upload-Offset: {}\r\n", offset)))
        .status;
  };
  ASSERT_EQ(patch(crypto::part_size), 204);
  sample_node.crash();
  const Answer gap = sample_node.ask(request("POST", target + "/commit"));
  EXPECT_EQ(gap.status, 409);
  EXPECT_EQ(code_of(gap), "upload_gap");
  ASSERT_EQ(patch(0), 204);
  sample_node.crash();
  EXPECT_EQ(
      sample_node
          .ask(request("POST", target + "/commit", fmt::format("{{\"address\":\"{}\"}}", address_of(bytes))))
          .status,
      201);
  EXPECT_EQ(sample_node.ask(get(bytes)).body, bytes);
}

TEST(Storage, an_upload_that_cannot_fit_is_507_when_it_begins_and_idle_ones_give_way_to_one_that_can) {
  SimulatedService sample_node;
  sample_node.disk().set_capacity(sample_node.disk().used() + (40 << 20));
  const auto begin = [&](std::size_t parts) {
    return sample_node.ask(request("POST", "/uploads", fmt::format("{{\"size\":{}}}", parts << 20)));
  };
  const Answer refused = begin(60);
  EXPECT_EQ(refused.status, 507);
  EXPECT_EQ(code_of(refused), "storage_full");
  const std::string target = begin(20).field("Location").value();
  for (std::size_t i = 0; i < 20; ++i)
    ASSERT_EQ(
        sample_node
            .ask(request("PATCH", target, sample(1 << 20, i), fmt::format("Upload-Offset: {}\r\n", i << 20)))
            .status,
        204);
  const std::string told = sample_node.ask(request("GET", "/admin/status")).body;
  EXPECT_THAT(told, HasSubstr(R"("uploads":1,"upload_bytes":20971520)"));
  EXPECT_EQ(begin(20).status, 507);
  EXPECT_EQ(sample_node.ask(request("HEAD", target)).status, 200);
  sample_node.world.run_for(Duration::seconds(601));
  EXPECT_EQ(begin(60).status, 507) << "it could not have it anyway";
  EXPECT_EQ(sample_node.ask(request("HEAD", target)).status, 200);
  EXPECT_EQ(begin(20).status, 201);
  EXPECT_EQ(sample_node.ask(request("HEAD", target)).status, 404);
}

// Of a service that asks for capabilities.
struct Guarded {
  Guarded()
      : service({.keys = std::make_shared<const serve::KeySnapshot>(1, crypto::KeyRing(key())),
                 .uploads_max = 32}) {}
  static crypto::RootKey key() {
    std::array<std::byte, 40> entropy{};
    entropy.fill(std::byte{7});
    return crypto::make_root_key(entropy, {1'767'225'600'000});
  }
  // `Authorization: Bearer …` of the n-th token, with these caveats.
  static std::string bearer(std::uint64_t number, const std::vector<std::string>& caveats) {
    crypto::Macaroon macaroon = crypto::mint(key(), "storage", make_ulid({1}, number, number));
    for (const std::string& caveat : caveats) macaroon = *crypto::attenuate(std::move(macaroon), caveat);
    return fmt::format("Authorization: Bearer {}\r\n", crypto::format_token(macaroon));
  }
  SimulatedService service;
};

TEST(Storage, an_upload_is_touched_only_by_tokens_of_the_tenant_that_began_it) {
  Guarded g;
  const std::string one = Guarded::bearer(1, {"tenant = one"}), again = Guarded::bearer(2, {"tenant = one"});
  const std::string other = Guarded::bearer(3, {"tenant = two"}), unbound = Guarded::bearer(4, {});
  const std::string offset = "Upload-Offset: 0\r\n";
  const std::string target = g.service.ask(request("POST", "/uploads", "", one)).field("Location").value();
  ASSERT_EQ(g.service.ask(request("PATCH", target, "bytes", one + offset)).status, 204);
  for (const std::string& bearer : {other, unbound}) {
    EXPECT_EQ(g.service.ask(request("PATCH", target, "other", bearer + offset)).status, 404);
    EXPECT_EQ(g.service.ask(request("HEAD", target, "", bearer)).status, 404);
    EXPECT_EQ(g.service.ask(request("DELETE", target, "", bearer)).status, 404);
    EXPECT_EQ(g.service.ask(request("POST", target + "/commit", "", bearer)).status, 404);
  }
  g.service.crash();
  EXPECT_EQ(g.service.ask(request("DELETE", target, "", other)).status, 404) << "also after a start";
  // A fresh token of the tenant goes on with it.
  EXPECT_EQ(g.service.ask(request("HEAD", target, "", again)).field("Upload-Offset"), "5");
  EXPECT_EQ(g.service.ask(request("POST", target + "/commit", "", again)).status, 201);
  EXPECT_EQ(g.service.ask(get("bytes")).body, "bytes");
  // One that was begun by nobody's tenant is everybody's who may put.
  const std::string free = g.service.ask(request("POST", "/uploads", "", unbound)).field("Location").value();
  EXPECT_EQ(g.service.ask(request("PATCH", free, "bytes", one + offset)).status, 204);
  EXPECT_EQ(g.service.ask(request("DELETE", free, "", other)).status, 204);
}

TEST(Storage, a_token_for_no_bytes_begins_no_upload) {
  Guarded g;
  const std::string none = Guarded::bearer(1, {"max_bytes <= 0"}),
                    some = Guarded::bearer(1, {"max_bytes <= 9"});
  EXPECT_EQ(code_of(g.service.ask(request("POST", "/uploads", "", none))), "forbidden");
  EXPECT_EQ(g.service.ask(request("POST", "/uploads", "", some)).status, 201);
}

TEST(Storage, narrowing_a_token_gives_it_no_more_uploads) {
  Guarded g;
  const auto begin_all = [&](std::uint64_t number) {
    int begun = 0;
    for (int i = 0; i < 40; ++i)
      begun +=
          g.service
              .ask(request("POST", "/uploads", "",
                           Guarded::bearer(number, {fmt::format("tenant = t{}", i), "op = storage.put"})))
              .status == 201;
    return begun;
  };
  EXPECT_EQ(begin_all(1), 16);
  EXPECT_EQ(begin_all(2), 8);
}

TEST(Storage, a_part_costs_as_many_looks_into_the_index_whatever_the_upload_has) {
  SimulatedService sample_node;
  const std::string target = sample_node.ask(request("POST", "/uploads")).field("Location").value();
  const auto looks = [&](std::size_t part) {
    const std::uint64_t before = sample_node.maps().keys_read();
    const std::string offset = fmt::format("Upload-Offset: {}\r\n", part * crypto::part_size);
    EXPECT_EQ(sample_node.ask(request("PATCH", target, sample(10, part), offset)).status, 204) << part;
    return sample_node.maps().keys_read() - before;
  };
  const std::uint64_t first = looks(0);
  EXPECT_GT(first, 0u);
  std::uint64_t most = first;
  for (std::size_t part = 1; part < 200; ++part) most = std::max(most, looks(part));
  // One that is not in memory is asked for twice; and the tasks that tend the store look at times.
  EXPECT_LE(most, first + 10);
}

TEST(Storage, a_pinned_object_is_not_deleted) {
  SimulatedService sample_node;
  const std::string bytes = sample(100), name = address_of(bytes);
  ASSERT_EQ(sample_node.ask(put(bytes)).status, 201);
  ASSERT_EQ(sample_node.ask(request("PUT", "/pins/" + name)).status, 204);
  sample_node.crash();
  const Answer refused = sample_node.ask(request("DELETE", "/o/" + name));
  EXPECT_EQ(refused.status, 409);
  EXPECT_EQ(code_of(refused), "pinned");
  ASSERT_EQ(sample_node.ask(request("DELETE", "/pins/" + name)).status, 204);
  EXPECT_EQ(sample_node.ask(request("DELETE", "/o/" + name)).status, 204);
}

// An upload is kept in any directory, so that one object may be in several.
TEST(Storage, an_object_in_two_directories_is_pinned_and_let_go_in_both) {
  SimulatedService sample_node({.directories = {"data", "more"}});
  const auto upload = [&](const std::string& bytes) {
    const std::string target = sample_node.ask(request("POST", "/uploads")).field("Location").value();
    EXPECT_EQ(sample_node.ask(request("PATCH", target, bytes, "Upload-Offset: 0\r\n")).status, 204);
    EXPECT_LE(sample_node.ask(request("POST", target + "/commit")).status, 201);
  };
  for (std::uint64_t i = 0; i < 8; ++i) {
    const std::string bytes = sample(200, i), name = address_of(bytes);
    upload(bytes);
    ASSERT_EQ(sample_node.ask(request("PUT", "/pins/" + name)).status, 204);
    for (int copy = 0; copy < 8; ++copy) upload(bytes);
    EXPECT_EQ(sample_node.ask(request("DELETE", "/o/" + name)).status, 409);
    EXPECT_EQ(sample_node.ask(get(bytes)).body, bytes);
    for (int copy = 0; copy < 8; ++copy) upload(bytes);
    ASSERT_EQ(sample_node.ask(request("DELETE", "/pins/" + name)).status, 204);
    EXPECT_EQ(sample_node.ask(request("DELETE", "/o/" + name)).status, 204) << i;
    EXPECT_EQ(sample_node.ask(get(bytes)).status, 404) << i;
  }
}

TEST(Storage, SV1_each_directory_has_a_home_shard_and_they_are_dealt_out_in_turn) {
  SimulatedService sample_node({.shards = 3, .directories = {"a", "b", "c", "d"}});
  const auto homes = [&] {
    const std::string status = sample_node.ask(request("GET", "/admin/status")).body;
    std::string found;
    for (std::size_t at = 0; (at = status.find("\"home_shard\":", at)) != std::string::npos;)
      found += status[at += 13];
    return found;
  };
  EXPECT_EQ(homes(), "0120");
  std::vector<std::string> kept;
  for (std::uint64_t i = 0; i < 24; ++i) {
    kept.push_back(sample(500, i));
    ASSERT_EQ(sample_node.ask(put(kept.back())).status, 201);
  }
  // Some of them are in each.
  EXPECT_EQ(sample_node.ask(request("GET", "/admin/status")).body.find("\"objects\":0"), std::string::npos);
  for (const bool crashed : {false, true}) {
    if (crashed) sample_node.crash();
    for (const std::string& bytes : kept) EXPECT_EQ(sample_node.ask(get(bytes)).body, bytes);
  }
  EXPECT_EQ(homes(), "0120");
  sample_node.drain(Duration::seconds(1));
  ASSERT_TRUE(sample_node.world.run_until([&] { return sample_node.outcome.has_value(); }));
  EXPECT_TRUE(sample_node.outcome->still_alive.empty());
}

// The other shards have opened theirs by then, and close them again.
TEST(Storage, a_directory_that_cannot_be_opened_ends_the_start_wherever_its_home_is) {
  for (const unsigned broken : {0u, 1u, 2u}) {
    SimulatedService sample_node({.shards = 3, .directories = {"d0", "d1", "d2"}});
    const std::string bytes = sample(500);
    ASSERT_EQ(sample_node.ask(put(bytes)).status, 201);
    sample_node.crash_and([&] {
      // Nothing is left that says which store it is.
      const std::string segments = fmt::format("d{}/segments", broken);
      sample_node.disk().put(segments + "/key", std::string(4096, 'x'));
      sample_node.disk().put(store::segment_path(segments, 1), std::string(4096, 'x'));
    });
    EXPECT_FALSE(sample_node.serving) << broken;
    EXPECT_EQ(sample_node.trouble(), fmt::format("d{}", broken));
  }
}

}  // namespace
}  // namespace cairn::storage
