// ChainModel: what a registry is, without a disk: the reference that the real one is held against.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"

namespace cairn::crash {

// One operation. Proposals go by small numbers: the n-th that was made.
struct ChainOp {
  enum class Act : std::uint8_t { propose, approve, commit, expire, checkpoint, prune };
  Act act = Act::propose;
  int proposal = 0;
  unsigned signer = 0;     // of an approval
  bool full = false;       // of a proposal: its list stands alone
  bool supersede = false;  // it replaces the head
  friend bool operator==(const ChainOp&, const ChainOp&) = default;
};

struct ChainModel {
  struct Version {
    int proposal = -1;
    bool full = true, supersedes = false;
    friend bool operator==(const Version&, const Version&) = default;
  };
  struct Pending {
    std::set<unsigned> approvals;
    bool full = false, supersede = false;
    friend bool operator==(const Pending&, const Pending&) = default;
  };
  struct Answer {
    ErrorCode code = ErrorCode::ok;
    bool existed = false;
    friend bool operator==(const Answer&, const Answer&) = default;
  };

  unsigned m = 1;
  std::vector<Version> versions{Version{}};
  std::map<int, Pending> pending;
  std::set<int> stale, expired;
  std::uint64_t checkpoint = 0;  // size of the last
  std::uint64_t first_kept = 0;
  friend bool operator==(const ChainModel&, const ChainModel&) = default;

  int committed(int proposal) const {
    const auto found = std::ranges::find(versions, proposal, &Version::proposal);
    return found == versions.end() ? -1 : static_cast<int>(found - versions.begin());
  }

  Answer apply(const ChainOp& op) {
    switch (op.act) {
      case ChainOp::Act::propose:
        pending[op.proposal] = {{}, op.full, op.supersede};
        return {};
      case ChainOp::Act::approve:
        return approve(op);
      case ChainOp::Act::commit:
        return commit(op);
      case ChainOp::Act::expire:
        for (const auto& [number, one] : pending) expired.insert(number);
        pending.clear();
        return {};
      case ChainOp::Act::checkpoint:
        checkpoint = versions.size();
        return {};
      case ChainOp::Act::prune:
        // All but the head may go, of what a checkpoint covers, from a list on that stands alone.
        for (std::uint64_t version = first_kept; version < versions.size() && version <= checkpoint;
             ++version)
          if (versions[version].full) first_kept = version;
        return {};
    }
    return {ErrorCode::internal};
  }

 private:
  ErrorCode why_not_pending(int proposal) const {
    return stale.contains(proposal) ? ErrorCode::chain_mismatch : ErrorCode::not_found;
  }
  Answer approve(const ChainOp& op) {
    const auto found = pending.find(op.proposal);
    if (found == pending.end())
      return {committed(op.proposal) >= 0 ? ErrorCode::conflict : why_not_pending(op.proposal)};
    if (!found->second.approvals.insert(op.signer).second) return {ErrorCode::duplicate_approval};
    return {};
  }
  Answer commit(const ChainOp& op) {
    if (committed(op.proposal) >= 0) return {ErrorCode::ok, true};
    const auto found = pending.find(op.proposal);
    if (found == pending.end()) return {why_not_pending(op.proposal)};
    if (found->second.approvals.size() < m) return {ErrorCode::quorum_failed};
    versions.push_back({op.proposal, found->second.full, found->second.supersede});
    pending.erase(found);
    for (const auto& [number, one] : pending) stale.insert(number);
    pending.clear();
    return {};
  }
};

std::string describe(const ChainOp& op);
std::string describe(const ChainModel& model);

// What may be the case: after an operation whose outcome nobody knows, more than one.
struct PossibleChains {
  std::vector<ChainModel> models;

  void add(const ChainModel& model) {
    if (std::ranges::find(models, model) == models.end()) models.push_back(model);
  }
  // Begun and not answered: each of them may have happened, in this order.
  PossibleChains with(const std::vector<ChainOp>& under_way) const {
    PossibleChains out = *this;
    for (const ChainOp& op : under_way)
      for (std::size_t i = 0, count = out.models.size(); i < count; ++i) {
        ChainModel next = out.models[i];
        next.apply(op);
        out.add(next);
      }
    return out;
  }
  // Answered: only those remain that would have said the same. False: none would.
  bool answered(const ChainOp& op, const ChainModel::Answer& answer) {
    std::vector<ChainModel> before = std::move(models);
    models.clear();
    for (ChainModel& model : before)
      if (model.apply(op) == answer) add(model);
    return !models.empty();
  }
  std::uint64_t hash() const;
};

}  // namespace cairn::crash
