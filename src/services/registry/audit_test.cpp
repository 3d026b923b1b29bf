// The audit trail: what is counted, what is told alone, and a ring that survives anything but its own room.
#include "services/registry/audit.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "crypto/macaroon.h"
#include "services/registry/simulated_registry.h"

namespace cairn::registry {
namespace {

constexpr WallTime noon{1'800'000'000'000};

WallTime after(std::int64_t ms) { return {noon.ms + ms}; }

AuditEvent refusal(std::string who = "", std::string code = "unauthorized", WallTime at = noon) {
  AuditEvent event;
  event.at = at;
  event.op = "propose";
  event.code = std::move(code);
  event.who = std::move(who);
  return event;
}

// [AU-2]
TEST(AuditTable, refusals_without_a_capability_are_one_event_for_each_operation_reason_and_second) {
  AuditTable table;
  for (int i = 0; i < 1000; ++i) table.note(refusal("", "unauthorized", after(i)));
  for (int i = 0; i < 5; ++i) table.note(refusal("", "quota", after(i)));
  AuditEvent other = refusal();
  other.op = "commit";
  table.note(other);
  table.note(refusal("", "unauthorized", after(1000)));
  // The second that is not over may still grow.
  const auto events = table.take(after(1000), false);
  ASSERT_EQ(events.size(), 3u);
  std::uint64_t unauthorized = 0;
  for (const AuditEvent& event : events) {
    EXPECT_EQ(event.at.ms, noon.ms);
    EXPECT_EQ(event.who, "");
    if (event.op == "propose" && event.code == "unauthorized") unauthorized = event.count;
  }
  EXPECT_EQ(unauthorized, 1000u);
  const auto rest = table.take(after(1000), true);
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0].at.ms, after(1000).ms);
  EXPECT_TRUE(table.take(after(9000), true).empty());
}

