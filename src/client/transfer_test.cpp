// Uploads and downloads against the simulated storage service.
#include <gtest/gtest.h>

#include "client/download.h"
#include "client/reference.h"
#include "client/simulated_storage.h"
#include "client/upload.h"
#include "runtime/wait.h"

namespace cairn::client {
namespace {

constexpr std::size_t mib = 1 << 20;

Address address_of(std::string_view bytes) { return crypto::hash_object(as_bytes(bytes)); }

struct Fixture : SimulatedStorage {
  using SimulatedStorage::SimulatedStorage;

  std::unique_ptr<io::File> open(std::string path, io::OpenMode mode = io::OpenMode::read) {
    auto file = run(machine().disk.open(call(), std::move(path), mode));
    CHECK(file.has_value());
    return std::move(*file);
  }
  Outcome<Stored> put(std::string path, PutOptions options = {}) {
    const auto file = open(std::move(path));
    return run(put_file(call(), storage(), file.get(), std::move(options)));
  }
  Outcome<std::string> get(const Address& address) {
    TextDestination to(64 * mib);
    auto done = run(download(call(), storage(), address, &to, {}));
    if (!done) return fail(std::move(done.error()));
    EXPECT_EQ(done->size, to.text().size());
    return std::move(to.text());
  }
  std::string read_back(std::string path) {
    const auto file = open(std::move(path));
    auto size = file->size();
    auto bytes = run(read_piece(call(), file.get(), 0, static_cast<std::size_t>(*size)));
    return std::string(as_text(bytes->bytes()));
  }
};

TEST(Put, every_size_arrives_whole_under_its_address) {
  Fixture f;
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{65536}, std::size_t{65537}, mib, mib + 1, 3 * mib + 17}) {
    const std::string bytes = sample_bytes(size);
    f.home.disk().put(fmt::format("file{}", size), bytes);
    const auto stored = f.put(fmt::format("file{}", size));
    ASSERT_TRUE(stored) << stored.error().message;
    EXPECT_EQ(stored->address, address_of(bytes));
    EXPECT_EQ(f.shelf().objects[format_address(stored->address)], bytes);
  }
}

TEST(Put, a_stream_of_unknown_size_arrives_whole) {
  Fixture f;
  for (const std::size_t size : {std::size_t{0}, std::size_t{5}, mib, 2 * mib, 5 * mib + 3}) {
    const std::string bytes = sample_bytes(size);
    TextSource source(bytes);
    const auto stored = f.run(put_stream(f.call(), f.storage(), &source, {}));
    ASSERT_TRUE(stored) << stored.error().message;
    EXPECT_EQ(stored->size, size);
    EXPECT_EQ(f.shelf().objects[format_address(address_of(bytes))], bytes);
  }
  EXPECT_TRUE(f.shelf().uploads.empty());
}

TEST(Put, what_is_there_is_not_sent_again) {
  Fixture f;
  const std::string bytes = sample_bytes(3 * mib);
  f.shelf().add(bytes);
  f.home.disk().put("file", bytes);
  const auto stored = f.put("file");
  ASSERT_TRUE(stored);
  EXPECT_FALSE(stored->fresh);
  EXPECT_EQ(f.asked("POST"), 0u);
  EXPECT_EQ(f.asked("PATCH"), 0u);
}

