// ChangeGroup: a commit group: the changes that the planner decided on and the committer writes together.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>

#include "services/registry/backend.h"
#include "services/registry/mutation.h"
#include "store/group_commit.h"

namespace cairn::registry {

struct ChangeGroup : store::CommitGroup<Mutation> {
  struct Advance {
    MaybeHead expected;
    HeadMark next;
    Mutation* mutation = nullptr;
  };

  bool disk_full = false;                            // when the group began
  std::set<Hash> items;                              // new with this group
  std::set<std::pair<Ulid, std::string>> approvals;  // likewise
  std::set<Ulid> touched;
  std::size_t proposals = 0, proposal_items = 0;
  std::optional<Advance> advance;
  std::optional<std::uint32_t> gone;  // segment

  void add(RecordKind kind, std::string meta, std::uint64_t origin = 0) {
    store::Record record;
    record.kind = static_cast<std::uint8_t>(kind);
    record.origin = origin;
    record.meta = std::move(meta);
    CommitGroup::add(std::move(record));
  }
};

}  // namespace cairn::registry
