// Ledger: the state that a registry's records add up to, in memory: head, versions, items, proposals, tree.
// Pure: it reads no file and no clock. The same apply() takes new records and replayed ones, so a rebuilt
// state equals the one that was kept.
//
//   [RL-1] Versions grow by one; version v's commit names version v - 1's commit_b3.
//   [RL-2] A proposal becomes at most one version. A proposal that ended in any way never commits afterwards.
//   [RL-3] Every pending proposal follows the present head: a commit ends all others.
//   [RL-4] An item is known as long as a kept version or a pending proposal has it.
//   [RL-5] Leaf v of the tree is version v's commit, also when the version was pruned.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "crypto/merkle.h"
#include "crypto/object_hasher.h"
#include "format/descriptor_set.h"
#include "services/registry/hash_of_hash.h"
#include "services/registry/record.h"
#include "store/log.h"

namespace cairn::registry {

// Where a record's meta is.
struct Place {
  store::Position at;
  std::uint32_t meta_size = 0;  // 0: the record is gone
  friend bool operator==(const Place&, const Place&) = default;
};

// An immutable list that many may share.
class HashList {
 public:
  HashList() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): every vector is a valid list
  HashList(std::vector<Hash> list) : list_(std::make_shared<const std::vector<Hash>>(std::move(list))) {}
  const std::vector<Hash>& get() const noexcept {
    static const std::vector<Hash> none;
    return list_ ? *list_ : none;
  }
  auto begin() const noexcept { return get().begin(); }
  auto end() const noexcept { return get().end(); }
  std::size_t size() const noexcept { return get().size(); }
  friend bool operator==(const HashList& a, const HashList& b) noexcept { return a.get() == b.get(); }

 private:
  std::shared_ptr<const std::vector<Hash>> list_;
};

struct Head {
  std::uint64_t version = 0;
  Address payload_b3, commit_b3;
  WallTime committed_at{};
  friend bool operator==(const Head&, const Head&) = default;
};

struct VersionEntry {
  Address payload_b3, commit_b3;
  WallTime committed_at{};
  Ulid id;                  // of its proposal; none: the proposal is lost
  Place commit, payload;    // the commit's and the proposal's record
  bool superseded = false;  // by the next version
  bool full = false;        // its list stands alone: no later version refers to an earlier one
  friend bool operator==(const VersionEntry&, const VersionEntry&) = default;
};

struct ItemEntry {
  Place place;
  std::uint64_t last_version = 0;  // the last version that has the item, if any
  std::uint32_t proposals = 0;     // pending proposals that have it
  bool committed = false;
};

struct Pending {
  Ulid id;
  std::string who;
  WallTime at{}, expires{};
  Address payload_b3;
  format::DescriptorSet set;  // without its items
  HashList items;
  bool full = false;     // as in VersionEntry
  bool readable = true;  // its list could be expanded
  Place place;
  std::vector<format::Approval> approvals;

  // The proposal as listings show it.
  Pending without_items() const {
    return {id, who, at, expires, payload_b3, set, {}, full, readable, place, approvals};
  }
};

// How a proposal ended that was not committed.
enum class Ended : std::uint8_t { stale, expired };

struct LedgerLimits {
  std::size_t pending = 1024;
  std::size_t pending_items = std::size_t{2} << 20;  // over all pending proposals
  std::size_t remembered = 65536;                    // proposals that ended without a commit
};

// The last checkpoint, and where its record is.
struct SignedHead {
  std::string note;
  std::uint64_t size = 0;
  WallTime at{};
  store::Position place;
};

// Whether an item says who may approve.
bool is_governor(ByteView item);

class Ledger {
 public:
  Ledger();
  Ledger(Ledger&&) noexcept;
  Ledger& operator=(Ledger&&) noexcept;
  ~Ledger();

  // --- the chain
  bool empty() const noexcept { return versions_.empty(); }
  std::uint64_t size() const noexcept { return versions_.size(); }
  std::uint64_t first_kept() const noexcept { return first_kept_; }
  Head head() const;                          // precondition: not empty
  Head head_of(std::uint64_t version) const;  // precondition: version < size()
  const VersionEntry& version(std::uint64_t version) const { return versions_[version]; }
  const std::vector<Hash>& head_items() const noexcept { return head_items_.get(); }
  // The version whose list later ones refer to, and that list.
  std::uint64_t base() const noexcept { return base_; }
  const std::vector<Hash>& base_items() const noexcept { return base_items_.get(); }
  // The head's governance. m = 0, so that no signer counts, when the head cannot be read.
  const format::Governance& governance() const noexcept { return governance_; }
  const std::vector<std::string>& governors() const noexcept { return governors_; }
  const crypto::MerkleTree& tree() const noexcept { return tree_; }
  // The largest tree size that can be proved: larger trees have an unknown leaf. size() without one.
  std::uint64_t provable() const noexcept { return broken_.empty() ? size() : *broken_.begin(); }

  // --- proposals
  const std::map<Ulid, Pending>& pending() const noexcept { return pending_; }
  const Pending* find_pending(const Ulid& id) const;
  std::optional<std::uint64_t> find_committed(const Ulid& id) const;
  std::optional<Ended> find_ended(const Ulid& id) const;
  std::size_t pending_items() const noexcept { return pending_items_; }
  const ItemEntry* find_item(const Hash& hash) const;
  // Whether all of its items can be found.
  bool is_whole(const Pending& pending) const;

