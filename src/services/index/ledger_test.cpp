#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "services/index/simulated_ledger.h"
#include "store/segment.h"

namespace cairn::index {
namespace {

http::WriteConditions if_match(std::string tags) {
  return {.if_match = std::move(tags), .if_none_match = {}};
}
const http::WriteConditions only_new{.if_match = {}, .if_none_match = "*"};

std::string name_of(unsigned number) { return "name/" + std::to_string(number); }

TEST(Ledger, a_change_that_was_answered_is_found_on_every_shard) {  // NL-1
  SimulatedLedger at(1, 3);
  ASSERT_TRUE(at.open());
  for (unsigned i = 0; i < 30; ++i) {
    const auto done = at.wait(at.start(at.set_task("docs", i, {}, i % 3), i % 3));
    ASSERT_TRUE(done);
    for (unsigned shard = 0; shard < 3; ++shard) EXPECT_EQ(at.find("docs", shard), done->state);
  }
}

TEST(Ledger, sequences_rise_by_one_across_removals) {  // NL-2
  SimulatedLedger at;
  ASSERT_TRUE(at.open());
  EXPECT_EQ(at.set("a", 1)->state.sequence, 1u);
  EXPECT_EQ(at.set("a", 2)->state.sequence, 2u);
  const auto removed = at.remove("a");
  ASSERT_TRUE(removed);
  EXPECT_EQ(removed->state.sequence, 3u);
  EXPECT_FALSE(removed->state.manifest);
  EXPECT_EQ(code_of(at.remove("a")), ErrorCode::not_found);
  const auto again = at.set("a", 4);
  EXPECT_EQ(again->state.sequence, 4u);
  EXPECT_FALSE(again->existed);
}

TEST(Ledger, a_write_whose_conditions_do_not_hold_changes_nothing) {  // NL-3
  SimulatedLedger at;
  ASSERT_TRUE(at.open());
  EXPECT_EQ(code_of(at.set("a", 1, if_match("*"))), ErrorCode::precondition_failed);
  EXPECT_EQ(code_of(at.set("a", 1, only_new)), ErrorCode::ok);
  EXPECT_EQ(code_of(at.set("a", 2, only_new)), ErrorCode::precondition_failed);
  EXPECT_EQ(code_of(at.set("a", 2, if_match("\"2\""))), ErrorCode::precondition_failed);
  EXPECT_EQ(code_of(at.set("a", 2, if_match("W/\"1\""))), ErrorCode::precondition_failed);
  EXPECT_EQ(code_of(at.set("a", 2, if_match("\"1\", \"7\""))), ErrorCode::ok);
  EXPECT_EQ(code_of(at.remove("a", if_match("\"1\""))), ErrorCode::precondition_failed);
  EXPECT_EQ(code_of(at.remove("a", if_match("\"2\""))), ErrorCode::ok);
  // A name that was removed has no tag, and may be made anew.
  EXPECT_EQ(code_of(at.set("a", 3, if_match("\"3\""))), ErrorCode::precondition_failed);
  EXPECT_EQ(code_of(at.set("a", 3, only_new)), ErrorCode::ok);
  EXPECT_EQ(at.history("a").size(), 4u);
}

TEST(Ledger, of_writers_that_race_for_one_tag_one_wins) {  // NL-3
  SimulatedLedger at(5, 2);
  ASSERT_TRUE(at.open());
  ASSERT_TRUE(at.set("a", 0));
  for (std::uint64_t sequence = 1; sequence < 10; ++sequence) {
    std::vector<std::shared_ptr<std::optional<Result<Outcome>>>> all;
    for (unsigned i = 0; i < 8; ++i)
      all.push_back(
          at.start(at.set_task("a", i, if_match('"' + std::to_string(sequence) + '"'), i % 2), i % 2));
    unsigned won = 0;
    for (auto& one : all) won += at.wait(one) ? 1 : 0;
    EXPECT_EQ(won, 1u);
    EXPECT_EQ(at.find("a")->sequence, sequence + 1);
  }
}

TEST(Ledger, what_a_refusal_was_for_survives_a_crash) {  // NL-3
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const bool removes = seed % 2 == 0;
    SimulatedLedger at(seed);
    ASSERT_TRUE(at.open());
    if (removes) ASSERT_TRUE(at.set("a", 1));
    // The first change has a commit group of its own; the other two share the next.
    const auto arrived = [&](std::uint64_t count) {
      ASSERT_TRUE(at.world.run_until([&] { return at.ledger->changes().taken() == count; }));
    };
    auto first = at.start(at.set_task("b", 1));
    arrived(1);
    auto change = at.start(removes ? at.remove_task("a") : at.set_task("a", 1));
    arrived(2);
    auto refused = at.start(removes ? at.remove_task("a") : at.set_task("a", 2, only_new));
    EXPECT_EQ(code_of(at.wait(refused)), removes ? ErrorCode::not_found : ErrorCode::precondition_failed);
    ASSERT_TRUE(at.crash());
    const auto state = at.find("a");
    EXPECT_EQ(state && state->manifest, !removes);
  }
}

TEST(Ledger, changes_of_one_name_in_one_group_follow_each_other) {  // NL-2
  SimulatedLedger at;
  ASSERT_TRUE(at.open());
  std::vector<std::shared_ptr<std::optional<Result<Outcome>>>> all;
  for (unsigned i = 0; i < 20; ++i) all.push_back(at.start(at.set_task("a", i)));
  std::set<std::uint64_t> given;
  for (auto& one : all) given.insert(at.wait(one)->state.sequence);
  EXPECT_EQ(given.size(), 20u);
  EXPECT_EQ(*given.rbegin(), 20u);
  const auto past = at.history("a", 3);
  ASSERT_EQ(past.size(), 20u);
  for (unsigned i = 0; i < 20; ++i) EXPECT_EQ(past[i].change.sequence, 20 - i);
}

TEST(Ledger, history_has_who_when_and_a_good_signature) {
  SimulatedLedger at;
  ASSERT_TRUE(at.open());
  ASSERT_TRUE(at.set("a", 1));
  ASSERT_TRUE(at.remove("a"));
  const auto past = at.history("a");
  ASSERT_EQ(past.size(), 2u);
  EXPECT_EQ(past[0].by, "tester");
  EXPECT_FALSE(past[0].change.manifest);
  EXPECT_EQ(past[1].change.manifest, sample_target(1));
  EXPECT_EQ(past[1].change.note, "note 1");
  EXPECT_LE(past[1].change.at, past[0].change.at);
  const auto bytes = at.run(at.port().read_change(at.call(), "a", 1));
  ASSERT_TRUE(bytes);
  const auto change = format::decode_name_change(as_bytes(*bytes));
  ASSERT_TRUE(change);
  EXPECT_EQ(change->key, at.options.key->public_key());
  EXPECT_EQ(code_of(at.run(at.port().history(at.call(), "b", {}, 10))), ErrorCode::not_found);
  EXPECT_EQ(code_of(at.run(at.port().read_change(at.call(), "a", 3))), ErrorCode::not_found);
}

TEST(Ledger, lists_are_in_order_and_without_removed_names_whatever_the_page) {
  SimulatedLedger at;
  ASSERT_TRUE(at.open());
  std::vector<std::string> there;
  for (unsigned i = 0; i < 60; ++i) {
    ASSERT_TRUE(at.set(name_of(i), i));
    if (i % 3 == 0)
      ASSERT_TRUE(at.remove(name_of(i)));
    else
      there.push_back(name_of(i));
  }
  ASSERT_TRUE(at.set("namf", 1));
  ASSERT_TRUE(at.set("name", 1));
  std::ranges::sort(there);
  for (const std::size_t limit : {1u, 2u, 7u, 40u, 41u, 1000u}) {
    std::vector<std::string> listed;
    for (const ListedName& one : at.list("name/", limit)) listed.push_back(one.name);
    EXPECT_EQ(listed, there) << limit;
  }
  EXPECT_EQ(at.list("").size(), there.size() + 2);
  EXPECT_TRUE(at.list("nothing").empty());
  EXPECT_EQ(at.status().names, there.size() + 2);
}

TEST(Ledger, a_long_row_of_removed_names_ends_a_page_and_not_the_list) {
  SimulatedLedger at;
  ASSERT_TRUE(at.open());
  const auto in_turns = [&](auto task) {
    for (unsigned i = 0; i < 4500; i += 250) {
      std::vector<std::shared_ptr<std::optional<Result<Outcome>>>> all;
      for (unsigned j = i; j < i + 250; ++j) all.push_back(at.start(task(name_of(10000 + j))));
      for (auto& one : all) ASSERT_TRUE(at.wait(one));
    }
  };
  in_turns([&](std::string name) { return at.set_task(std::move(name), 1); });
  in_turns([&](std::string name) { return at.remove_task(std::move(name)); });
  ASSERT_TRUE(at.set("name/z", 1));
  const auto first = at.run(at.port().list(at.call(), "", "", 10));
  ASSERT_TRUE(first);
  EXPECT_TRUE(first->names.empty());
  EXPECT_TRUE(first->next);
  EXPECT_EQ(at.list("", 10).size(), 1u);
}

TEST(Ledger, a_restart_finds_everything_whether_it_was_closed_or_not) {
  for (const int way : {0, 1, 2}) {
    SimulatedLedger at;
    ASSERT_TRUE(at.open());
    for (unsigned i = 0; i < 50; ++i) ASSERT_TRUE(at.set(name_of(i % 20), i));
    ASSERT_TRUE(at.remove(name_of(3)));
    const std::string manifest = sample_manifest(1);
    ASSERT_TRUE(at.put_manifest(manifest));
    const auto before = at.map();
    const auto totals =
        std::tuple(at.status().names.load(), at.status().changes.load(), at.status().manifests.load());
    if (way == 0) ASSERT_TRUE(at.close());
    if (way == 2) at.disk().lose_unsynced();
    ASSERT_TRUE(way == 2 ? at.crash() : at.open());
    EXPECT_TRUE(std::ranges::equal(before, at.map(), [](const auto& a, const auto& b) {
      return a.key == b.key && a.value == b.value;
    })) << way;
    EXPECT_EQ(totals,
              std::tuple(at.status().names.load(), at.status().changes.load(), at.status().manifests.load()));
    EXPECT_EQ(at.read_manifest(crypto::hash_object(as_bytes(manifest))).value(), manifest);
    EXPECT_EQ(at.set(name_of(3), 1)->state.sequence, 5u);
  }
}

TEST(Ledger, a_map_made_anew_equals_the_one_that_was_kept) {  // NX-1
  SimulatedLedger at;
  ASSERT_TRUE(at.open());
  for (unsigned i = 0; i < 200; ++i) {
    ASSERT_TRUE(i % 7 == 6 ? at.remove(name_of((i - 1) % 40)) : at.set(name_of(i % 40), i));
    if (i % 50 == 0) ASSERT_TRUE(at.put_manifest(sample_manifest(i)));
  }
  const auto before = at.map();
  ASSERT_TRUE(at.close());
  ASSERT_TRUE(at.run(at.maker.destroy(at.call(), at.machine(), "index/index")));
  ASSERT_TRUE(at.open());
  EXPECT_GT(at.status().replayed, 200u);
  EXPECT_TRUE(std::ranges::equal(
      before, at.map(), [](const auto& a, const auto& b) { return a.key == b.key && a.value == b.value; }));
}

TEST(Ledger, a_change_that_the_disk_does_not_read_is_never_taken_for_lost) {
  for (std::uint64_t nth = 1; nth < 20; ++nth) {
    SimulatedLedger at;
    ASSERT_TRUE(at.open());
    for (unsigned i = 0; i < 3; ++i) ASSERT_TRUE(at.set("a", i));
    at.stop();
    ASSERT_TRUE(at.run(at.maker.destroy(at.call(), at.machine(), "index/index")));
    at.disk().fail_call(io::sim::DiskCall::read, nth, io::sim::DiskFailure::error, nth % 2 == 0);
    if (at.open()) EXPECT_EQ(at.history("a").size(), 3u) << nth;
    at.disk().heal();
    ASSERT_TRUE(at.open());
    EXPECT_EQ(at.history("a").size(), 3u) << nth;
  }
}

TEST(Ledger, rot_in_the_log_is_told_when_it_is_met_and_takes_nothing_that_the_map_has) {
  SimulatedLedger at;
  ASSERT_TRUE(at.open());
  for (unsigned i = 1; i <= 3; ++i) ASSERT_TRUE(at.set("a", i));
  const auto second = at.run(at.port().read_change(at.call(), "a", 2)).value();
  ASSERT_TRUE(at.close());
  const std::string path = store::segment_path("index/segments", 1);
  ASSERT_TRUE(at.disk().rot(path, at.disk().view().text(path).find(second) + 10));
  ASSERT_TRUE(at.open());
  EXPECT_EQ(at.status().damaged, 0u);
  EXPECT_EQ(at.history("a").size(), 3u);
  ASSERT_TRUE(at.close());
  ASSERT_TRUE(at.run(at.maker.destroy(at.call(), at.machine(), "index/index")));
  ASSERT_TRUE(at.open());
  EXPECT_EQ(at.status().damaged, 1u);
  const auto past = at.history("a");
  ASSERT_EQ(past.size(), 2u);
  EXPECT_EQ(past[0].change.sequence, 3u);
  EXPECT_EQ(past[1].change.sequence, 1u);
  EXPECT_EQ(at.status().changes, 2u);
  EXPECT_EQ(at.set("a", 4)->state.sequence, 4u);
}

TEST(Ledger, a_start_on_a_full_disk_never_answers_without_what_the_log_has) {
  SimulatedLedger at(1, 1, {.unwritten_max = 1});
  ASSERT_TRUE(at.open());
  constexpr unsigned names = 600;
  for (unsigned i = 0; i < names; ++i) ASSERT_TRUE(at.set(name_of(i), i));
  at.stop();
  // The map has nothing yet, and the disk takes nothing.
  ASSERT_TRUE(at.run(at.maker.destroy(at.call(), at.machine(), "index/index")));
  ASSERT_TRUE(at.run(at.maker.open(at.call(), at.machine(), "index/index")));
  at.disk().set_capacity(at.disk().used());
  if (at.open()) EXPECT_EQ(at.list().size(), names);
  at.disk().set_capacity(UINT64_MAX);
  ASSERT_TRUE(at.open());
  EXPECT_EQ(at.list().size(), names);
}

TEST(Ledger, the_space_kept_free_makes_room_for_the_map) {
  SimulatedLedger at(1, 1, {.unwritten_max = 1});
  at.options.reserve = 1u << 20;
  ASSERT_TRUE(at.open());
  constexpr unsigned names = 600;
  for (unsigned i = 0; i < names; ++i) ASSERT_TRUE(at.set(name_of(i), i));
  at.stop();
  ASSERT_TRUE(at.run(at.maker.destroy(at.call(), at.machine(), "index/index")));
  ASSERT_TRUE(at.run(at.maker.open(at.call(), at.machine(), "index/index")));
  at.disk().set_capacity(at.disk().used());
  ASSERT_TRUE(at.open());
  EXPECT_EQ(at.list().size(), names);
}

TEST(Ledger, a_log_that_is_gone_is_not_begun_anew_while_the_map_has_it) {
  SimulatedLedger at;
  ASSERT_TRUE(at.open());
  ASSERT_TRUE(at.set("a", 1));
  ASSERT_TRUE(at.close());
  const io::sim::Image whole = at.disk().durable();
  for (const auto& [path, entry] : whole.names)
    if (path.starts_with("index/segments/")) at.disk().take_away(path);
  for (int start = 0; start < 2; ++start) EXPECT_EQ(code_of(at.open()), ErrorCode::integrity);
  // With its log back it is as it was.
  for (const auto& [path, entry] : whole.names)
    if (path.starts_with("index/segments/")) at.disk().put(path, whole.text(path));
  ASSERT_TRUE(at.open());
  EXPECT_EQ(at.find("a")->sequence, 1u);
}

TEST(Ledger, what_the_log_has_lost_at_its_end_is_answered_from_the_map) {
  SimulatedLedger at;
  ASSERT_TRUE(at.open());
  ASSERT_TRUE(at.set("a", 1));
  ASSERT_TRUE(at.set("a", 2));
  ASSERT_TRUE(at.close());
  at.disk().take_away(store::segment_path("index/segments", 1));
  ASSERT_TRUE(at.open());
  EXPECT_GT(at.status().damaged, 0u);
  EXPECT_EQ(at.history("a").size(), 2u);
  EXPECT_EQ(at.set("a", 3)->state.sequence, 3u);
}

TEST(Ledger, a_manifest_whose_bytes_do_not_match_is_never_returned_and_dropped) {
  SimulatedLedger at;
  ASSERT_TRUE(at.open());
  for (const unsigned entries : {1u, 2000u}) {
    const std::string bytes = sample_manifest(entries, entries);
    const Address address = crypto::hash_object(as_bytes(bytes));
    ASSERT_TRUE(at.put_manifest(bytes));
    const std::string path = store::segment_path("index/segments", 1);
    const std::size_t place = at.disk().view().text(path).find(bytes);
    ASSERT_NE(place, std::string::npos);
    ASSERT_TRUE(at.disk().rot(path, place + bytes.size() / 2));
    EXPECT_EQ(code_of(at.read_manifest(address)), ErrorCode::integrity);
    at.world.run_for(Duration::seconds(1));
    EXPECT_EQ(code_of(at.read_manifest(address)), ErrorCode::not_found);
    const auto again = at.put_manifest(bytes);
    ASSERT_TRUE(again);
    EXPECT_FALSE(again->existed);
    EXPECT_EQ(at.read_manifest(address).value(), bytes);
  }
  const std::uint64_t kept = at.status().manifests;
  ASSERT_TRUE(at.close());
  ASSERT_TRUE(at.run(at.maker.destroy(at.call(), at.machine(), "index/index")));
  ASSERT_TRUE(at.open());
  EXPECT_EQ(at.status().manifests, kept);
}

TEST(Ledger, a_manifest_that_was_put_again_is_not_forgotten_for_its_old_bytes) {
  SimulatedLedger at;
  ASSERT_TRUE(at.open());
  const std::string bytes = sample_manifest(1);
  const Address address = crypto::hash_object(as_bytes(bytes));
  const auto place = [&] {
    ManifestPlace found;
    const auto kv = at.ledger->make_kv(at.machine());
    const auto value = at.run(kv->get(at.call(), manifest_key(address))).value();
    CHECK(value && decode(as_bytes(*value), found));
    return found.at;
  };
  const auto forget = [&](store::Position where) {
    auto mutation = std::make_unique<Mutation>(Mutation::Kind::forget_manifest);
    mutation->manifest = address;
    mutation->at = where;
    EXPECT_TRUE(at.run(at.port().submit(at.call(), std::move(mutation))));
  };
  ASSERT_TRUE(at.put_manifest(bytes));
  const store::Position first = place();
  forget(first);
  EXPECT_EQ(code_of(at.read_manifest(address)), ErrorCode::not_found);
  ASSERT_TRUE(at.put_manifest(bytes));
  EXPECT_NE(place(), first);
  forget(first);
  EXPECT_EQ(at.read_manifest(address).value(), bytes);
}

TEST(Ledger, a_map_of_another_log_is_made_anew) {
  SimulatedLedger at(1), other(2);
  ASSERT_TRUE(at.open());
  ASSERT_TRUE(at.set("a", 1));
  ASSERT_TRUE(at.close());
  ASSERT_TRUE(other.open());
  ASSERT_TRUE(other.set("b", 1));
  ASSERT_TRUE(other.set("b", 2));
  ASSERT_TRUE(other.close());
  at.disk().put("index/index/map", other.disk().view().text("index/index/map"));
  ASSERT_TRUE(at.open());
  EXPECT_EQ(at.find("a")->sequence, 1u);
  EXPECT_FALSE(at.find("b"));
  EXPECT_EQ(at.status().names, 1u);
  EXPECT_EQ(at.list().size(), 1u);
}

TEST(Ledger, a_manifest_that_is_there_is_not_written_again) {
  SimulatedLedger at;
  ASSERT_TRUE(at.open());
  const std::string bytes = sample_manifest(1);
  auto first = at.start(at.put_manifest_task(bytes)), second = at.start(at.put_manifest_task(bytes));
  EXPECT_NE(at.wait(first)->existed, at.wait(second)->existed);
  const std::uint64_t size = at.status().log_bytes;
  EXPECT_TRUE(at.put_manifest(bytes)->existed);
  EXPECT_EQ(at.status().log_bytes, size);
}

TEST(Ledger, a_full_disk_refuses_changes_and_answers_reads) {
  SimulatedLedger at;
  ASSERT_TRUE(at.open());
  at.start_tending();
  ASSERT_TRUE(at.set("a", 1));
  at.disk().set_capacity(at.disk().used() + 100);
  EXPECT_EQ(code_of(at.put_manifest(sample_manifest(1, 1000))), ErrorCode::storage_full);
  EXPECT_FALSE(at.ledger->writable());
  EXPECT_EQ(at.find("a")->sequence, 1u);
  at.disk().set_capacity(UINT64_MAX);
  at.world.run_for(Duration::seconds(2));
  EXPECT_TRUE(at.ledger->writable());
  EXPECT_TRUE(at.put_manifest(sample_manifest(1, 1000)));
}

TEST(Ledger, a_damaged_map_is_never_a_missing_name_and_the_next_start_makes_it_anew) {
  SimulatedLedger at;
  ASSERT_TRUE(at.open());
  at.start_tending();
  ASSERT_TRUE(at.set("a", 1));
  ASSERT_TRUE(at.set("b", 1));
  at.maker.damage("index/index", name_key("a"), name_key("aa"));
  EXPECT_EQ(code_of(at.run(at.port().find_name(at.call(), "a"))), ErrorCode::degraded);
  EXPECT_EQ(code_of(at.set("a", 2)), ErrorCode::degraded);
  EXPECT_EQ(code_of(at.set("c", 2)), ErrorCode::degraded);
  EXPECT_EQ(at.find("b")->sequence, 1u);
  at.world.run_for(Duration::seconds(2));
  at.kill();
  ASSERT_TRUE(at.open());
  EXPECT_EQ(at.find("a")->sequence, 1u);
  EXPECT_EQ(at.set("a", 2)->state.sequence, 2u);
}

TEST(Ledger, a_queue_that_is_full_refuses) {
  SimulatedLedger at;
  at.options.changes_max = 4;
  ASSERT_TRUE(at.open());
  std::vector<std::shared_ptr<std::optional<Result<Outcome>>>> all;
  for (unsigned i = 0; i < 10; ++i) all.push_back(at.start(at.set_task(name_of(i), i)));
  unsigned done = 0, busy = 0;
  for (auto& one : all) {
    const ErrorCode code = code_of(at.wait(one));
    done += code == ErrorCode::ok ? 1 : 0;
    busy += code == ErrorCode::busy ? 1 : 0;
  }
  EXPECT_EQ(done, 4u);
  EXPECT_EQ(busy, 6u);
}

}  // namespace
}  // namespace cairn::index
