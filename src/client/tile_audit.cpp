#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "client/registry_audit.h"
#include "format/chain_verifier.h"

namespace cairn::client {
namespace {

constexpr std::size_t hash_size = sizeof(crypto::MerkleHash);

crypto::MerkleHash hash_at(std::string_view tile, std::size_t i) {
  crypto::MerkleHash hash;
  std::memcpy(hash.data(), tile.data() + i * hash_size, hash_size);
  return hash;
}

// Takes entries off a bundle, one by one, so that the first damaged one is known.
class Bundle {
 public:
  explicit Bundle(std::string_view bytes) noexcept : left_(bytes) {}
  bool empty() const noexcept { return left_.empty(); }
  std::optional<ByteView> next() noexcept {
    if (left_.size() < 2) return std::nullopt;
    const std::size_t size = static_cast<std::size_t>(static_cast<unsigned char>(left_[0])) << 8 |
                             static_cast<unsigned char>(left_[1]);
    if (left_.size() - 2 < size) return std::nullopt;
    const ByteView entry = as_bytes(left_.substr(2, size));
    left_.remove_prefix(2 + size);
    return entry;
  }

 private:
  std::string_view left_;
};

class TileAudit {
 public:
  TileAudit(const format::TrustRoots& roots, const TileReader& read) : roots_(roots), read_(read) {}

  AuditReport run(const std::vector<std::string>& present, const std::optional<crypto::Checkpoint>& since) {
    if (!open()) return std::move(report_);
    for (std::uint64_t i = 0; report_.ok() && tree_.size() < checkpoint_.size; ++i) take_bundle(i);
    if (report_.ok() && tree_.root() != checkpoint_.root)
      report_.why = "checkpoint: its root is not the one of the entries it covers";
    if (report_.ok() && report_.versions == 0) {
      report_.unproved = true;
      report_.why = "tiles: no bundle of entries reaches the checkpoint; only hashes are left";
    }
    if (report_.ok()) compare_upper();
    for (const std::string& path : present)
      if (report_.ok()) compare_other(path);
    if (report_.ok() && since) compare_since(*since);
    return std::move(report_);
  }

 private:
  void bad(std::uint64_t version, std::string_view why) {
    report_.bad_version = version;
    report_.why = fmt::format("version {}: {}", version, why);
  }

  bool open() {
    const auto note = read_("checkpoint");
    if (!note) {
      report_.why = fmt::format("checkpoint: it {}", note.error().context);
      return false;
    }
    auto checkpoint = open_checkpoint(*note, roots_);
    if (!checkpoint) {
      report_.why = fmt::format("checkpoint: {}", checkpoint.error().context);
      return false;
    }
    checkpoint_ = std::move(*checkpoint);
    report_.checkpoint = *note;
    report_.checkpoint_size = checkpoint_.size;
    if (checkpoint_.size == 0) report_.why = "checkpoint: it covers nothing, not even genesis";
    return report_.ok();
  }

  // The tile at this checkpoint's width; where a full tile has replaced it later, the full one.
  struct Tile {
    crypto::TileId id;
    std::string bytes;
  };
  std::optional<Tile> read_tile(crypto::TileId id) {
    for (const unsigned width : {id.width, crypto::tile_width_max}) {
      id.width = width;
      const std::string path = crypto::format_tile_path(id);
      if (auto bytes = read_(path)) {
        seen_.insert(path);
        return Tile{id, std::move(*bytes)};
      }
    }
    return std::nullopt;
  }

  void take_bundle(std::uint64_t index) {
    const std::uint64_t first = index * crypto::tile_width_max;
    const unsigned width = crypto::tile_width(0, index, checkpoint_.size);
    const auto hashes = read_tile({.level = 0, .entries = false, .index = index, .width = width});
    if (!hashes) return bad(first, "the tile with its hash is missing");
    if (hashes->bytes.size() != hashes->id.width * hash_size)
      return bad(first + std::min<std::uint64_t>(width - 1, hashes->bytes.size() / hash_size),
                 "the tile with its hash has the wrong size");
    const auto entries = read_tile({.level = 0, .entries = true, .index = index, .width = width});
    if (!entries && report_.versions > 0) return bad(first, "its entry is missing");
    if (!entries) {
      for (unsigned i = 0; i < width; ++i) tree_.append(hash_at(hashes->bytes, i));
      report_.first = tree_.size();
      return;
    }
    Bundle bundle(entries->bytes);
    for (unsigned i = 0; i < width && report_.ok(); ++i)
      take_entry(first + i, bundle.next(), hash_at(hashes->bytes, i));
    // A full bundle that replaced a partial one has more entries behind these.
    if (report_.ok() && entries->id.width == width && !bundle.empty())
      bad(first + width - 1, "bytes without meaning follow its entry");
  }

