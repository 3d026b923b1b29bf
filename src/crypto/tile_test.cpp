#include "crypto/tile.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <limits>

#include "crypto/merkle.h"

namespace cairn::crypto {
namespace {

constexpr std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();

TEST(Tile, known_paths) {
  const std::pair<TileId, const char*> known[] = {
      {{.level = 0, .index = 0}, "tile/0/000"},
      {{.level = 0, .index = 1234067}, "tile/0/x001/x234/067"},
      {{.level = 1, .index = 999}, "tile/1/999"},
      {{.level = 63, .index = 1000}, "tile/63/x001/000"},
      {{.level = 2, .index = 7, .width = 17}, "tile/2/007.p/17"},
      {{.level = 0, .index = 5000, .width = 255}, "tile/0/x005/000.p/255"},
      {{.entries = true, .index = 273, .width = 112}, "tile/entries/273.p/112"},
      {{.entries = true, .index = 1000000}, "tile/entries/x001/x000/000"},
      {{.index = largest}, "tile/0/x018/x446/x744/x073/x709/x551/615"},
  };
  for (const auto& [tile, path] : known) {
    EXPECT_EQ(format_tile_path(tile), path);
    EXPECT_EQ(parse_tile_path(path), tile) << path;
  }
}

TEST(Tile, every_other_path_is_refused) {
  for (const char* path : {
           "",
           "tile",
           "tile/",
           "tile/0",
           "tile/0/",
           "/tile/0/000",
           "tile/0/000/",
           "tile//000",
           "tile/00/000",
           "tile/01/000",
           "tile/64/000",
           "tile/256/000",
           "tile/-1/000",
           "tile/+1/000",
           "tile/x/000",
           "tile/0 /000",
           "tile/Entries/000",
           "tile/entries",
           "tile/entries/0/000",
           "tile/0/0",
           "tile/0/00",
           "tile/0/0000",
           "tile/0/x000",
           "tile/0/x000/000",
           "tile/0/x000/x001/000",
           "tile/0/001/000",
           "tile/0/x001",
           "tile/0/x001/",
           "tile/0/x001/x000",
           "tile/0/x0001/000",
           "tile/0/X001/000",
           "tile/0/x001//000",
           "tile/0/00a",
           "tile/0/-01",
           "tile/0/000.p",
           "tile/0/000.p/",
           "tile/0/000.p/0",
           "tile/0/000.p/256",
           "tile/0/000.p/01",
           "tile/0/000.p/+1",
           "tile/0/000.p/1/",
           "tile/0/000.p/1.p/1",
           "tile/0/x001.p/1/000",
           "tile/0/.p/1",
           "tile/0/000.p/4294967297",
           "tile/0/x018/x446/x744/x073/x709/x551/616",
           "tile/0/x019/x000/x000/x000/x000/x000/000",
           "tile/0/x001/x000/x000/x000/x000/x000/x000/000",
           "tile/0/000?",
           "checkpoint",
       })
    EXPECT_FALSE(parse_tile_path(path)) << path;
  EXPECT_FALSE(parse_tile_path(std::string_view("tile/0/000\0", 11)));
}

RC_GTEST_PROP(Tile, paths_round_trip, ()) {
  TileId tile;
  tile.entries = *rc::gen::arbitrary<bool>();
  tile.level = static_cast<std::uint8_t>(tile.entries ? 0 : *rc::gen::inRange(0, 64));
  tile.index = *rc::gen::arbitrary<std::uint64_t>() >> *rc::gen::inRange(0, 64);
  tile.width = *rc::gen::inRange(1u, 257u);
  RC_ASSERT(parse_tile_path(format_tile_path(tile)) == tile);
}

TEST(Tile, a_tree_of_70000_has_the_tiles_that_the_definition_names) {
  const auto tiles = tiles_for(70'000);
  ASSERT_EQ(tiles.size(), 273u + 1 + 1 + 1 + 1);
  EXPECT_EQ(tiles[0], (TileId{.level = 0, .index = 0}));
  EXPECT_EQ(tiles[272], (TileId{.level = 0, .index = 272}));
  EXPECT_EQ(tiles[273], (TileId{.level = 0, .index = 273, .width = 112}));
  EXPECT_EQ(tiles[274], (TileId{.level = 1, .index = 0}));
  EXPECT_EQ(tiles[275], (TileId{.level = 1, .index = 1, .width = 17}));
  EXPECT_EQ(tiles[276], (TileId{.level = 2, .index = 0, .width = 1}));
  EXPECT_TRUE(tiles_for(0).empty());
  const std::vector<TileId> of_256 = {{.level = 0, .index = 0}, {.level = 1, .index = 0, .width = 1}};
  EXPECT_EQ(tiles_for(256), of_256);
}

TEST(Tile, growth_brings_only_the_tiles_that_changed) {
  const std::vector<TileId> grown = {
      {.level = 0, .index = 1}, {.level = 0, .index = 2, .width = 1}, {.level = 1, .index = 0, .width = 2}};
  EXPECT_EQ(tiles_for(513, 300), grown);
  EXPECT_TRUE(tiles_for(513, 513).empty());
  EXPECT_TRUE(tiles_for(513, 600).empty());
  const std::vector<TileId> one = {{.level = 0, .index = 2, .width = 2}};
  EXPECT_EQ(tiles_for(514, 513), one);
}

TEST(Tile, width_says_what_a_tree_has) {
  EXPECT_EQ(tile_width(0, 0, 0), 0u);
  EXPECT_EQ(tile_width(0, 0, 255), 255u);
  EXPECT_EQ(tile_width(0, 0, 256), 256u);
  EXPECT_EQ(tile_width(0, 1, 256), 0u);
  EXPECT_EQ(tile_width(1, 0, 255), 0u);
  EXPECT_EQ(tile_width(1, 0, 256), 1u);
  EXPECT_EQ(tile_width(7, 0, largest), 255u);
  EXPECT_EQ(tile_width(8, 0, largest), 0u);
  EXPECT_EQ(tile_width(63, 0, largest), 0u);
  EXPECT_EQ(tile_width(0, largest, largest), 0u);
}

TEST(Tile, every_node_is_found_in_its_tile) {
  MerkleTree tree;
  for (int i = 0; i < 1500; ++i) tree.append(hash_leaf(as_bytes(std::to_string(i))));
  for (unsigned level = 0; tree.size() >> level != 0; ++level) {
    for (std::uint64_t index = 0; index < tree.size() >> level; ++index) {
      const TilePlace place = tile_of(level, index);
      const unsigned width = tile_width(place.tile.level, place.tile.index, tree.size());
      ASSERT_LE(place.offset + place.count, width);
      const auto hashes =
          tree.nodes(place.tile.level * tile_height, place.tile.index * tile_width_max, width);
      MerkleFrontier root;
      for (const MerkleHash& hash : hashes.subspan(place.offset, place.count)) root.append(hash);
      ASSERT_EQ(root.root(), tree.nodes(level, index, 1)[0]) << level << ' ' << index;
    }
  }
  EXPECT_EQ(tile_of(8, 257), (TilePlace{.tile = {.level = 1, .index = 1}, .offset = 1, .count = 1}));
  EXPECT_EQ(tile_of(63, 1), (TilePlace{.tile = {.level = 7, .index = 0}, .offset = 128, .count = 128}));
  EXPECT_EQ(tile_of(0, largest), (TilePlace{.tile = {.index = largest >> 8}, .offset = 255, .count = 1}));
}

TEST(EntryBundle, entries_round_trip) {
  const std::vector<std::string> entries = {"", "a", std::string(300, 'b'), std::string(entry_size_max, 'c'),
                                            ""};
  std::string bundle;
  for (const std::string& entry : entries) append_entry(bundle, as_bytes(entry));
  EXPECT_EQ(bundle.substr(0, 7), std::string("\0\0\0\1a\x01\x2c", 7));
  const auto parsed = parse_entries(as_bytes(bundle), 5);
  ASSERT_TRUE(parsed);
  ASSERT_EQ(parsed->size(), entries.size());
  for (std::size_t i = 0; i < entries.size(); ++i) EXPECT_EQ(as_text((*parsed)[i]), entries[i]);
  EXPECT_TRUE(parse_entries({}, 0));
}

TEST(EntryBundle, another_number_of_entries_or_a_cut_is_malformed) {
  std::string bundle;
  append_entry(bundle, as_bytes("one"));
  append_entry(bundle, as_bytes("two"));
  EXPECT_TRUE(parse_entries(as_bytes(bundle), 2));
  for (unsigned count : {0u, 1u, 3u, 256u, ~0u})
    EXPECT_FALSE(parse_entries(as_bytes(bundle), count)) << count;
  for (std::size_t size = 0; size < bundle.size(); ++size)
    EXPECT_FALSE(parse_entries(as_bytes(bundle.substr(0, size)), 2)) << size;
  EXPECT_FALSE(parse_entries(as_bytes(bundle + '\0'), 2));
}

TEST(EntryBundle, an_entry_that_has_no_length_is_a_bug_of_the_caller) {
  std::string bundle;
  EXPECT_DEATH(append_entry(bundle, as_bytes(std::string(entry_size_max + 1, 'x'))), "entry_size_max");
}

}  // namespace
}  // namespace cairn::crypto
