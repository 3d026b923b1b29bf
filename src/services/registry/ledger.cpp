#include "services/registry/ledger.h"

#include <algorithm>
#include <cstring>

#include "crypto/signed_note.h"

namespace cairn::registry {
namespace {

std::unexpected<Error> does_not_follow(const char* why) { return fail(ErrorCode::integrity, why); }

RecordKind kind_of(std::uint8_t number) { return static_cast<RecordKind>(number); }

}  // namespace

bool is_governor(ByteView item) {
  const format::ItemName name = format::name_of_item(item);
  return name.type == "signer_set" || name.type == "revocation";
}

Head Ledger::head() const { return head_of(versions_.size() - 1); }

Head Ledger::head_of(std::uint64_t version) const {
  const VersionEntry& entry = versions_[version];
  return {version, entry.payload_b3, entry.commit_b3, entry.committed_at};
}

const Pending* Ledger::find_pending(const Ulid& id) const {
  const auto found = pending_.find(id);
  return found == pending_.end() ? nullptr : &found->second;
}

std::optional<std::uint64_t> Ledger::find_committed(const Ulid& id) const {
  const auto found = committed_.find(id);
  if (found == committed_.end()) return std::nullopt;
  return found->second;
}

std::optional<Ended> Ledger::find_ended(const Ulid& id) const {
  const auto found = ended_.find(id);
  if (found == ended_.end()) return std::nullopt;
  return found->second;
}

bool Ledger::is_whole(const Pending& pending) const {
  return pending.readable && std::ranges::all_of(pending.items, [this](const Hash& hash) {
           const ItemEntry* item = find_item(hash);
           return item != nullptr && item->place.meta_size > 0;
         });
}

const ItemEntry* Ledger::find_item(const Hash& hash) const {
  const auto found = items_.find(hash);
  return found == items_.end() ? nullptr : &found->second;
}

Result<> Ledger::apply(std::uint8_t kind, ByteView meta, store::Position at) {
  const Place place{at, static_cast<std::uint32_t>(meta.size())};
  switch (kind_of(kind)) {
    case RecordKind::item:
      return apply_item(meta, place);
    case RecordKind::proposal:
      return apply_proposal(meta, place);
    case RecordKind::approval:
      return apply_approval(meta);
    case RecordKind::commit:
      return apply_commit(meta, place);
    case RecordKind::audit:
      return {};
    case RecordKind::expired: {
      ExpiredRecord record;
      TRY_VOID(registry::decode(meta, record));
      for (const Ulid& id : record.ids) end(id, Ended::expired);
      return {};
    }
    case RecordKind::checkpoint: {
      CheckpointRecord record;
      TRY_VOID(registry::decode(meta, record));
      if (record.size > versions_.size()) take_gap(record.size, {});
      if (!checkpoint_ || record.size >= checkpoint_->size)
        checkpoint_ = SignedHead{std::move(record.note), record.size, record.at, at};
      verified_ = std::max(verified_, record.verified);
      return {};
    }
    case RecordKind::pruned:
      return apply_pruned(meta);
  }
  return does_not_follow("a record of an unknown kind");
}

// The last record of an item counts: an older one had been forgotten, or is about to go.
Result<> Ledger::apply_item(ByteView meta, Place place) {
  const Hash hash = crypto::hash_object(meta).bytes;
  keep_item(hash);
  items_[hash].place = place;
  if (is_governor(meta)) governor_items_.emplace(hash, as_text(meta));
  return {};
}

Result<> Ledger::apply_proposal(ByteView meta, Place place) {
  ProposalRecord record;
  TRY_VOID(registry::decode(meta, record));
  take_gap(record.set.version, record.set.prev);
  // The list is unreadable only after damage to an older record.
  std::optional<std::vector<Hash>> items;
  if (!record.list.base || *record.list.base == base_) items = expand(record.list, base_items_.get());
  Pending pending;
  pending.id = record.id;
  pending.who = std::move(record.who);
  pending.at = record.at;
  pending.expires = record.expires;
  pending.payload_b3 = record.payload_b3;
  pending.set = std::move(record.set);
  pending.readable = items.has_value();
  if (items) pending.items = std::move(*items);
  pending.full = !record.list.base;
  pending.place = place;
  // Retention copied an item that is not known yet to a place behind this record: settle() looks again.
  for (const Hash& hash : pending.items) {
    keep_item(hash);
    ++items_[hash].proposals;
  }
  pending_items_ += pending.items.size();
  const Ulid id = pending.id;
  if (!pending_.emplace(id, std::move(pending)).second) return does_not_follow("a proposal twice");
  return {};
}

Result<> Ledger::apply_approval(ByteView meta) {
  ApprovalRecord record;
  TRY_VOID(registry::decode(meta, record));
  const auto found = pending_.find(record.id);
  if (found == pending_.end()) return {};
  std::vector<format::Approval>& approvals = found->second.approvals;
  if (std::ranges::find(approvals, record.approval.signer_id, &format::Approval::signer_id) ==
      approvals.end())
    approvals.push_back(std::move(record.approval));
  return {};
}

// Adds versions whose commits the log has lost, with what later records say of them. If exactly one proposal
// was made for such a version, its list is taken, so that later lists that refer to it can be read.
void Ledger::take_gap(std::uint64_t until, const Address& prev) {
  const bool lost = versions_.size() < until;
  while (versions_.size() < until) {
    const std::uint64_t version = versions_.size();
    VersionEntry entry;
    if (version > 0) entry.committed_at = versions_.back().committed_at;
    const auto is_for = [&](const auto& one) { return one.second.set.version == version; };
    const auto only = std::ranges::count_if(pending_, is_for) == 1 ? std::ranges::find_if(pending_, is_for)
                                                                   : pending_.end();
    if (only != pending_.end()) {
      const Pending committed = std::move(only->second);
      pending_.erase(only);
      entry.payload_b3 = committed.payload_b3;
      entry.payload = committed.place;
      entry.full = committed.full;
      if (committed.set.supersede_of && version > 0) versions_.back().superseded = true;
      if (committed.readable) take_items(committed, version);
      release_items(committed);
    }
    versions_.push_back(entry);
    tree_.append({});
    broken_.insert(version);
    mark_bad(version, "its commit is lost from the log");
  }
  if (until > 0 && until == versions_.size() && broken_.contains(until - 1))
    versions_.back().commit_b3 = prev;
  if (!lost) return;
  // The lost commits ended the proposals that were made before them.
  std::vector<Ulid> before;
  for (const auto& [id, pending] : pending_)
    if (pending.set.version < until) before.push_back(id);
  for (const Ulid& id : before) end(id, Ended::stale);
}

Result<> Ledger::apply_commit(ByteView meta, Place place) {
  CommitRecord record;
  TRY_VOID(registry::decode(meta, record));
  auto commit = format::decode_commit(as_bytes(record.commit));
  if (!commit) return does_not_follow("a commit does not decode");
  if (commit->version < versions_.size()) return does_not_follow("two commits of one version");
  take_gap(commit->version, commit->prev);
  if (!versions_.empty() && !bad_.contains(versions_.size() - 1) &&
      commit->prev != versions_.back().commit_b3)
    return does_not_follow("a commit does not follow the one before it");
  VersionEntry entry;
  entry.payload_b3 = commit->payload_b3;
  entry.commit_b3 = format::commit_b3(as_bytes(record.commit));
  entry.committed_at = commit->committed_at;
  entry.commit = place;
  const auto found = pending_.find(record.id);
  const std::uint64_t version = commit->version;
  if (found == pending_.end() || found->second.payload_b3 != commit->payload_b3) {
    mark_bad(version, "its proposal is lost from the log");
  } else if (!found->second.readable) {
    mark_bad(version, "the list it refers to is lost from the log");
  } else {
    entry.payload = found->second.place;
    entry.full = found->second.full;
    if (found->second.set.supersede_of && version > 0) versions_.back().superseded = true;
  }
  if (found != pending_.end()) entry.id = record.id;
  versions_.push_back(entry);
  tree_.append(crypto::hash_leaf(as_bytes(record.commit)));
  if (found != pending_.end()) {
    const Pending committed = std::move(found->second);
    pending_.erase(found);
    take_items(committed, version);
    release_items(committed);
    committed_.emplace(committed.id, version);
    take_governance();
  }
  while (!pending_.empty()) end(pending_.begin()->first, Ended::stale);
  return {};
}

void Ledger::take_items(const Pending& pending, std::uint64_t version) {
  for (const Hash& hash : pending.items) {
    keep_item(hash);
    ItemEntry& entry = items_.find(hash)->second;
    entry.last_version = version;
    entry.committed = true;
  }
  head_items_ = pending.items;
  if (pending.full) {
    base_ = version;
    base_items_ = head_items_;
  }
}

// Without governance no approval counts. While the log is replayed its records may still come.
void Ledger::take_governance() {
  governors_.clear();
  for (const Hash& hash : head_items_)
    if (const auto found = governor_items_.find(hash); found != governor_items_.end())
      governors_.push_back(found->second);
  auto governance = format::read_governance(governors_);
  governance_ = governance ? std::move(*governance) : format::Governance{};
}

void Ledger::end(Ulid id, Ended how) {
  const auto found = pending_.find(id);
  if (found == pending_.end()) return;
  const Pending pending = std::move(found->second);
  pending_.erase(found);
  release_items(pending);
  if (ended_.emplace(id, how).second) ended_order_.push_back(id);
  if (ended_order_.size() > LedgerLimits{}.remembered) {
    ended_.erase(ended_order_.front());
    ended_order_.pop_front();
  }
}

void Ledger::release_items(const Pending& pending) {
  pending_items_ -= pending.items.size();
  for (const Hash& hash : pending.items) {
    const auto found = items_.find(hash);
    if (found == items_.end()) continue;  // twice in one set
    keep_item(hash);
    --found->second.proposals;
    if (!settled_ || is_known(found->second)) continue;
    governor_items_.erase(hash);
    items_.erase(found);
  }
}

void Ledger::forget_items() {
  std::erase_if(items_, [&](const auto& item) {
    if (is_known(item.second)) return false;
    keep_item(item.first);
    governor_items_.erase(item.first);
    return true;
  });
}

Result<> Ledger::apply_pruned(ByteView meta) {
  PrunedRecord record;
  TRY_VOID(registry::decode(meta, record));
  if (record.below > versions_.size()) take_gap(record.below, {});
  // When the state is rebuilt, the leaves of these versions are known only from this record.
  for (std::uint64_t version = record.first; version < record.below; ++version)
    if (broken_.contains(version)) found_leaves_[version] = record.leaves[version - record.first];
  // A record without governors is not the last one: nothing goes until all leaves are there.
  if (record.governors.empty() || record.below <= first_kept_) return {};
  for (std::uint64_t version = first_kept_; version < record.below; ++version)
    versions_[version].commit = versions_[version].payload = {};
  bad_.erase(bad_.begin(), bad_.lower_bound(record.below));
  first_kept_ = record.below;
  floor_governors_ = std::move(record.governors);
  if (settled_) forget_items();
  return {};
}

void Ledger::fill_tree(const std::map<std::uint64_t, crypto::MerkleHash>& leaves) {
  crypto::MerkleTree whole;
  for (std::uint64_t i = 0; i < tree_.size(); ++i) {
    const auto given = leaves.find(i);
    whole.append(given == leaves.end() ? tree_.leaf(i) : given->second);
  }
  tree_ = std::move(whole);
  for (const auto& [version, leaf] : leaves) broken_.erase(version);
}

void Ledger::settle() {
  if (!found_leaves_.empty()) fill_tree(std::exchange(found_leaves_, {}));
  settled_ = true;
  forget_items();
  if (versions_.empty()) return;
  // When an item is nowhere, the last version that has it cannot be read, and maybe earlier ones; the
  // verifier finds out which.
  for (auto& [hash, entry] : items_)
    if (entry.place.meta_size == 0 && entry.committed)
      mark_bad(entry.last_version, "an item of it is lost from the log");
  take_governance();
}

void Ledger::mark_damage(const store::Damage& damage) {
  const auto inside = [&](const Place& place) {
    return place.meta_size > 0 && place.at.segment == damage.segment && place.at.offset < damage.to &&
           place.at.offset + store::record_header_size + place.meta_size > damage.from;
  };
  for (std::uint64_t version = first_kept_; version < versions_.size(); ++version) {
    if (inside(versions_[version].commit)) mark_bad(version, "its commit is damaged on disk");
    if (inside(versions_[version].payload)) mark_bad(version, "its payload is damaged on disk");
  }
}

bool Ledger::heal(const std::map<std::uint64_t, crypto::MerkleHash>& leaves, std::uint64_t size,
                  const crypto::MerkleHash& root) {
  Ledger tried;
  tried.tree_ = tree_;
  std::map<std::uint64_t, crypto::MerkleHash> wanted;
  for (const auto& [version, leaf] : leaves)
    if (version < size && broken_.contains(version)) wanted.emplace(version, leaf);
  tried.fill_tree(wanted);
  if (size > tried.tree_.size() || tried.tree_.root_at(size) != root) return false;
  tree_ = std::move(tried.tree_);
  for (const auto& [version, leaf] : wanted) broken_.erase(version);
  return true;
}

Ledger::Cut Ledger::cut_at(std::uint64_t limit) const {
  Cut cut;
  std::uint32_t lowest = UINT32_MAX;
  for (std::uint64_t version = versions_.size(); version-- > first_kept_;) {
    const VersionEntry& entry = versions_[version];
    for (const Place* place : {&entry.commit, &entry.payload})
      if (place->meta_size > 0) lowest = std::min(lowest, place->at.segment);
    if (version <= limit && entry.full) {
      cut.below = version;
      cut.segments_below = lowest;
      break;
    }
  }
  return cut;
}

bool Ledger::needs(std::uint8_t kind, ByteView meta, store::Position at) const {
  if (kind_of(kind) == RecordKind::pruned) return true;
  if (kind_of(kind) != RecordKind::item) return false;
  const ItemEntry* entry = find_item(crypto::hash_object(meta).bytes);
  return entry != nullptr && entry->place.at == at;
}

bool Ledger::points_into(std::uint32_t segment) const {
  const auto inside = [segment](const Place& place) {
    return place.meta_size > 0 && place.at.segment == segment;
  };
  for (std::uint64_t version = first_kept_; version < versions_.size(); ++version)
    if (inside(versions_[version].commit) || inside(versions_[version].payload)) return true;
  for (const auto& [hash, entry] : items_)
    if (inside(entry.place)) return true;
  for (const auto& [id, pending] : pending_)
    if (inside(pending.place)) return true;
  return checkpoint_ && checkpoint_->place.segment == segment;
}

}  // namespace cairn::registry