  void take_entry(std::uint64_t version, std::optional<ByteView> entry, const crypto::MerkleHash& hash) {
    if (!entry) return bad(version, "its entry is cut off");
    if (crypto::hash_leaf(*entry) != hash) return bad(version, "its entry and its hash in the tile differ");
    if (!verifier_) {
      if (version == 0) {
        verifier_.emplace(roots_);
      } else {
        const auto commit = format::decode_commit(*entry);
        if (!commit) return bad(version, "its entry is not a commit");
        format::ChainVerifier::Start start{.prev = commit->prev};
        for (std::uint64_t i = 0; i < version; ++i) start.leaves.append(tree_.leaf(i));
        verifier_.emplace(std::move(start));
      }
    }
    if (auto taken = verifier_->take(*entry, std::nullopt); !taken)
      return bad(version, taken.error().context);
    tree_.append(hash);
    ++report_.versions;
  }

  void compare_upper() {
    for (const crypto::TileId& id : crypto::tiles_for(checkpoint_.size)) {
      if (id.level == 0) continue;
      const auto tile = read_tile(id);
      if (!tile) return bad(first_below(id, 0), fmt::format("{} is missing", crypto::format_tile_path(id)));
      compare_hashes(tile->id, tile->bytes);
      if (!report_.ok()) return;
    }
  }

  // The first version under hash number i of a tile.
  static std::uint64_t first_below(const crypto::TileId& id, std::size_t i) {
    return (id.index * crypto::tile_width_max + i) << (crypto::tile_height * id.level);
  }

  // Compares as many hashes as the checkpoint vouches for.
  void compare_hashes(const crypto::TileId& id, std::string_view tile) {
    const unsigned known = crypto::tile_width(id.level, id.index, checkpoint_.size);
    const std::size_t count = std::min<std::size_t>(known, id.width);
    if (tile.size() != id.width * hash_size)
      return bad(first_below(id, std::min(count - 1, tile.size() / hash_size)),
                 fmt::format("{} has the wrong size", crypto::format_tile_path(id)));
    const auto nodes = tree_.nodes(crypto::tile_height * id.level, id.index * crypto::tile_width_max, count);
    for (std::size_t i = 0; i < count; ++i)
      if (hash_at(tile, i) != nodes[i])
        return bad(first_below(id, i), fmt::format("hash {} of {} is not the one its entries give", i,
                                                   crypto::format_tile_path(id)));
  }

  void compare_entries(const crypto::TileId& id, std::string_view bytes) {
    const std::uint64_t first = id.index * crypto::tile_width_max;
    const unsigned count = std::min(crypto::tile_width(0, id.index, checkpoint_.size), id.width);
    Bundle bundle(bytes);
    for (unsigned i = 0; i < count; ++i) {
      const auto entry = bundle.next();
      if (!entry || crypto::hash_leaf(*entry) != tree_.leaf(first + i))
        return bad(first + i, fmt::format("its entry in {} is another one", crypto::format_tile_path(id)));
    }
    if (count == id.width && !bundle.empty())
      bad(first + count - 1,
          fmt::format("bytes without meaning at the end of {}", crypto::format_tile_path(id)));
  }

  // Compares a tile that the checkpoint does not need: an older partial one, or one that is ahead of it.
  void compare_other(const std::string& path) {
    const auto id = crypto::parse_tile_path(path);
    if (!id || seen_.contains(path) || crypto::tile_width(id->level, id->index, checkpoint_.size) == 0)
      return;
    const auto bytes = read_(path);
    if (!bytes) return;
    if (id->entries)
      compare_entries(*id, *bytes);
    else
      compare_hashes(*id, *bytes);
  }

  void compare_since(const crypto::Checkpoint& since) {
    if (since.size > checkpoint_.size)
      report_.why = fmt::format("checkpoint: it covers {} versions, the earlier one {}: the log has shrunk",
                                checkpoint_.size, since.size);
    else if (tree_.root_at(since.size) != since.root)
      report_.why = fmt::format(
          "checkpoint: the log does not begin with the {} versions of the earlier one: it was rewritten",
          since.size);
  }

  const format::TrustRoots& roots_;
  const TileReader& read_;
  crypto::Checkpoint checkpoint_;
  crypto::MerkleTree tree_;
  std::optional<format::ChainVerifier> verifier_;
  std::set<std::string> seen_;
  AuditReport report_;
};

}  // namespace

AuditReport audit_tiles(const format::TrustRoots& roots, const TileReader& read,
                        const std::vector<std::string>& present,
                        const std::optional<crypto::Checkpoint>& since) {
  return TileAudit(roots, read).run(present, since);
}

}  // namespace cairn::client
