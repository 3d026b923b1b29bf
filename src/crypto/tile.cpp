#include "crypto/tile.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>

#include "base/check.h"

namespace cairn::crypto {
namespace {

constexpr std::string_view root = "tile/";
constexpr std::string_view entries_level = "entries";
constexpr std::string_view partial = ".p/";

// Decimal without leading zeros.
std::optional<unsigned> parse_number(std::string_view text, unsigned max) noexcept {
  unsigned value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value > max) return std::nullopt;
  if (text.size() > 1 && text.starts_with('0')) return std::nullopt;
  return value;
}

// Groups of three digits, all but the last behind an x, the first of several not 000.
std::optional<std::uint64_t> parse_index(std::string_view text) noexcept {
  std::uint64_t index = 0;
  for (bool first = true;; first = false) {
    const bool more = text.starts_with('x');
    if (more) text.remove_prefix(1);
    if (text.size() < 3) return std::nullopt;
    unsigned group = 0;
    for (char c : text.substr(0, 3)) {
      if (c < '0' || c > '9') return std::nullopt;
      group = group * 10 + static_cast<unsigned>(c - '0');
    }
    text.remove_prefix(3);
    if (first && more && group == 0) return std::nullopt;
    if (__builtin_mul_overflow(index, 1000u, &index) || __builtin_add_overflow(index, group, &index))
      return std::nullopt;
    if (!more) return text.empty() ? std::optional(index) : std::nullopt;
    if (!text.starts_with('/')) return std::nullopt;
    text.remove_prefix(1);
  }
}

// The hashes that a tree has at a tile level.
std::uint64_t hashes_at(unsigned tile_level, std::uint64_t size) noexcept {
  const unsigned level = tile_level * tile_height;
  return level < 64 ? size >> level : 0;
}

}  // namespace

std::string format_tile_path(const TileId& tile) {
  CHECK(tile.level <= tile_level_max && (!tile.entries || tile.level == 0));
  CHECK(tile.width >= 1 && tile.width <= tile_width_max);
  std::string path(root);
  path += tile.entries ? std::string(entries_level) : std::to_string(tile.level);
  std::uint64_t scale = 1;
  while (tile.index / scale >= 1000) scale *= 1000;
  for (; scale > 1; scale /= 1000)
    fmt::format_to(std::back_inserter(path), "/x{:03}", tile.index / scale % 1000);
  fmt::format_to(std::back_inserter(path), "/{:03}", tile.index % 1000);
  if (tile.width < tile_width_max) fmt::format_to(std::back_inserter(path), "{}{}", partial, tile.width);
  return path;
}

std::optional<TileId> parse_tile_path(std::string_view path) noexcept {
  if (!path.starts_with(root)) return std::nullopt;
  path.remove_prefix(root.size());
  TileId tile;
  const std::size_t slash = path.find('/');
  if (slash == path.npos) return std::nullopt;
  const std::string_view level = path.substr(0, slash);
  path.remove_prefix(slash + 1);
  if (level == entries_level) {
    tile.entries = true;
  } else if (const auto number = parse_number(level, tile_level_max)) {
    tile.level = static_cast<std::uint8_t>(*number);
  } else {
    return std::nullopt;
  }
  if (const std::size_t suffix = path.find(partial); suffix != path.npos) {
    const auto width = parse_number(path.substr(suffix + partial.size()), tile_width_max - 1);
    if (!width || *width == 0) return std::nullopt;
    tile.width = *width;
    path = path.substr(0, suffix);
  }
  const auto index = parse_index(path);
  if (!index) return std::nullopt;
  tile.index = *index;
  return tile;
}

unsigned tile_width(std::uint8_t level, std::uint64_t index, std::uint64_t size) noexcept {
  const std::uint64_t hashes = hashes_at(level, size);
  const std::uint64_t full = hashes / tile_width_max;
  if (index < full) return tile_width_max;
  return index == full ? static_cast<unsigned>(hashes % tile_width_max) : 0;
}

std::vector<TileId> tiles_for(std::uint64_t size, std::uint64_t since) {
  std::vector<TileId> tiles;
  for (std::uint8_t level = 0; hashes_at(level, size) != 0; ++level) {
    const std::uint64_t hashes = hashes_at(level, size), had = hashes_at(level, since);
    if (hashes <= had) continue;
    for (std::uint64_t index = had / tile_width_max; index <= (hashes - 1) / tile_width_max; ++index)
      tiles.push_back({.level = level, .index = index, .width = tile_width(level, index, size)});
  }
  return tiles;
}

TilePlace tile_of(unsigned level, std::uint64_t index) noexcept {
  CHECK(level < 64);
  const unsigned above = level % tile_height;
  const std::uint64_t in_tile = index & ((tile_width_max >> above) - 1);
  return {.tile = {.level = static_cast<std::uint8_t>(level / tile_height),
                   .index = index >> (tile_height - above)},
          .offset = static_cast<unsigned>(in_tile << above),
          .count = 1u << above};
}

void append_entry(std::string& bundle, ByteView entry) {
  CHECK(entry.size() <= entry_size_max);
  bundle += static_cast<char>(entry.size() >> 8);
  bundle += static_cast<char>(entry.size() & 0xFF);
  bundle += as_text(entry);
}

Result<std::vector<ByteView>> parse_entries(ByteView bundle, unsigned count) {
  std::vector<ByteView> entries;
  // The reservation follows the bytes present, not the requested count.
  entries.reserve(std::min<std::size_t>(count, bundle.size() / 2));
  for (unsigned i = 0; i < count; ++i) {
    if (bundle.size() < 2) return fail(ErrorCode::malformed, "entry bundle: too few entries", Side::client);
    const std::size_t size =
        std::to_integer<std::size_t>(bundle[0]) << 8 | std::to_integer<std::size_t>(bundle[1]);
    bundle = bundle.subspan(2);
    if (bundle.size() < size) return fail(ErrorCode::malformed, "entry bundle: cut off", Side::client);
    entries.push_back(bundle.first(size));
    bundle = bundle.subspan(size);
  }
  if (!bundle.empty()) return fail(ErrorCode::malformed, "entry bundle: bytes left over", Side::client);
  return entries;
}

}  // namespace cairn::crypto
