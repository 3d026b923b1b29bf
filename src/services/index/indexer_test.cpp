#include "services/index/indexer.h"

#include <gtest/gtest.h>

#include "services/index/simulated_ledger.h"
#include "store/object_format.h"

namespace cairn::index {
namespace {

// The map of an indexer, on a simulated disk.
struct IndexedMap {
  IndexedMap() {
    engine = at.run(at.maker.open(at.call(), at.machine(), "map")).value();
    kv = engine->make_port(at.machine());
  }
  ~IndexedMap() {
    kv.reset();
    engine.reset();
  }
  void apply(const store::Entry& entry) { ASSERT_TRUE(at.run(indexer().apply(at.call(), entry))); }
  void write(const store::LogPoint& point) {
    ASSERT_TRUE(at.run(kv->write(at.call(), indexer().take(point))));
  }
  Indexer& indexer() {
    if (!made) made = std::make_unique<Indexer>(*kv);
    return *made;
  }
  std::map<std::string, std::string> entries() {
    std::map<std::string, std::string> all;
    for (store::KvPair& one : at.run(kv->scan(at.call(), std::string(1, '\0'), "\x7f", 1000)).value())
      all[std::move(one.key)] = std::move(one.value);
    return all;
  }

  SimulatedLedger at;
  std::shared_ptr<store::KvEngine> engine;
  std::unique_ptr<store::Kv> kv;
  std::unique_ptr<Indexer> made;
};

store::Entry entry_of(RecordKind kind, std::string meta, std::uint32_t number) {
  store::Entry entry;
  entry.header.kind = static_cast<std::uint8_t>(kind);
  entry.header.sequence = number;
  entry.at = {1, 1000 * number};
  entry.meta = std::move(meta);
  return entry;
}

store::Entry change_of(const IndexedMap& map, std::uint64_t sequence, std::optional<Address> manifest,
                       std::uint32_t number) {
  format::NameChange change{.name = "docs", .manifest = manifest, .sequence = sequence};
  auto record = format::sign_name_change(change, *map.at.options.key).value();
  return entry_of(RecordKind::change, encode(ChangeRecord{"tester", std::move(record)}), number);
}

TEST(Indexer, a_record_that_is_taken_in_again_changes_nothing) {  // NX-1
  IndexedMap map;
  const std::string manifest = encode_address(sample_target(9));
  const std::vector<store::Entry> records{change_of(map, 1, sample_target(1), 1),
                                          change_of(map, 2, std::nullopt, 2),
                                          change_of(map, 3, sample_target(3), 3),
                                          entry_of(RecordKind::manifest, manifest, 4),
                                          entry_of(RecordKind::forget_manifest, manifest, 5),
                                          entry_of(RecordKind::manifest, manifest, 6)};
  for (const store::Entry& one : records) map.apply(one);
  const Totals totals = map.indexer().totals();
  EXPECT_EQ(totals, (Totals{.names = 1, .changes = 3, .manifests = 1}));
  map.write({6, {1, 7000}});
  const auto before = map.entries();
  for (const store::Entry& one : records) {
    map.apply(one);
    EXPECT_EQ(map.indexer().totals(), totals);
  }
  map.write({6, {1, 7000}});
  EXPECT_EQ(map.entries(), before);
}

TEST(Indexer, changes_and_the_position_they_stand_for_reach_the_map_together) {  // NX-2
  IndexedMap map;
  map.apply(change_of(map, 1, sample_target(1), 1));
  EXPECT_TRUE(map.entries().empty());
  map.write({1, {1, 2000}});
  const auto entries = map.entries();
  EXPECT_EQ(entries.size(), 4u);  // the name, its change, the totals, the position
  Indexer again(*map.kv);
  const auto point = map.at.run(again.load(map.at.call()));
  ASSERT_TRUE(point);
  EXPECT_EQ(point->sequence, 1u);
  EXPECT_EQ(again.totals(), map.indexer().totals());
}

TEST(Indexer, what_is_forgotten_was_never_there) {
  IndexedMap map;
  map.apply(change_of(map, 1, sample_target(1), 1));
  map.write({1, {1, 2000}});
  map.apply(change_of(map, 2, std::nullopt, 2));
  map.indexer().forget();
  EXPECT_EQ(map.indexer().totals(), (Totals{.names = 1, .changes = 1, .manifests = 0}));
  EXPECT_EQ(map.at.run(map.indexer().name(map.at.call(), "docs")).value()->sequence, 1u);
}

}  // namespace
}  // namespace cairn::index
