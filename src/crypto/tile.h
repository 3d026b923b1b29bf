// Tiles (C2SP tlog-tiles): a Merkle tree as files that never change, and their names.
//
// A tile of level L holds 256 consecutive hashes of level 8 * L of the tree; the levels between are hashed
// from them. The last tile of a level may be partial: a later one with the same index and more hashes
// replaces it. An entry bundle holds the entries themselves, 256 a bundle, numbered like the tiles of level
// 0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace cairn::crypto {

inline constexpr unsigned tile_height = 8;
inline constexpr unsigned tile_width_max = 1u << tile_height;
inline constexpr std::uint8_t tile_level_max = 63;
inline constexpr std::size_t entry_size_max = 65535;

struct TileId {
  std::uint8_t level = 0;  // 0..63; 0 for entries
  bool entries = false;
  std::uint64_t index = 0;
  unsigned width = tile_width_max;  // 1..256; fewer than 256 is a partial tile

  friend bool operator==(const TileId&, const TileId&) = default;
};

// "tile/0/x001/x234/067", "tile/1/000.p/17", "tile/entries/000". Precondition: level and width in their
// ranges.
std::string format_tile_path(const TileId& tile);
// Accepts only the output of format_tile_path().
std::optional<TileId> parse_tile_path(std::string_view path) noexcept;

// How many hashes the tile has in a tree of `size` leaves: 0 if there is none, 256 if it is full.
unsigned tile_width(std::uint8_t level, std::uint64_t index, std::uint64_t size) noexcept;
// The tiles with hashes, not the bundles, that a tree of `size` leaves has and one of `since` leaves had not,
// by level and index: one for each 256 new leaves, so mind the size.
std::vector<TileId> tiles_for(std::uint64_t size, std::uint64_t since = 0);

// The place of a node's hash: it is the root over `count` (a power of two) hashes of the tile.
struct TilePlace {
  TileId tile;  // of full width
  unsigned offset = 0;
  unsigned count = 1;

  friend bool operator==(const TilePlace&, const TilePlace&) = default;
};
// Precondition: level < 64.
TilePlace tile_of(unsigned level, std::uint64_t index) noexcept;

// Precondition: at most entry_size_max bytes.
void append_entry(std::string& bundle, ByteView entry);
// Views of exactly `count` entries that are all of the bundle, else malformed.
Result<std::vector<ByteView>> parse_entries(ByteView bundle, unsigned count);

}  // namespace cairn::crypto
