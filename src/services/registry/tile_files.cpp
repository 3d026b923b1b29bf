#include "services/registry/tile_files.h"

#include <algorithm>

#include "crypto/tile.h"
#include "services/registry/files.h"
#include "services/registry/port.h"

namespace cairn::registry {

Task<Result<>> TileFiles::mend(Call call) {
  const auto last = registry_.ledger().with([](Ledger& ledger) {
    const bool good = ledger.bad().empty() && ledger.provable() == ledger.size();
    return good ? ledger.checkpoint() : std::nullopt;
  });
  if (!last || registry_.status().fenced) co_return Result<>{};
  const std::string& directory = registry_.options().directory;
  std::vector<crypto::TileId> tiles = crypto::tiles_for(last->size);
  for (std::uint64_t index = 0; index * crypto::tile_width_max < last->size; ++index) {
    crypto::TileId tile;
    tile.entries = true;
    tile.index = index;
    tile.width = crypto::tile_width(0, index, last->size);
    tiles.push_back(tile);
  }
  for (const crypto::TileId& tile : tiles) {
    auto bytes = co_await read_file(call, machine_, directory + "/" + crypto::format_tile_path(tile),
                                    crypto::tile_width_max * (crypto::entry_size_max + 2));
    const bool right = bytes && registry_.ledger().with([&](Ledger& ledger) {
      const std::uint64_t first = tile.index * crypto::tile_width_max;
      const auto nodes =
          ledger.tree().nodes(tile.entries ? 0 : tile.level * crypto::tile_height, first, tile.width);
      if (!tile.entries) return *bytes == as_text(std::as_bytes(nodes));
      const auto entries = crypto::parse_entries(as_bytes(*bytes), tile.width);
      return entries && std::ranges::equal(*entries, nodes, {}, crypto::hash_leaf);
    });
    if (right) continue;
    if (!tile.entries) {
      CO_TRY_VOID(co_await write_tile(call, tile, node_bytes(tile), 0));
      continue;
    }
    auto bundle = co_await make_bundle(call, tile, 0);
    if (bundle && !bundle->empty()) CO_TRY_VOID(co_await write_tile(call, tile, std::move(*bundle), 0));
  }
  auto note = co_await read_file(call, machine_, directory + "/checkpoint", crypto::note_size_max);
  if (!note || *note != last->note)
    CO_TRY_VOID(co_await replace_file(call, machine_, directory + "/checkpoint", last->note));
  tiles_at_ = last->size;
  co_return Result<>{};
}

// The hashes of a tile.
std::string TileFiles::node_bytes(const crypto::TileId& tile) {
  return registry_.ledger().with([&](Ledger& ledger) {
    const auto nodes = ledger.tree().nodes(tile.level * crypto::tile_height,
                                           tile.index * crypto::tile_width_max, tile.width);
    return std::string(as_text(std::as_bytes(nodes)));
  });
}

// The file `checkpoint` says up to which size the tiles are on disk.
Task<Result<>> TileFiles::write(Call call, std::uint64_t size) {
  const std::string& directory = registry_.options().directory;
  if (!tiles_at_) {
    tiles_at_ = 0;
    if (auto bytes = co_await read_file(call, machine_, directory + "/checkpoint", crypto::note_size_max)) {
      const auto note = crypto::parse_note(*bytes);
      const auto there = note ? crypto::parse_checkpoint(note->text) : fail(ErrorCode::malformed, "no note");
      if (there && there->size <= size && crypto::is_signed_by(*note, registry_.note_verifier()))
        tiles_at_ = there->size;
    }
  }
  const std::uint64_t from = *tiles_at_;
  for (const crypto::TileId& tile : crypto::tiles_for(size, from)) {
    CO_TRY_VOID(co_await write_tile(call, tile, node_bytes(tile), from));
  }
  for (std::uint64_t index = from / crypto::tile_width_max; index * crypto::tile_width_max < size; ++index) {
    crypto::TileId tile;
    tile.entries = true;
    tile.index = index;
    tile.width = crypto::tile_width(0, index, size);
    CO_TRY(std::string bundle, co_await make_bundle(call, tile, from));
    if (!bundle.empty()) CO_TRY_VOID(co_await write_tile(call, tile, std::move(bundle), from));
  }
  tiles_at_ = size;
  co_return Result<>{};
}

// The commits of a bundle. Pruned commits are taken from the narrower bundle on disk. Empty: that bundle is
// lost, and they with it.
Task<Result<std::string>> TileFiles::make_bundle(Call call, crypto::TileId tile, std::uint64_t before) {
  std::string bundle;
  const std::uint64_t first = tile.index * crypto::tile_width_max;
  const std::uint64_t first_kept =
      registry_.ledger().with([](Ledger& ledger) { return ledger.first_kept(); });
  crypto::TileId old = tile;
  old.width = crypto::tile_width(0, tile.index, before);
  std::string kept;
  std::vector<ByteView> entries;
  if (first < first_kept && old.width > 0) {
    auto bytes = co_await read_file(call, machine_,
                                    registry_.options().directory + "/" + crypto::format_tile_path(old),
                                    crypto::tile_width_max * (crypto::entry_size_max + 2));
    if (bytes) kept = std::move(*bytes);
    if (auto parsed = crypto::parse_entries(as_bytes(kept), old.width)) entries = std::move(*parsed);
  }
  for (std::uint64_t version = first; version < first + tile.width; ++version) {
    if (version >= first_kept) {
      CO_TRY(const std::string commit, co_await port_.read_commit(call, version));
      crypto::append_entry(bundle, as_bytes(commit));
      continue;
    }
    const auto at = static_cast<std::size_t>(version - first);
    const bool right = at < entries.size() && registry_.ledger().with([&](Ledger& ledger) {
      return ledger.tree().leaf(version) == crypto::hash_leaf(entries[at]);
    });
    if (!right) co_return std::string();
    crypto::append_entry(bundle, entries[at]);
  }
  co_return bundle;
}

Task<Result<>> TileFiles::write_tile(Call call, crypto::TileId tile, std::string bytes,
                                     std::uint64_t before) {
  const std::string& directory = registry_.options().directory;
  const std::string path = directory + "/" + crypto::format_tile_path(tile);
  const std::string within = path.substr(0, path.rfind('/'));
  if (!durable_directories_.contains(within)) {
    CO_TRY_VOID(co_await make_directories(call, machine_, directory, within));
    durable_directories_.insert(within);
  }
  CO_TRY_VOID(co_await replace_file(call, machine_, path, std::move(bytes)));
  // The checkpoint on disk still refers to the narrower tile that this one replaces, so it goes later.
  crypto::TileId old = tile;
  old.width = crypto::tile_width(tile.level, tile.index, before);
  if (old.width > 0 && old.width < tile.width)
    narrower_.push_back(directory + "/" + crypto::format_tile_path(old));
  co_return Result<>{};
}

Task<> TileFiles::remove_narrower(Call call) {
  for (const std::string& path : std::exchange(narrower_, {}))
    (void)co_await machine_.disk.unlink(call, path);
}

}  // namespace cairn::registry