// [AU-3]
TEST(AuditTable, a_token_s_refusals_are_told_alone_until_it_has_no_turns_left) {
  AuditTable table;
  for (unsigned i = 0; i < AuditTable::alone_per_minute + 10; ++i)
    table.note(refusal("flood", "invalid_sig", after(i)));
  table.note(refusal("other", "invalid_sig", after(500)));
  const auto events = table.take(after(60'000), false);
  ASSERT_EQ(events.size(), AuditTable::alone_per_minute + 2);
  EXPECT_EQ(std::ranges::count(events, "other", &AuditEvent::who), 1);
  const auto counted = std::ranges::find(events, 10u, &AuditEvent::count);
  ASSERT_NE(counted, events.end());
  EXPECT_EQ(counted->who, "flood");
  // Another minute, other turns.
  table.note(refusal("flood", "invalid_sig", after(60'001)));
  table.note(refusal("flood", "invalid_sig", after(60'001)));
  EXPECT_EQ(table.take(after(60'001), false).size(), 2u);
}

TEST(AuditTable, tokens_beyond_those_it_can_tell_apart_are_counted) {
  AuditTable table;
  for (std::size_t i = 0; i < AuditTable::tokens_max; ++i)
    EXPECT_TRUE(table.take_turn("token " + std::to_string(i), noon));
  EXPECT_FALSE(table.take_turn("one more", noon));
  EXPECT_TRUE(table.take_turn("token 0", noon));
}

// [AU-1]
TEST(AuditTable, what_finds_no_room_is_counted_as_dropped) {
  AuditTable table;
  for (std::size_t i = 0; i < audit_capacity + 7; ++i) table.add(refusal("who"));
  table.count(refusal());
  EXPECT_EQ(table.take(after(5000), true).size(), audit_capacity);
  EXPECT_EQ(table.take_dropped(), 8u);
  EXPECT_EQ(table.take_dropped(), 0u);
}

TEST(AuditTable, events_come_in_the_order_of_their_times) {
  AuditTable table;
  table.add(refusal("who", "ok", after(100)));
  table.add(refusal("who", "ok", after(3100)));
  table.count(refusal("", "quota", after(2500)));
  table.count(refusal("", "quota", after(1500)));
  std::vector<std::int64_t> times;
  for (const AuditEvent& event : table.take(after(9000), false)) times.push_back(event.at.ms - noon.ms);
  EXPECT_EQ(times, (std::vector<std::int64_t>{100, 1000, 2000, 3100}));
}

AuditSlot sample_slot() {
  AuditSlot slot{70000, refusal("0123456789abcdef/fedcba9876543210", "invalid_sig")};
  slot.event.count = 12;
  slot.event.id = Ulid{1, 2};
  slot.event.hash = crypto::hash_object(as_bytes("payload"));
  return slot;
}

TEST(AuditSlot, is_read_back_as_it_was_written_and_never_otherwise) {
  const AuditSlot slot = sample_slot();
  const std::string bytes = encode_slot(slot);
  ASSERT_EQ(bytes.size(), audit_slot_size);
  const auto read = decode_slot(as_bytes(bytes));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->sequence, slot.sequence);
  EXPECT_EQ(read->event, slot.event);
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    ASSERT_FALSE(decode_slot(as_bytes(flipped))) << bit;
  }
  EXPECT_FALSE(decode_slot(as_bytes(std::string(audit_slot_size, '\0'))));
  EXPECT_FALSE(decode_slot(as_bytes(bytes.substr(1))));
}

RC_GTEST_PROP(AuditSlot, whatever_is_written_can_be_read_and_says_the_same_when_written_again, ()) {
  AuditSlot slot{*rc::gen::positive<std::uint64_t>(), {}};
  slot.event.at = {*rc::gen::inRange<std::int64_t>(0, format::registry_time_max.ms)};
  slot.event.count = *rc::gen::positive<std::uint64_t>();
  slot.event.op = *rc::gen::arbitrary<std::string>();
  slot.event.code = *rc::gen::arbitrary<std::string>();
  slot.event.who = *rc::gen::arbitrary<std::string>();
  const std::string bytes = encode_slot(slot);
  RC_ASSERT(bytes.size() == audit_slot_size);
  const auto read = decode_slot(as_bytes(bytes));
  RC_ASSERT(read.has_value());
  RC_ASSERT(encode_slot(*read) == bytes);
}

RC_GTEST_PROP(AuditSlot, arbitrary_bytes_are_no_slot, ()) {
  const auto bytes = *rc::gen::container<std::string>(audit_slot_size, rc::gen::arbitrary<char>());
  RC_ASSERT(!decode_slot(as_bytes(bytes)));
}

// With the seal that docs/formats/registry.md names: what is taken is what would have been written.
RC_GTEST_PROP(AuditSlot, a_sealed_body_of_any_bytes_is_refused_or_has_one_spelling, ()) {
  std::string bytes = encode_slot(sample_slot()).substr(0, audit_slot_size - 8);
  for (unsigned i = *rc::gen::inRange(0u, 12u); i > 0; --i)
    bytes[*rc::gen::inRange<std::size_t>(0, bytes.size())] =
        *rc::gen::element('\0', ' ', 'a', '\x7f', '\xff');
  const Address seal = crypto::hash_object(as_bytes(std::string("cairn.audit\0\1", 13) + bytes));
  bytes += as_text(seal.bytes).substr(0, 8);
  if (const auto read = decode_slot(as_bytes(bytes))) RC_ASSERT(encode_slot(*read) == bytes);
}

// A registry whose ring has few slots.
class Trail : public SimulatedRegistry {
 public:
  explicit Trail(std::uint64_t slots = 8) : SimulatedRegistry(Founding(2, {1, 2})) {
    options.audit.slots = slots;
    CHECK(open());
  }
  void note(std::string code) {
    registry->audit().with([&](AuditTable& table) { table.add(refusal("who", std::move(code), wall())); });
  }
  Result<> flush(bool all = true) { return run(home().auditor().flush(call(), all)); }
  AuditPage page(std::optional<std::uint64_t> behind = std::nullopt, std::uint64_t limit = 1000) {
    return run(port().read_audit(call(), behind, limit)).value();
  }
  // "SEQUENCE OP CODE" of each.
  std::vector<std::string> told(std::optional<std::uint64_t> behind = std::nullopt,
                                std::uint64_t limit = 1000) {
    std::vector<std::string> out;
    for (const AuditSlot& slot : page(behind, limit).events)
      out.push_back(std::to_string(slot.sequence) + " " + slot.event.op + " " + slot.event.code);
    return out;
  }
};

using Lines = std::vector<std::string>;

TEST(AuditTrail, tells_of_every_change_who_asked_for_it_and_what_became_of_it) {
  Trail place(64);
  const auto proposed = place.propose(place.with_regions({1}));
  ASSERT_TRUE(proposed && place.approve(*proposed, 1));
  EXPECT_FALSE(place.approve(*proposed, 1));
  EXPECT_FALSE(place.commit(proposed->id));
  ASSERT_TRUE(place.approve(*proposed, 2) && place.commit(proposed->id));
  EXPECT_TRUE(place.commit(proposed->id)->existed);
  ASSERT_TRUE(place.flush());
  EXPECT_EQ(place.told(), (Lines{"1 propose ok", "2 approve ok", "3 approve duplicate_approval",
                                 "4 commit quorum_failed", "5 approve ok", "6 commit ok", "7 commit ok"}));
  for (const AuditSlot& slot : place.page().events) {
    EXPECT_EQ(slot.event.id, proposed->id) << slot.sequence;
    if (slot.sequence < 7) EXPECT_EQ(slot.event.hash, proposed->payload_b3) << slot.sequence;
    EXPECT_EQ(slot.event.who, slot.event.op == "propose"   ? "proposer"
                              : slot.event.op == "approve" ? "approver"
                                                           : "committer");
  }
}

TEST(AuditTrail, comes_in_pages_the_newest_without_a_place_to_go_on_from) {
  Trail place(64);
  for (const char* code : {"a", "b", "c", "d", "e"}) place.note(code);
  ASSERT_TRUE(place.flush());
  EXPECT_EQ(place.told(std::nullopt, 2), (Lines{"4 propose d", "5 propose e"}));
  EXPECT_EQ(place.page(0, 2).next, 2u);
  EXPECT_EQ(place.told(2, 2), (Lines{"3 propose c", "4 propose d"}));
  EXPECT_EQ(place.told(4, 2), (Lines{"5 propose e"}));
  EXPECT_FALSE(place.page(4, 2).next);
  EXPECT_TRUE(place.told(5).empty());
  EXPECT_TRUE(place.told(~std::uint64_t{0}).empty());
}

TEST(AuditTrail, the_ring_keeps_the_newest_and_never_more_than_its_slots) {
  Trail place(4);
  for (unsigned i = 0; i < 11; ++i) {
    place.note("c" + std::to_string(i));
    if (i % 3 == 0) ASSERT_TRUE(place.flush());
  }
  ASSERT_TRUE(place.flush());
  EXPECT_EQ(place.told(0), (Lines{"8 propose c7", "9 propose c8", "10 propose c9", "11 propose c10"}));
  EXPECT_EQ(place.file("audit").size(), 4 * audit_slot_size);
}

TEST(AuditTrail, goes_on_behind_what_is_there_after_a_kill_and_after_a_loss_of_power) {
  Trail place(4);
  for (const char* code : {"a", "b", "c", "d", "e"}) place.note(code);
  ASSERT_TRUE(place.flush());
  place.kill();
  ASSERT_TRUE(place.open());
  place.note("f");
  ASSERT_TRUE(place.flush());
  EXPECT_EQ(place.told(0), (Lines{"3 propose c", "4 propose d", "5 propose e", "6 propose f"}));
  // Nothing of it was synced: all of it may be gone, and nothing else minds.
  ASSERT_TRUE(place.crash());
  ASSERT_TRUE(place.propose(place.with_regions({1})));
  ASSERT_TRUE(place.flush());
  EXPECT_FALSE(place.told().empty());
}

TEST(AuditTrail, what_is_torn_or_somebody_else_s_is_left_out_and_the_rest_is_told) {
  Trail place(8);
  for (const char* code : {"a", "b", "c", "d"}) place.note(code);
  ASSERT_TRUE(place.flush());
  ASSERT_TRUE(place.disk().rot("registry/audit", audit_slot_size + 40));
  EXPECT_EQ(place.told(0), (Lines{"1 propose a", "3 propose c", "4 propose d"}));
  // The last one is not known to have been there.
  ASSERT_TRUE(place.disk().rot("registry/audit", 3 * audit_slot_size + 40));
  place.kill();
  ASSERT_TRUE(place.open());
  place.note("e");
  ASSERT_TRUE(place.flush());
  EXPECT_EQ(place.told(0), (Lines{"1 propose a", "3 propose c", "4 propose e"}));
}

TEST(AuditTrail, a_slot_in_another_s_place_is_none) {
  Trail place(8);
  const std::string moved = encode_slot({100, refusal("who", "moved")}),
                    last = encode_slot({2, refusal("who", "b")});
  ASSERT_TRUE(place.run(replace_file(place.call(), place.machine(), "registry/audit", moved + last)));
  place.note("c");
  ASSERT_TRUE(place.flush());
  EXPECT_EQ(place.told(0), (Lines{"2 propose b", "3 propose c"}));
  // As if it had gone round meanwhile: what is there is not what was asked for.
  place.status().audit_next = 13;
  EXPECT_TRUE(place.told(0).empty());
}

// [AU-1]
TEST(AuditTrail, a_ring_that_cannot_be_written_drops_events_and_refuses_nothing) {
  Trail place(8);
  place.note("a");
  ASSERT_TRUE(place.flush());
  place.note("b");
  place.disk().fail_call(io::sim::DiskCall::write, 1);
  EXPECT_FALSE(place.flush());
  EXPECT_EQ(place.status().audit_dropped, 1u);
  EXPECT_FALSE(place.status().fenced);
  const auto proposed = place.propose(place.with_regions({1}));
  ASSERT_TRUE(proposed && place.approve(*proposed, 1) && place.approve(*proposed, 2));
  ASSERT_TRUE(place.commit(proposed->id));
  ASSERT_TRUE(place.flush());
  EXPECT_EQ(place.told(0),
            (Lines{"1 propose a", "2 propose ok", "3 approve ok", "4 approve ok", "5 commit ok"}));
}

TEST(AuditTrail, the_ring_does_not_grow_on_a_full_disk) {
  Trail place(8);
  place.note("a");
  ASSERT_TRUE(place.flush());
  place.status().full = true;
  place.note("b");
  EXPECT_FALSE(place.flush());
  EXPECT_EQ(place.file("audit").size(), audit_slot_size);
  EXPECT_EQ(place.status().audit_dropped, 1u);
}

TEST(AuditTrail, the_ring_is_never_synced_for_itself) {
  Trail place(8);
  const auto syncs = place.disk().calls(io::sim::DiskCall::sync_data);
  const auto names = place.disk().calls(io::sim::DiskCall::sync_directory);
  for (unsigned i = 0; i < 20; ++i) {
    place.note("a");
    ASSERT_TRUE(place.flush());
  }
  EXPECT_EQ(place.disk().calls(io::sim::DiskCall::sync_data), syncs);
  EXPECT_EQ(place.disk().calls(io::sim::DiskCall::sync_directory), names);
}

// [AU-3]
TEST(AuditTrail, a_token_that_floods_takes_no_room_of_the_log_beyond_its_turns) {
  Trail place(256);
  const auto proposed = place.propose(place.with_regions({1}));
  ASSERT_TRUE(proposed);
  const auto end = [&] { return place.status().log_bytes.load(); };
  for (unsigned i = 0; i < AuditTable::alone_per_minute; ++i) EXPECT_FALSE(place.approve(*proposed, 9));
  const std::uint64_t full = end();
  for (unsigned i = 0; i < 100; ++i) EXPECT_EQ(code_of(place.approve(*proposed, 9)), ErrorCode::invalid_sig);
  EXPECT_EQ(end(), full);
  EXPECT_EQ(place.status().refused, AuditTable::alone_per_minute + 100u);
  ASSERT_TRUE(place.flush());
  std::uint64_t told = 0, alone = 0;
  for (const AuditSlot& slot : place.page().events) {
    if (slot.event.code != "invalid_sig") continue;
    EXPECT_EQ(slot.event.who, "approver");
    told += slot.event.count;
    alone += slot.event.count == 1;
  }
  EXPECT_EQ(told, AuditTable::alone_per_minute + 100u);
  EXPECT_GE(alone, AuditTable::alone_per_minute);
  // Another token has its own.
  const std::uint64_t before = end();
  EXPECT_FALSE(place.commit(proposed->id));
  EXPECT_GT(end(), before);
}

TEST(AuditTrail, what_a_fenced_or_full_registry_sheds_is_told_too) {
  Trail place(64);
  place.status().fenced = true;
  EXPECT_EQ(code_of(place.propose(place.with_regions({1}))), ErrorCode::degraded);
  place.status().fenced = false;
  ASSERT_TRUE(place.flush());
  EXPECT_EQ(place.told(), (Lines{"1 propose degraded"}));
}

TEST(AuditTrail, a_close_writes_what_was_still_to_be_written) {
  Trail place(64);
  ASSERT_TRUE(place.propose(place.with_regions({1})));
  ASSERT_TRUE(place.close());
  ASSERT_TRUE(place.open());
  ASSERT_TRUE(place.flush());
  place.note("a");
  ASSERT_TRUE(place.flush());
  EXPECT_EQ(place.told(), (Lines{"1 propose ok", "2 propose a"}));
}

}  // namespace
}  // namespace cairn::registry
