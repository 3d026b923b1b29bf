// Rot: found, named by version, not read, nothing signed over it, the rest served.
#include <gtest/gtest.h>

#include "services/registry/simulated_registry.h"
#include "store/simulated_log.h"

namespace cairn::registry {
namespace {

// Four versions with a checkpoint in between and at the end, and a proposal behind them that proves them all.
class Sample : public SimulatedRegistry {
 public:
  Sample() : SimulatedRegistry(Founding(1, {1}, 4)) {
    CHECK(open());
    CHECK(advance(with_regions({10})));
    CHECK(advance_in_full(20));
    CHECK(checkpoint());
    CHECK(advance(with_regions({20, 21, 22, 23, 24})));
    CHECK(advance(with_regions({30})));
    CHECK(checkpoint());
    CHECK(propose(with_regions({40})));
  }
  std::vector<store::Entry> entries() {
    store::LogOptions log_options;
    log_options.directory = options.directory + "/segments";
    log_options.reserve = 0;
    store::Collected found;
    store::LogReport report;
    CHECK(run(store::Log::open(call(), machine(), log_options, {}, found, report)));
    return std::move(found.entries);
  }
};

// Versions that cannot be read without a record. `maybe`: those whose lists refer to it, and may need what is
// left of it only.
std::set<std::uint64_t> users_of(const std::vector<store::Entry>& entries, const store::Entry& damaged,
                                 const std::vector<std::set<Hash>>& items, std::set<std::uint64_t>& maybe) {
  std::set<std::uint64_t> out;
  const auto kind = static_cast<RecordKind>(damaged.header.kind);
  if (kind == RecordKind::commit) {
    CommitRecord record;
    CHECK(decode(as_bytes(damaged.meta), record));
    out.insert(format::decode_commit(as_bytes(record.commit)).value().version);
  } else if (kind == RecordKind::item) {
    const Hash hash = crypto::hash_object(as_bytes(damaged.meta)).bytes;
    for (std::uint64_t v = 0; v < items.size(); ++v)
      if (items[v].contains(hash)) out.insert(v);
  } else if (kind == RecordKind::proposal) {
    ProposalRecord record;
    CHECK(decode(as_bytes(damaged.meta), record));
    if (record.set.version >= items.size()) return out;
    out.insert(record.set.version);
    for (const store::Entry& entry : entries) {
      ProposalRecord other;
      if (entry.header.kind == damaged.header.kind && decode(as_bytes(entry.meta), other) &&
          other.list.base == record.set.version && other.set.version < items.size())
        maybe.insert(other.set.version);
    }
  }
  return out;
}

void flip_every_record(bool with_snapshot) {
  Sample place;
  const std::uint64_t size = place.size();
  std::vector<std::set<Hash>> items;
  for (std::uint64_t v = 0; v < size; ++v) {
    items.emplace_back();
    const auto set = format::decode_descriptor_set(as_bytes((*place.read(v))->payload)).value();
    for (const std::string& item : set.items) items.back().insert(crypto::hash_object(as_bytes(item)).bytes);
  }
  if (with_snapshot) ASSERT_TRUE(place.snapshot());
  place.stop();
  const std::string note = place.file("checkpoint");
  const std::vector<store::Entry> entries = place.entries();
  const io::sim::Image image = place.disk().view();
  for (const store::Entry& entry : entries) {
    // The last batch has nothing behind it that proves it.
    if (entry.header.sequence + 2 > entries.back().header.sequence) break;
    SCOPED_TRACE(testing::Message() << "record " << entry.header.sequence << " of kind "
                                    << int{entry.header.kind});
    place.stop();
    place.disk().load(image);
    ASSERT_TRUE(place.disk().rot(store::segment_path("registry/segments", entry.at.segment),
                                 entry.at.offset + store::record_header_size + entry.meta.size() / 2));
    ASSERT_TRUE(place.open());
    ASSERT_EQ(place.size(), size);
    ASSERT_TRUE(place.verify());
    std::set<std::uint64_t> maybe;
    const std::set<std::uint64_t> users = users_of(entries, entry, items, maybe);
    for (std::uint64_t v = 0; v < size; ++v) {
      const auto read = place.read(v);
      EXPECT_EQ(place.bad().contains(v), !read) << v;
      if (!read) EXPECT_EQ(code_of(read), ErrorCode::integrity) << v;
      if (!maybe.contains(v)) EXPECT_EQ(!read, users.contains(v)) << v;
    }
    if (users.empty()) continue;
    EXPECT_EQ(place.status().bad, place.bad().size());
    EXPECT_FALSE(place.registry->writable(place.world.now()));
    EXPECT_FALSE(place.checkpoint());
    EXPECT_EQ(place.file("checkpoint"), note);
    EXPECT_EQ(code_of(place.propose(place.with_regions({50}))), ErrorCode::degraded);
    // What retention would prune is not thrown away either.
    const auto report = place.verify_files();
    ASSERT_TRUE(report);
    EXPECT_TRUE(report->bad_version);
    if (report->bad_version) EXPECT_EQ(*report->bad_version, *users.begin()) << report->why;
  }
}

TEST(Damage, a_flipped_bit_in_any_record_is_found_named_and_not_served) { flip_every_record(false); }
TEST(Damage, also_behind_a_snapshot) { flip_every_record(true); }

TEST(Damage, leaves_that_the_log_lost_are_healed_from_the_tiles) {
  Sample place;
  const auto root = place.ledger([](Ledger& ledger) { return ledger.tree().root(); });
  const Place commit = place.ledger([](Ledger& ledger) { return ledger.version(2).commit; });
  place.stop();
  ASSERT_TRUE(place.disk().rot(store::segment_path("registry/segments", commit.at.segment),
                               commit.at.offset + store::record_header_size + 9));
  ASSERT_TRUE(place.open());
  place.ledger([&](Ledger& ledger) {
    EXPECT_EQ(ledger.provable(), ledger.size());
    EXPECT_EQ(ledger.tree().root(), root);
  });
  EXPECT_EQ(code_of(place.read(2)), ErrorCode::integrity);
}

TEST(Damage, without_tiles_only_what_is_before_it_can_be_proved) {
  Sample place;
  const Place commit = place.ledger([](Ledger& ledger) { return ledger.version(2).commit; });
  place.stop();
  io::sim::Image image = place.disk().view();
  std::erase_if(image.names, [](const auto& name) { return name.first.starts_with("registry/tile"); });
  image.prune([](std::uint64_t) { return false; });
  place.disk().load(image);
  ASSERT_TRUE(place.disk().rot(store::segment_path("registry/segments", commit.at.segment),
                               commit.at.offset + store::record_header_size + 9));
  ASSERT_TRUE(place.open());
  EXPECT_EQ(place.ledger([](Ledger& ledger) { return ledger.provable(); }), 2u);
  ASSERT_TRUE(place.verify());
  EXPECT_EQ(place.bad().size(), 1u);
  EXPECT_TRUE(place.read(3) && place.read(4) && place.read(1));
  EXPECT_FALSE(place.checkpoint());
}

// [RH-5]
TEST(Damage, what_is_signed_was_read_back) {
  SimulatedRegistry place;
  ASSERT_TRUE(place.open());
  ASSERT_TRUE(place.advance(place.with_regions({1})));
  ASSERT_TRUE(place.checkpoint());
  const std::string note = place.file("checkpoint");
  ASSERT_TRUE(place.advance(place.with_regions({2})));
  const Place commit = place.ledger([](Ledger& ledger) { return ledger.version(2).commit; });
  ASSERT_TRUE(place.disk().rot(store::segment_path("registry/segments", commit.at.segment),
                               commit.at.offset + store::record_header_size + commit.meta_size - 4));
  EXPECT_EQ(code_of(place.checkpoint()), ErrorCode::integrity);
  EXPECT_EQ(place.ledger([](Ledger& ledger) { return ledger.checkpoint()->size; }), 2u);
  EXPECT_EQ(place.file("checkpoint"), note);
  EXPECT_TRUE(place.bad().contains(2));
}

TEST(Damage, a_proposal_that_lost_an_item_is_not_committed) {
  SimulatedRegistry place;
  ASSERT_TRUE(place.open());
  const auto proposed = place.propose(place.with_regions({1}));
  ASSERT_TRUE(proposed && place.approve(*proposed, 1));
  ASSERT_TRUE(place.propose(place.with_regions({2})));
  const Place item = place.ledger([](Ledger& ledger) {
    return ledger.find_item(crypto::hash_object(as_bytes(sample_region(1))).bytes)->place;
  });
  place.stop();
  ASSERT_TRUE(place.disk().rot(store::segment_path("registry/segments", item.at.segment),
                               item.at.offset + store::record_header_size + 3));
  ASSERT_TRUE(place.open());
  EXPECT_EQ(code_of(place.commit(proposed->id)), ErrorCode::integrity);
  EXPECT_EQ(place.size(), 1u);
  // Proposed again it is written again.
  const auto again = place.advance(place.with_regions({1}));
  ASSERT_TRUE(again);
  EXPECT_TRUE(place.read(1));
}

TEST(Damage, verifying_files_finds_damage_at_the_very_end_where_the_snapshot_knows_of_it) {
  Sample place;
  ASSERT_TRUE(place.checkpoint());
  ASSERT_TRUE(place.advance(place.with_regions({60})));
  const Place commit = place.ledger([](Ledger& ledger) { return ledger.version(ledger.size() - 1).commit; });
  const std::uint64_t version = place.head().version;
  const std::string path = store::segment_path("registry/segments", commit.at.segment);
  const std::uint64_t at = commit.at.offset + store::record_header_size + 10;
  place.stop();
  // Nobody can tell it from a record that a crash cut off: it is the last, and no proof is above it.
  const io::sim::Image before = place.disk().view();
  ASSERT_TRUE(place.disk().rot(path, at));
  auto report = place.verify_files();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->versions, version);
  EXPECT_EQ(report->why, "");
  place.disk().load(before);
  ASSERT_TRUE(place.open());
  ASSERT_TRUE(place.close());
  report = place.verify_files();
  ASSERT_TRUE(report && report->why.empty());
  ASSERT_TRUE(place.disk().rot(path, at));
  report = place.verify_files();
  ASSERT_TRUE(report);
  EXPECT_EQ(report->bad_version, version);
  EXPECT_EQ(report->why, "the log after the last version is damaged");
}

TEST(Damage, a_damaged_snapshot_is_made_anew) {
  Sample place;
  const Head head = place.head();
  ASSERT_TRUE(place.close());
  ASSERT_TRUE(place.disk().rot("registry/state", 100));
  ASSERT_TRUE(place.open());
  EXPECT_EQ(place.head(), head);
  EXPECT_TRUE(place.bad().empty());
  EXPECT_EQ(place.status().pending, 1u);
}

// Segments of an older copy, with the snapshot of a later time beside them. Without checkpoint and tiles it
// is the only one who knows.
void restore_under_snapshot(Sample& place, const io::sim::Image& before) {
  ASSERT_TRUE(place.close());
  const std::string state = place.file("state");
  place.disk().load(before);
  (void)place.run(place.machine().disk.unlink(place.call(), "registry/checkpoint"));
  place.disk().put("registry/state", state);
}

TEST(Damage, a_snapshot_ahead_of_its_log_is_loss_and_fences) {
  Sample place;
  const io::sim::Image before = place.disk().view();
  const Head head = place.head();
  ASSERT_TRUE(place.advance(place.with_regions({60})));
  restore_under_snapshot(place, before);
  // Also after it was stopped in order: what knows of the loss is kept.
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(place.open());
    EXPECT_EQ(place.head(), head);
    EXPECT_TRUE(place.read(head.version));
    EXPECT_TRUE(place.status().fenced);
    EXPECT_EQ(code_of(place.advance(place.with_regions({61}))), ErrorCode::degraded);
    EXPECT_FALSE(place.checkpoint());
    ASSERT_TRUE(place.close());
  }
  // Whoever takes the loss away with it goes on.
  (void)place.run(place.machine().disk.unlink(place.call(), "registry/state"));
  ASSERT_TRUE(place.open());
  EXPECT_TRUE(place.advance(place.with_regions({61})));
}

TEST(Damage, a_snapshot_of_another_history_fences) {
  Sample place;
  const io::sim::Image before = place.disk().view();
  ASSERT_TRUE(place.advance(place.with_regions({60})));
  ASSERT_TRUE(place.close());
  const std::string state = place.file("state");
  place.disk().load(before);
  ASSERT_TRUE(place.open());
  for (unsigned i = 61; i < 64; ++i) ASSERT_TRUE(place.advance(place.with_regions({i})));
  place.stop();
  place.disk().put("registry/state", state);
  ASSERT_TRUE(place.open());
  EXPECT_TRUE(place.status().fenced);
}

TEST(Damage, a_snapshot_without_a_log_begins_no_new_one) {
  Sample place;
  ASSERT_TRUE(place.close());
  const std::string state = place.file("state");
  place.disk().load({});
  place.disk().put("registry/state", state);
  EXPECT_EQ(code_of(place.open()), ErrorCode::integrity);
}

}  // namespace
}  // namespace cairn::registry