TEST(Put, after_a_break_only_what_is_missing_is_sent) {
  Fixture f;
  const std::string bytes = sample_bytes(6 * mib);
  f.home.disk().put("file", bytes);
  Shelf::Upload& begun = f.shelf().uploads["earlier"];
  begun.size = bytes.size();
  for (const std::size_t part : {0u, 1u, 4u}) begun.parts[part * mib] = bytes.substr(part * mib, mib);
  UploadLedger ledger(f.machine(), ".");
  ASSERT_TRUE(f.run(ledger.keep(f.call(), "key", "earlier")));
  std::uint64_t moved = 0;
  PutOptions options{
      .moved = [&](std::uint64_t count) { moved += count; }, .ledger = &ledger, .ledger_key = "key"};
  const auto stored = f.put("file", options);
  ASSERT_TRUE(stored) << stored.error().message;
  EXPECT_EQ(f.asked("PATCH /uploads/earlier"), 3u);
  EXPECT_EQ(f.asked("POST /uploads "), 0u);
  EXPECT_EQ(moved, bytes.size());
  EXPECT_EQ(f.shelf().objects[format_address(stored->address)], bytes);
  EXPECT_FALSE(f.run(ledger.find(f.call(), "key"))) << "a finished upload is forgotten";
}

TEST(Put, gaps_beyond_those_that_the_server_names_are_filled_too) {
  Fixture f;
  const std::string bytes = sample_bytes(9 * mib);
  f.home.disk().put("file", bytes);
  f.shelf().gaps_told = 1;
  Shelf::Upload& begun = f.shelf().uploads["earlier"];
  begun.size = bytes.size();
  for (const std::size_t part : {1u, 3u, 5u, 7u}) begun.parts[part * mib] = bytes.substr(part * mib, mib);
  UploadLedger ledger(f.machine(), ".");
  ASSERT_TRUE(f.run(ledger.keep(f.call(), "key", "earlier")));
  const auto stored = f.put("file", {.ledger = &ledger, .ledger_key = "key"});
  ASSERT_TRUE(stored) << stored.error().message;
  EXPECT_EQ(f.asked("PATCH"), 5u);
}

TEST(Put, an_upload_that_the_server_forgot_begins_anew) {
  Fixture f;
  f.home.disk().put("file", sample_bytes(2 * mib));
  UploadLedger ledger(f.machine(), ".");
  ASSERT_TRUE(f.run(ledger.keep(f.call(), "key", "expired")));
  const auto stored = f.put("file", {.ledger = &ledger, .ledger_key = "key"});
  ASSERT_TRUE(stored) << stored.error().message;
  EXPECT_EQ(f.asked("PATCH"), 2u);
}

TEST(Put, an_interrupted_upload_stays_in_the_ledger) {
  Fixture f;
  f.home.disk().put("file", sample_bytes(8 * mib));
  UploadLedger ledger(f.machine(), ".");
  f.shelf().losses = 1000;
  const auto stored = f.put("file", {.ledger = &ledger, .ledger_key = "key"});
  ASSERT_FALSE(stored);
  EXPECT_EQ(stored.error().code(), ErrorCode::connection_lost);
  const auto id = f.run(ledger.find(f.call(), "key"));
  ASSERT_TRUE(id);
  f.shelf().losses = 0;
  ASSERT_TRUE(f.put("file", {.ledger = &ledger, .ledger_key = "key"}));
  EXPECT_EQ(f.asked("POST /uploads/" + *id + "/commit"), 1u);
}

TEST(Put, an_upload_that_is_given_up_for_good_leaves_nothing_behind) {
  Fixture f;
  f.home.disk().put("file", sample_bytes(8 * mib));
  UploadLedger ledger(f.machine(), ".");
  f.shelf().parts_fit = 5;
  const auto stored = f.put("file", {.ledger = &ledger, .ledger_key = "key"});
  ASSERT_FALSE(stored);
  EXPECT_EQ(stored.error().code(), ErrorCode::storage_full);
  EXPECT_EQ(f.asked("DELETE /uploads/"), 1u);
  EXPECT_TRUE(f.shelf().uploads.empty());
  EXPECT_FALSE(f.run(ledger.find(f.call(), "key"))) << "there is nothing to go on with";
}

