#include "services/registry/planner.h"

#include <algorithm>

#include "services/registry/recorded_time.h"

namespace cairn::registry {
namespace {

// The number of versions that may refer to one full list. Retention cannot cut behind that list.
constexpr std::uint64_t base_age_max = 256;
constexpr std::size_t leaves_per_record = 32768;

}  // namespace

Result<Planned> Planner::plan(const Ledger& ledger, Mutation& mutation, ChangeGroup& group) {
  switch (mutation.kind) {
    case Mutation::Kind::propose:
      return plan_propose(ledger, mutation, group);
    case Mutation::Kind::approve:
      return plan_approve(ledger, mutation, group);
    case Mutation::Kind::commit:
    case Mutation::Kind::supersede:
      return plan_commit(ledger, mutation, group);
    case Mutation::Kind::refuse:
      return fail(mutation.error);
    default:
      return plan_chore(ledger, mutation, group);
  }
}

Result<Planned> Planner::plan_propose(const Ledger& ledger, Mutation& mutation, ChangeGroup& group) {
  if (!ledger.bad().empty()) return fail(ErrorCode::degraded, "a version is damaged: nothing is added to it");
  TRY_VOID(check_clock(machine_.shard));
  if (ledger.pending().size() + group.proposals >= options_.proposals_max ||
      ledger.pending_items() + group.proposal_items + mutation.items.size() > LedgerLimits{}.pending_items)
    return fail(ErrorCode::busy, "too many proposals are pending", Side::client);
  const Head head = ledger.head();
  format::ProposalDraft& draft = mutation.draft;
  if (draft.supersede_of && *draft.supersede_of != head.version)
    return fail(ErrorCode::conflict, "only the present head can be superseded", Side::client);
  const WallTime now = now_wall();
  if (draft.expiry && *draft.expiry <= now)
    return fail(ErrorCode::malformed, "the expiry is in the past", Side::client);

  Outcome outcome;
  format::DescriptorSet& set = outcome.set;
  set.version = head.version + 1;
  set.prev = head.commit_b3;
  set.items = std::move(draft.items);
  set.created_at = now;
  set.expiry = draft.expiry;
  set.supersede_of = draft.supersede_of;
  set.reason = draft.reason;
  outcome.payload = format::encode(set);
  constexpr std::size_t per_record = store::record_header_size + store::record_alignment + sizeof(Hash) + 8;
  if (outcome.payload.size() + (mutation.items.size() + 8) * per_record > options_.segment_size / 8 * 3)
    return fail(ErrorCode::body_cap, "the proposal is larger than the log takes", Side::client);
  outcome.payload_b3 = crypto::hash_object(as_bytes(outcome.payload));
  outcome.id = new_id(machine_);
  outcome.expires = {now.ms + options_.proposals_ttl.to_millis()};
  outcome.m = ledger.governance().m;
  outcome.n = ledger.governance().in_force();

  for (std::size_t i = 0; i < mutation.items.size(); ++i) {
    const Hash& hash = mutation.items[i];
    const ItemEntry* known = ledger.find_item(hash);
    if ((known == nullptr || known->place.meta_size == 0) && group.items.insert(hash).second)
      group.add(RecordKind::item, set.items[i]);
  }
  ProposalRecord record;
  record.id = outcome.id;
  record.at = now;
  record.who = mutation.who;
  record.expires = outcome.expires;
  record.payload_b3 = outcome.payload_b3;
  if (set.version - ledger.base() < base_age_max)
    record.list = compress(mutation.items, ledger.base(), ledger.base_items());
  else
    for (const Hash& hash : mutation.items) record.list.runs.push_back({0, 0, hash});
  record.set = set;
  record.set.items.clear();
  set.items.clear();
  group.add(RecordKind::proposal, encode(record));
  ++group.proposals;
  group.proposal_items += mutation.items.size();
  mutation.result = std::move(outcome);
  return Planned::joined;
}

// Whether an approval counts: its signer is in force now, and it was not given before.
Result<> Planner::check_signature(const Ledger& ledger, const Pending& pending, const Mutation& mutation,
                                  const Mutation::Signature& signature, const ChangeGroup& group) const {
  const format::Approval& approval = signature.approval;
  const format::Governance& governance = ledger.governance();
  const format::Signer* signer = governance.find(approval.signer_id);
  if (signer == nullptr || signer->key != signature.signer_key || pending.payload_b3 != mutation.payload_b3)
    return fail(ErrorCode::invalid_sig, "the signer is not in the signer set", Side::client);
  if (governance.is_revoked(approval.signer_id))
    return fail(ErrorCode::revoked_key, "the signer's key is revoked", Side::client);
  const bool known = std::ranges::any_of(
      pending.approvals, [&](const format::Approval& one) { return one.signer_id == approval.signer_id; });
  if (known || group.approvals.contains({mutation.id, approval.signer_id}))
    return fail(ErrorCode::duplicate_approval, "this signer has approved it already", Side::client);
  return {};
}

void Planner::add_approval(const Mutation& mutation, const format::Approval& approval, ChangeGroup& group) {
  group.approvals.emplace(mutation.id, approval.signer_id);
  group.touched.insert(mutation.id);
  group.add(RecordKind::approval, encode(ApprovalRecord{now_wall(), mutation.id, mutation.who, approval}));
}

Result<Planned> Planner::plan_approve(const Ledger& ledger, Mutation& mutation, ChangeGroup& group) {
  const Pending* pending = ledger.find_pending(mutation.id);
  if (pending == nullptr) {
    if (ledger.find_committed(mutation.id))
      return fail(ErrorCode::conflict, "the proposal was committed", Side::client);
    if (ledger.find_ended(mutation.id) == Ended::stale)
      return fail(ErrorCode::chain_mismatch, "another version was committed first", Side::client);
    return fail(ErrorCode::not_found, "there is no such proposal", Side::client);
  }
  if (mutation.approvals.empty())
    return fail(ErrorCode::not_found, "there was no such proposal", Side::client);
  TRY_VOID(check_signature(ledger, *pending, mutation, mutation.approvals.front(), group));
  const format::Governance& governance = ledger.governance();
  add_approval(mutation, mutation.approvals.front().approval, group);
  Outcome outcome;
  outcome.id = mutation.id;
  outcome.approvals = pending->approvals.size();
  for (const auto& [id, signer_id] : group.approvals) outcome.approvals += id == mutation.id;
  outcome.m = governance.m;
  outcome.n = governance.in_force();
  mutation.result = std::move(outcome);
  return Planned::joined;
}

Result<Planned> Planner::plan_commit(const Ledger& ledger, Mutation& mutation, ChangeGroup& group) {
  const bool supersede = mutation.kind == Mutation::Kind::supersede;
  if (const auto version = ledger.find_committed(mutation.id)) {
    // For a pruned version this is not known.
    const bool known = *version > 0 && *version - 1 >= ledger.first_kept();
    if (supersede && known && !ledger.version(*version - 1).superseded)
      return fail(ErrorCode::conflict, "the proposal does not supersede anything", Side::client);
    Outcome outcome;
    outcome.head = ledger.head_of(*version);
    outcome.existed = true;
    mutation.result = std::move(outcome);
    return Planned::answered;
  }
  const Pending* pending = ledger.find_pending(mutation.id);
  if (pending == nullptr) {
    if (ledger.find_ended(mutation.id) == Ended::stale)
      return fail(ErrorCode::chain_mismatch, "another version was committed first", Side::client);
    return fail(ErrorCode::not_found, "there is no such proposal", Side::client);
  }
  if (mutation.approvals.empty()) mutation.payload_b3 = pending->payload_b3;
  if (!ledger.bad().empty()) return fail(ErrorCode::degraded, "a version is damaged: nothing is added to it");
  const Head head = ledger.head();
  if (pending->set.prev != head.commit_b3 || pending->set.version != head.version + 1)
    return fail(ErrorCode::chain_mismatch, "another version was committed first", Side::client);
  if (supersede != pending->set.supersede_of.has_value())
    return fail(ErrorCode::conflict,
                supersede ? "the proposal does not supersede anything"
                          : "the proposal supersedes a version: commit it with supersede",
                Side::client);
  TRY_VOID(check_clock(machine_.shard));
  const WallTime now{std::max(now_wall().ms, head.committed_at.ms)};
  // `expires` was set by the clock alone: if the clock went back, `now` would shorten the proposal's time.
  if (pending->expires <= now_wall() || (pending->set.expiry && *pending->set.expiry <= now))
    return fail(ErrorCode::conflict, "the proposal's time is over", Side::client);

  // No version could follow one that cannot be read.
  if (!ledger.is_whole(*pending))
    return fail(ErrorCode::integrity, "a part of the proposal is lost from the log");

  std::vector<format::Approval> approvals = pending->approvals;
  std::set<std::string_view> fresh;
  for (const Mutation::Signature& signature : mutation.approvals) {
    TRY_VOID(check_signature(ledger, *pending, mutation, signature, group));
    if (!fresh.insert(signature.approval.signer_id).second)
      return fail(ErrorCode::duplicate_approval, "this signer approves it twice", Side::client);
    approvals.push_back(signature.approval);
  }
  // Approvals of keys that were revoked meanwhile do not count.
  const format::Governance& governance = ledger.governance();
  format::Commit commit;
  bool revoked = false;
  for (const format::Approval& approval : approvals) {
    const format::Signer* signer = governance.find(approval.signer_id);
    if (governance.is_revoked(approval.signer_id))
      revoked = true;
    else if (signer != nullptr && signer->can_approve())
      commit.approvals.push_back(approval);
  }
  if (governance.m == 0 || commit.approvals.size() < governance.m)
    return fail(revoked ? ErrorCode::revoked_key : ErrorCode::quorum_failed,
                revoked ? "an approval is by a revoked key" : "not enough signers have approved it",
                Side::client);
  commit.version = pending->set.version;
  commit.payload_b3 = pending->payload_b3;
  commit.prev = pending->set.prev;
  commit.committed_at = now;
  const std::string encoded = format::encode(std::move(commit));
  for (const Mutation::Signature& signature : mutation.approvals)
    add_approval(mutation, signature.approval, group);
  group.add(RecordKind::commit, encode(CommitRecord{now, mutation.id, mutation.who, encoded}));
  group.advance = {HeadMark{head.version, head.commit_b3},
                   HeadMark{head.version + 1, format::commit_b3(as_bytes(encoded))}, &mutation};
  group.closed = true;
  mutation.result = Outcome{};
  return Planned::joined;
}

Result<Planned> Planner::plan_chore(const Ledger& ledger, Mutation& mutation, ChangeGroup& group) {
  mutation.result = Outcome{};
  group.closed = true;
  const WallTime now = now_wall();
  switch (mutation.kind) {
    case Mutation::Kind::expire: {
      ExpiredRecord record;
      record.at = now;
      for (const auto& [id, pending] : ledger.pending())
        if (pending.expires <= now && !group.touched.contains(id)) record.ids.push_back(id);
      if (record.ids.empty()) return Planned::answered;
      group.add(RecordKind::expired, encode(record));
      return Planned::joined;
    }
    case Mutation::Kind::checkpoint:
      if (mutation.checkpoint.size > ledger.provable() || !ledger.bad().empty())
        return fail(ErrorCode::degraded, "nothing is signed over a damaged version");
      mutation.checkpoint.at = now;
      group.add(RecordKind::checkpoint, encode(mutation.checkpoint));
      return Planned::joined;
    case Mutation::Kind::prune: {
      // Only versions that a durable checkpoint covers are pruned, and never the head.
      const std::uint64_t covered = ledger.checkpoint() ? ledger.checkpoint()->size : 0;
      if (mutation.below <= ledger.first_kept()) return Planned::answered;
      if (mutation.below >= ledger.size() || mutation.below > covered || mutation.below > ledger.provable())
        return fail(ErrorCode::invalid, "no checkpoint covers it");
      for (std::uint64_t first = ledger.first_kept(); first < mutation.below; first += leaves_per_record) {
        PrunedRecord record;
        record.at = now;
        record.first = first;
        record.below = std::min(mutation.below, first + leaves_per_record);
        const auto leaves = ledger.tree().nodes(0, first, record.below - first);
        record.leaves.assign(leaves.begin(), leaves.end());
        // The last record has the governors, which say that all leaves are there.
        if (record.below == mutation.below) record.governors = mutation.governors;
        group.add(RecordKind::pruned, encode(record));
      }
      return Planned::joined;
    }
    case Mutation::Kind::relocate:
      for (store::Entry& entry : mutation.copies)
        if (ledger.needs(entry.header.kind, as_bytes(entry.meta), entry.at))
          group.add(static_cast<RecordKind>(entry.header.kind), std::move(entry.meta), entry.header.origin);
      return group.records.empty() ? Planned::answered : Planned::joined;
    default:
      if (ledger.points_into(mutation.segment)) return fail(ErrorCode::conflict, "the segment is in use");
      group.gone = mutation.segment;
      return Planned::joined;
  }
}

}  // namespace cairn::registry
