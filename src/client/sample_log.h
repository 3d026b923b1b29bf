// For tests: a registry's log, made up: versions, checkpoint and tiles.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "crypto/blake3.h"
#include "crypto/merkle.h"
#include "crypto/signed_note.h"
#include "crypto/tile.h"
#include "format/sample_registry.h"
#include "format/signed_commit.h"

namespace cairn::client {

// Two signers, `a` and `b`, of whom one must approve; each version adds a region.
class SampleLog {
 public:
  struct Version {
    std::string payload, commit;
  };

  explicit SampleLog(std::uint64_t count)
      : a_(format::sample_key(1)), b_(format::sample_key(2)), log_key_(format::sample_key(3)) {
    auto genesis = format::make_genesis(1, {{"a", &a_}, {"b", &b_}}, {}, {1'000});
    CHECK(genesis.has_value());
    roots.genesis_payload_b3 = crypto::hash_object(as_bytes(genesis->payload));
    roots.genesis_commit_b3 = format::commit_b3(as_bytes(genesis->commit));
    roots.log_key = crypto::format_verifier_key({origin(), log_key_.public_key()});
    items_ = format::decode_descriptor_set(as_bytes(genesis->payload))->items;
    add({genesis->payload, genesis->commit});
    while (versions.size() < count) grow();
  }

  std::string origin() const { return format_address(roots.genesis_payload_b3); }
  Address head_b3() const { return format::commit_b3(as_bytes(versions.back().commit)); }
  const std::vector<std::string>& items() const noexcept { return items_; }

  // The set of the next version, with one region more.
  format::DescriptorSet next_set() const {
    format::DescriptorSet set;
    set.version = versions.size();
    set.prev = head_b3();
    set.items = items_;
    set.items.push_back(
        format::sample_item(fmt::format(R"({{"type":"region","id":"r{}"}})", versions.size())));
    set.created_at = {1'000 + static_cast<std::int64_t>(versions.size())};
    return set;
  }
  Version sign(const format::DescriptorSet& set, const crypto::Ed25519Key& key) const {
    Version version{.payload = encode(set), .commit = {}};
    format::Commit commit;
    commit.version = set.version;
    commit.prev = set.prev;
    commit.payload_b3 = crypto::hash_object(as_bytes(version.payload));
    commit.committed_at = set.created_at;
    commit.approvals.push_back(format::sign_approval(key, "a", commit.payload_b3, set.created_at));
    version.commit = encode(std::move(commit));
    return version;
  }
  void add(Version version) {
    tree.append(crypto::hash_leaf(as_bytes(version.commit)));
    versions.push_back(std::move(version));
  }
  void grow() {
    const format::DescriptorSet set = next_set();
    items_ = set.items;
    if (items_.size() > 4) items_.erase(items_.begin() + 1);
    add(sign(set, a_));
  }
  const crypto::Ed25519Key& signer() const noexcept { return a_; }

  std::string checkpoint(std::uint64_t size) const {
    return crypto::sign_note(crypto::format_checkpoint({origin(), size, tree.root_at(size), {}}), origin(),
                             log_key_);
  }
  std::string checkpoint() const { return checkpoint(tree.size()); }

  // `checkpoint` and every tile of this size, by their paths.
  std::map<std::string, std::string> files(std::uint64_t size) const {
    std::map<std::string, std::string> out;
    out["checkpoint"] = checkpoint(size);
    for (crypto::TileId id : crypto::tiles_for(size)) {
      const auto nodes =
          tree.nodes(crypto::tile_height * id.level, id.index * crypto::tile_width_max, id.width);
      out[crypto::format_tile_path(id)] = as_text(std::as_bytes(nodes));
      if (id.level != 0) continue;
      std::string bundle;
      for (std::uint64_t i = 0; i < id.width; ++i)
        crypto::append_entry(bundle, as_bytes(versions[id.index * crypto::tile_width_max + i].commit));
      id.entries = true;
      out[crypto::format_tile_path(id)] = std::move(bundle);
    }
    return out;
  }

  format::TrustRoots roots;
  std::vector<Version> versions;
  crypto::MerkleTree tree;

 private:
  crypto::Ed25519Key a_, b_, log_key_;
  std::vector<std::string> items_;
};

}  // namespace cairn::client