TEST(Put, a_stream_that_is_refused_leaves_nothing_behind_whenever_that_is) {
  for (const bool at_commit : {false, true}) {
    Fixture f;
    if (at_commit)
      f.shelf().refuse_commit = true;
    else
      f.shelf().parts_fit = 2;
    TextSource source(sample_bytes(5 * mib));
    const auto stored = f.run(put_stream(f.call(), f.storage(), &source, {}));
    ASSERT_FALSE(stored);
    EXPECT_EQ(stored.error().code(), ErrorCode::storage_full);
    EXPECT_TRUE(f.shelf().uploads.empty()) << at_commit;
  }
}

TEST(Put, an_upload_that_nobody_could_resume_is_ended_whatever_broke_it) {
  Fixture f;
  f.home.disk().put("file", sample_bytes(8 * mib));
  f.shelf().losses = 1000;
  ASSERT_FALSE(f.put("file"));
  EXPECT_TRUE(f.shelf().uploads.empty());
}

TEST(Put, lost_parts_are_sent_again) {
  Fixture f;
  const std::string bytes = sample_bytes(5 * mib);
  f.home.disk().put("file", bytes);
  f.shelf().losses = 2;
  const auto stored = f.put("file");
  ASSERT_TRUE(stored) << stored.error().message;
  EXPECT_EQ(f.shelf().objects[format_address(stored->address)], bytes);
}

TEST(Put, a_commit_whose_answer_was_lost_is_found_to_have_happened) {
  Fixture f;
  f.home.disk().put("file", sample_bytes(2 * mib));
  f.shelf().forget_commit = true;
  EXPECT_TRUE(f.put("file"));
}

TEST(Put, a_busy_server_is_waited_for_as_long_as_it_asks) {
  Fixture f;
  f.home.disk().put("file", "hello");
  f.shelf().refusals = 3;
  const Instant before = f.world.now();
  const auto stored = f.put("file");
  ASSERT_TRUE(stored) << stored.error().message;
  EXPECT_GE((f.world.now() - before).to_seconds(), 6.0);
}

TEST(Put, a_server_that_stays_busy_is_given_up_with_its_words) {
  Fixture f;
  f.home.disk().put("file", "hello");
  f.shelf().refusals = 1000;
  const auto stored = f.put("file");
  ASSERT_FALSE(stored);
  EXPECT_EQ(stored.error().code(), ErrorCode::busy);
  EXPECT_EQ(stored.error().message, "because");
  EXPECT_EQ(stored.error().corr_id, "corr-1234");
  EXPECT_NE(stored.error().asked.find("PUT /o/b3:"), std::string::npos);
  EXPECT_EQ(stored.error().asked.find("secret"), std::string::npos);
}

TEST(Put, a_silent_server_is_left_after_the_first_byte_deadline) {
  Fixture f;
  f.shelf().silent = true;
  const Instant before = f.world.now();
  const auto info = f.run(f.storage()->head(f.call(), address_of("anything")));
  ASSERT_FALSE(info);
  EXPECT_EQ(info.error().code(), ErrorCode::timeout);
  EXPECT_LT((f.world.now() - before).to_seconds(), 31.0);
}

TEST(Put, a_server_that_takes_no_bytes_is_left_after_the_stall_deadline) {
  Fixture f;
  f.shelf().deaf = true;
  const std::string bytes = sample_bytes(mib);
  const Instant before = f.world.now();
  const auto stored = f.run(f.storage()->put(f.call(), address_of(bytes), as_bytes(bytes), "text/plain"));
  ASSERT_FALSE(stored);
  EXPECT_EQ(stored.error().code(), ErrorCode::timeout);
  const double waited = (f.world.now() - before).to_seconds();
  EXPECT_GE(waited, 60.0);
  EXPECT_LT(waited, 62.0);
}

TEST(Put, a_slow_line_is_not_a_stalled_one) {
  Fixture f;
  f.world.network().faults.slow_reader = 1'000'000;
  f.world.network().faults.slow_window = 2048;  // 1 MiB takes more than a minute
  const std::string bytes = sample_bytes(mib);
  const Instant before = f.world.now();
  const auto stored = f.run(f.storage()->put(f.call(), address_of(bytes), as_bytes(bytes), "text/plain"));
  ASSERT_TRUE(stored) << stored.error().message;
  EXPECT_GT((f.world.now() - before).to_seconds(), 62.0);
}

