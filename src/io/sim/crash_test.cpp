#include "io/sim/crash.h"

#include <gtest/gtest.h>

#include <set>

#include "io/sim/world.h"

namespace cairn::io::sim {
namespace {

Change write_at(std::uint64_t inode, std::uint64_t offset, std::string_view text) {
  Change change{};
  change.kind = Change::Kind::write;
  change.inode = inode;
  change.offset = offset;
  const ByteView bytes = as_bytes(text);
  change.bytes = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
  return change;
}
Change name_change(Change::Kind kind, std::uint64_t inode, std::string path, std::string from = {}) {
  Change change{};
  change.kind = kind;
  change.inode = inode;
  change.path = std::move(path);
  change.from = std::move(from);
  return change;
}

std::string settled(const DiskSnapshot& snapshot, std::vector<Fate> fates, std::string_view path = "f") {
  RandomChoices choices(1);
  return settle(snapshot, fates, choices).text(path);
}

TEST(Crash, each_fate_of_a_write) {
  DiskSnapshot snapshot;
  snapshot.durable.put("f", std::string(600, 'o'), 1);
  snapshot.pending.push_back(write_at(1, 500, std::string(200, 'n')));
  const std::string before = std::string(500, 'o');
  EXPECT_EQ(settled(snapshot, {Fate::dropped}), std::string(600, 'o'));
  EXPECT_EQ(settled(snapshot, {Fate::kept}), before + std::string(200, 'n'));
  EXPECT_EQ(settled(snapshot, {Fate::head}), before + std::string(100, 'n'));
  EXPECT_EQ(settled(snapshot, {Fate::tail}), std::string(600, 'o') + std::string(100, 'n'));
  EXPECT_EQ(settled(snapshot, {Fate::grown}), std::string(600, 'o') + std::string(100, '\0'));
  for (const Fate fate : {Fate::garbled, Fate::grown_garbage, Fate::scattered}) {
    const std::string found = settled(snapshot, {fate});
    EXPECT_EQ(found.size(), 700u);
    EXPECT_TRUE(found.starts_with(before));
  }
  EXPECT_NE(settled(snapshot, {Fate::garbled}), before + std::string(200, 'n'));
}

TEST(Crash, without_powersafe_overwrite_a_torn_sector_takes_its_neighbours_along) {
  DiskSnapshot snapshot;
  snapshot.durable.put("f", std::string(100, 'o'), 1);
  snapshot.pending.push_back(write_at(1, 100, std::string(10, 'n')));
  EXPECT_TRUE(settled(snapshot, {Fate::garbled}).starts_with(std::string(100, 'o')));
  snapshot.powersafe_overwrite = false;
  EXPECT_FALSE(settled(snapshot, {Fate::garbled}).starts_with(std::string(100, 'o')));
}

TEST(Crash, a_sector_is_written_back_with_all_it_held) {
  DiskSnapshot snapshot;
  snapshot.durable.put("f", "", 1);
  snapshot.pending.push_back(write_at(1, 0, "first "));
  snapshot.pending.push_back(write_at(1, 6, "second"));
  snapshot.pending.push_back(write_at(1, 512, "far"));
  EXPECT_EQ(settled(snapshot, {Fate::dropped, Fate::kept, Fate::dropped}), "first second");
  EXPECT_EQ(settled(snapshot, {Fate::kept, Fate::dropped, Fate::dropped}), "first ");
  EXPECT_EQ(settled(snapshot, {Fate::dropped, Fate::dropped, Fate::kept}), std::string(512, '\0') + "far");
}

TEST(Crash, a_dropped_truncate_leaves_the_old_tail) {
  DiskSnapshot snapshot;
  snapshot.durable.put("f", "0123456789", 1);
  Change cut{};
  cut.kind = Change::Kind::resize;
  cut.inode = 1;
  cut.offset = 4;
  snapshot.pending.push_back(cut);
  EXPECT_EQ(settled(snapshot, {Fate::dropped}), "0123456789");
  EXPECT_EQ(settled(snapshot, {Fate::kept}), "0123");
}

TEST(Crash, names_are_independent_and_files_without_a_directory_are_lost) {
  DiskSnapshot snapshot;
  snapshot.durable.put("old", "x", 1);
  snapshot.pending.push_back(name_change(Change::Kind::make_directory, 0, "d"));
  snapshot.pending.push_back(name_change(Change::Kind::create, 2, "d/tmp"));
  snapshot.pending.push_back(write_at(2, 0, "new"));
  snapshot.pending.push_back(name_change(Change::Kind::rename, 2, "d/f", "d/tmp"));
  snapshot.pending.push_back(name_change(Change::Kind::unlink, 1, "old"));
  const Fate k = Fate::kept;
  const Fate d = Fate::dropped;
  RandomChoices choices(1);
  Probes probes;
  const Image lost = settle(snapshot, std::vector<Fate>{d, k, k, k, d}, choices, &probes);
  EXPECT_EQ(lost.names.size(), 1u);
  EXPECT_EQ(lost.text("old"), "x");
  EXPECT_GT(probes.count("disk.reordered"), 0u);
  const Image renamed = settle(snapshot, std::vector<Fate>{k, d, k, k, k}, choices);
  EXPECT_EQ(renamed.text("d/f"), "new");
  EXPECT_EQ(renamed.find("d/tmp"), nullptr);
  EXPECT_EQ(renamed.find("old"), nullptr);
  const Image empty = settle(snapshot, std::vector<Fate>{k, k, d, d, k}, choices);
  EXPECT_NE(empty.find("d/tmp"), nullptr);
  EXPECT_EQ(empty.text("d/tmp"), "");
}

TEST(Crash, enumeration_visits_every_subset_once) {
  DiskSnapshot snapshot;
  snapshot.durable.put("f", std::string(4 * 512, '.'), 1);
  for (std::uint64_t i = 0; i < 4; ++i) snapshot.pending.push_back(write_at(1, i * 512, "xyz"));
  std::set<std::string> states;
  CrashOptions plain;
  plain.tears = false;
  const auto visit = [&](const CrashState& state) {
    EXPECT_EQ(state.hash, state.image.hash());
    EXPECT_TRUE(states.insert(state.image.text("f")).second);
    return true;
  };
  EXPECT_EQ(crash_states(snapshot, visit, plain), 16u);
  EXPECT_EQ(states.size(), 16u);
  states.clear();
  EXPECT_GT(crash_states(snapshot, visit), 16u);  // and the torn ones
}

TEST(Crash, many_pending_changes_are_sampled_and_a_visitor_can_stop) {
  DiskSnapshot snapshot;
  snapshot.durable.put("f", std::string(20 * 512, '.'), 1);
  for (std::uint64_t i = 0; i < 20; ++i) snapshot.pending.push_back(write_at(1, i * 512, "xyz"));
  std::size_t visits = 0;
  CrashOptions plain;
  plain.tears = false;
  const std::size_t all = crash_states(snapshot, [](const CrashState&) { return true; }, plain);
  EXPECT_GT(all, 60u);
  EXPECT_LE(all, 2u + 40u + 64u);
  EXPECT_EQ(crash_states(snapshot, [&](const CrashState&) { return ++visits < 5; }), 5u);
}

TEST(Crash, an_image_can_be_mounted_and_its_copies_are_independent) {
  World world(1);
  Node& node = world.add_node("a");
  Image image;
  image.put("f", "hello", 7);
  Image copy = image;
  node.disk().load(image);
  EXPECT_EQ(node.disk().view().text("f"), "hello");
  EXPECT_TRUE(node.disk().rot("f", 0));
  EXPECT_EQ(copy.text("f"), "hello");
  EXPECT_EQ(copy.hash(), image.hash());
  EXPECT_NE(node.disk().view().hash(), image.hash());
  EXPECT_EQ(node.disk().used(), 5u);
}

TEST(Image, the_hash_knows_contents_and_names_and_nothing_else) {
  Image a, b;
  a.put("x", "1", 1);
  a.put("y", "2", 2);
  b.put("y", "2", 9);
  b.put("x", "1", 8);
  EXPECT_EQ(a.hash(), b.hash());
  b.put("x", "2", 8);
  EXPECT_NE(a.hash(), b.hash());
  Image zeros, hole;
  zeros.put("z", std::string(5000, '\0'), 1);
  hole.put("z", "", 1);
  hole.own(1).resize(5000);
  EXPECT_EQ(zeros.hash(), hole.hash());
}

}  // namespace
}  // namespace cairn::io::sim