  // --- checkpoints
  const std::optional<SignedHead>& checkpoint() const noexcept { return checkpoint_; }
  std::uint64_t verified() const noexcept { return verified_; }

  // --- damage
  // Versions whose bytes were found bad, and why.
  const std::map<std::uint64_t, std::string>& bad() const noexcept { return bad_; }
  void mark_bad(std::uint64_t version, std::string why) { bad_.emplace(version, std::move(why)); }
  // Versions with a record in these bytes of a segment are bad.
  void mark_damage(const store::Damage& damage);
  // Versions whose leaf no record gives.
  const std::set<std::uint64_t>& broken() const noexcept { return broken_; }
  // Fills in those leaves from another source. They are taken only if the tree then has `root` at `size`.
  bool heal(const std::map<std::uint64_t, crypto::MerkleHash>& leaves, std::uint64_t size,
            const crypto::MerkleHash& root);

  // --- taking in records. `integrity` when a record does not follow from those before it.
  Result<> apply(std::uint8_t kind, ByteView meta, store::Position at);
  // Called after a replay, even of an empty log. Retention may have copied an item behind the records that
  // need it, so only now is a missing item known to be damage. Until then no item is forgotten: retention may
  // have removed the versions that had it, while later records still need it.
  void settle();

  // --- retention
  // The highest version up to `limit` below which every version could go, and the segment below which only
  // items are then needed.
  struct Cut {
    std::uint64_t below = 0;
    std::uint32_t segments_below = 0;
  };
  Cut cut_at(std::uint64_t limit) const;
  // Whether a record at this place must be copied before its segment goes.
  bool needs(std::uint8_t kind, ByteView meta, store::Position at) const;
  // Whether the segment holds a record that is still needed.
  bool points_into(std::uint32_t segment) const;
  // Items that said who may approve the first kept version, if those before it are gone.
  const std::vector<std::string>& floor_governors() const noexcept { return floor_governors_; }

  // --- the snapshot: a copy of this moment, written out in slices while the ledger goes on changing.
  // Begins a copy: from now on the old value of every entry that changes is kept until it is copied. A new
  // copy ends the one before it. False: leaves are missing, so no copy can be made.
  bool begin_copy(const store::LogPoint& point);
  // The next piece: about `most` versions, items or hashes of a list. Nothing: that was all.
  std::optional<std::string> copy_some(std::size_t most);
  void end_copy() noexcept;
  // Decodes the pieces and the seal behind them. Nothing when the bytes are not a snapshot. The caller must
  // settle() the ledger.
  static std::optional<std::pair<Ledger, store::LogPoint>> decode(ByteView bytes);

 private:
  friend struct LedgerFields;
  Result<> apply_item(ByteView meta, Place place);
  Result<> apply_proposal(ByteView meta, Place place);
  Result<> apply_approval(ByteView meta);
  Result<> apply_commit(ByteView meta, Place place);
  Result<> apply_pruned(ByteView meta);
  void keep_item(const Hash& hash);
  std::optional<std::string> copy_items(std::size_t most);
  void take_gap(std::uint64_t until, const Address& prev);
  void take_items(const Pending& pending, std::uint64_t version);
  void end(Ulid id, Ended how);  // by value: it may be the entry's own key
  void release_items(const Pending& pending);
  bool is_known(const ItemEntry& entry) const noexcept {
    return entry.proposals > 0 || (entry.committed && entry.last_version >= first_kept_);
  }
  void forget_items();
  void take_governance();
  void fill_tree(const std::map<std::uint64_t, crypto::MerkleHash>& leaves);

  std::vector<VersionEntry> versions_;
  bool settled_ = false;
  std::uint64_t first_kept_ = 0;
  HashList head_items_;
  std::uint64_t base_ = 0;
  HashList base_items_;
  format::Governance governance_;
  std::vector<std::string> governors_;          // items of the head that say who may approve
  std::map<Hash, std::string> governor_items_;  // all known ones
  std::vector<std::string> floor_governors_;
  std::unordered_map<Hash, ItemEntry, HashOfHash> items_;
  crypto::MerkleTree tree_;
  std::map<Ulid, Pending> pending_;
  std::size_t pending_items_ = 0;
  std::map<Ulid, std::uint64_t> committed_;
  std::map<Ulid, Ended> ended_;
  std::deque<Ulid> ended_order_;
  std::optional<SignedHead> checkpoint_;
  std::uint64_t verified_ = 0;
  std::map<std::uint64_t, std::string> bad_;
  std::set<std::uint64_t> broken_;
  std::map<std::uint64_t, crypto::MerkleHash> found_leaves_;  // leaves of broken versions, until settle()
  struct Copying;
  std::unique_ptr<Copying> copying_;
};

// Appends a seal to the pieces of a copy.
class SnapshotSeal {
 public:
  // The bytes to write next: the given piece; after the last piece the seal, once; then nothing.
  std::optional<std::string> take(std::optional<std::string> piece);

 private:
  crypto::ObjectHasher hasher_;
  bool sealed_ = false;
};

}  // namespace cairn::registry