TEST(Get, every_size_comes_back_verified) {
  Fixture f;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{65535}, std::size_t{65536},
                                 std::size_t{65537}, mib, 3 * mib + 17}) {
    const std::string bytes = sample_bytes(size);
    f.shelf().add(bytes);
    const auto got = f.get(address_of(bytes));
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_TRUE(*got == bytes);
  }
}

TEST(Get, flipped_bit_never_reaches_the_destination) {
  Fixture f;
  const std::string bytes = sample_bytes(5 * 65536 + 9);
  f.shelf().add(bytes);
  for (const std::size_t at : {std::size_t{0}, std::size_t{65536 * 3 + 5}, bytes.size() - 1}) {
    f.shelf().rot = at;
    TextDestination to(64 * mib);
    const auto got = f.run(download(f.call(), f.storage(), address_of(bytes), &to, {}));
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code(), ErrorCode::integrity);
    EXPECT_EQ(to.text(), bytes.substr(0, at / 65536 * 65536));
  }
}

TEST(Get, a_wrong_proof_is_an_integrity_failure) {
  Fixture f;
  const std::string bytes = sample_bytes(3 * 65536);
  f.shelf().add(bytes);
  f.shelf().proofs_lie = true;
  const auto got = f.get(address_of(bytes));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), ErrorCode::integrity);
}

TEST(Get, another_object_under_the_address_is_an_integrity_failure) {
  Fixture f;
  const Address address = address_of("the one");
  f.shelf().objects[format_address(address)] = "the other";
  const auto got = f.get(address);
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), ErrorCode::integrity);
}

TEST(Get, a_break_in_the_middle_goes_on_behind_the_last_verified_group) {
  Fixture f;
  const std::string bytes = sample_bytes(2 * mib);
  f.shelf().add(bytes);
  f.shelf().cut_after = 5 * 65536 + 1000;
  const auto got = f.get(address_of(bytes));
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_TRUE(*got == bytes);
  EXPECT_EQ(f.asked("GET /o/" + format_address(address_of(bytes)) + "/proof"), 1u);
}

TEST(Get, a_part_on_disk_is_verified_and_only_the_rest_transferred) {
  Fixture f;
  const std::string bytes = sample_bytes(10 * 65536 + 5);
  f.shelf().add(bytes);
  f.home.disk().put("x.part", bytes.substr(0, 4 * 65536 + 700));
  const auto file = f.open("x.part", io::OpenMode::write);
  FileDestination to(*file, *file->size());
  const auto got = f.run(download(f.call(), f.storage(), address_of(bytes), &to, {}));
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->transferred, bytes.size() - 4 * 65536);
  EXPECT_TRUE(f.read_back("x.part") == bytes);
}

TEST(Get, a_part_of_something_else_is_replaced) {
  Fixture f;
  const std::string bytes = sample_bytes(10 * 65536 + 5);
  f.shelf().add(bytes);
  std::string wrong = bytes.substr(0, 8 * 65536);
  wrong[2 * 65536 + 1] = static_cast<char>(wrong[2 * 65536 + 1] ^ 4);
  f.home.disk().put("x.part", wrong);
  const auto file = f.open("x.part", io::OpenMode::write);
  FileDestination to(*file, *file->size());
  const auto got = f.run(download(f.call(), f.storage(), address_of(bytes), &to, {}));
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(got->transferred, bytes.size() - 2 * 65536);
  EXPECT_TRUE(f.read_back("x.part") == bytes);
}

TEST(Get, the_proof_of_one_group_is_its_size_and_is_not_asked_for) {
  Fixture f;
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{65536}}) {
    const std::string bytes = sample_bytes(size);
    f.shelf().add(bytes);
    TextDestination to(mib);
    const auto got =
        f.run(download(f.call(), f.storage(), address_of(bytes), &to, {.claimed_size = bytes.size()}));
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_TRUE(to.text() == bytes);
  }
  EXPECT_EQ(f.asked("GET"), 2u);
}

TEST(Get, a_wrong_claim_of_the_size_is_an_integrity_failure) {
  Fixture f;
  const std::string bytes = sample_bytes(1000);
  f.shelf().add(bytes);
  for (const std::uint64_t claimed : {0u, 999u}) {
    TextDestination to(mib);
    const auto got =
        f.run(download(f.call(), f.storage(), address_of(bytes), &to, {.claimed_size = claimed}));
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code(), ErrorCode::integrity);
    EXPECT_TRUE(to.text().empty());
  }
}

TEST(Get, what_is_not_there_is_not_found_with_the_servers_words) {
  Fixture f;
  const auto got = f.get(address_of("nowhere"));
  ASSERT_FALSE(got);
  EXPECT_EQ(got.error().code(), ErrorCode::not_found);
  EXPECT_EQ(got.error().status, 404);
}

TEST(Resolve, a_beginning_finds_its_object_and_several_are_listed) {
  Fixture f;
  std::map<std::string, std::string> by_prefix;
  const std::string name = f.shelf().add("one");
  auto found = f.run(resolve(f.call(), f.storage(), *parse_reference(name.substr(0, 11))));
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(format_address(*found), name);
  f.shelf().objects[name.substr(0, 12) + std::string(55, '0')] = "two";
  found = f.run(resolve(f.call(), f.storage(), *parse_reference(name.substr(0, 11))));
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code(), ErrorCode::conflict);
  EXPECT_NE(found.error().message.find(name), std::string::npos);
  found = f.run(resolve(f.call(), f.storage(), *parse_reference("b3:ffffffff")));
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code(), ErrorCode::not_found);
}

TEST(Reference, is_an_address_or_six_digits_of_one_and_a_path) {
  EXPECT_FALSE(parse_reference("b3:abcde"));
  EXPECT_FALSE(parse_reference("b3:abcdeg"));
  EXPECT_FALSE(parse_reference("README.md"));
  EXPECT_FALSE(parse_reference("b3:" + std::string(65, 'a')));
  const auto reference = parse_reference("b3:ABCDEF/dir/file/");
  ASSERT_TRUE(reference);
  EXPECT_EQ(reference->text, "b3:abcdef");
  EXPECT_EQ(reference->path, "dir/file");
  EXPECT_TRUE(parse_reference("b3:" + std::string(64, 'a'))->address);
}

TEST(List, pages_follow_their_cursor) {
  Fixture f;
  for (int i = 0; i < 25; ++i) f.shelf().add(fmt::format("object {}", i));
  std::size_t count = 0;
  ListQuery query{.limit = 10};
  for (int page = 0; page < 3; ++page) {
    const auto listing = f.run(f.storage()->list(f.call(), query));
    ASSERT_TRUE(listing) << listing.error().message;
    count += listing->objects.size();
    query.after = listing->next;
  }
  EXPECT_EQ(count, 25u);
  EXPECT_TRUE(query.after.empty());
}

TEST(Missing, is_a_list_of_ascending_ranges) {
  EXPECT_TRUE(parse_missing("")->empty());
  EXPECT_EQ(parse_missing("0-9,20-29")->size(), 2u);
  EXPECT_EQ(parse_missing("0-9, 20-29")->back(), (std::pair<std::uint64_t, std::uint64_t>(20, 29)));
  for (const char* text : {"5", "9-3", "0-9,5-12", "-4", "a-b", "1-", "0-9,,20-29"})
    EXPECT_FALSE(parse_missing(text)) << text;
}

}  // namespace
}  // namespace cairn::client
