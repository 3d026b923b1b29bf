// ChangeGroup: the changes that are written together, as the planner decides and the committer writes them.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "services/registry/backend.h"
#include "services/registry/mutation.h"

namespace cairn::registry {

struct ChangeGroup {
  static constexpr std::size_t group_records_max = 512;
  static constexpr std::size_t group_bytes_max = 4u << 20;

  struct Member {
    Mutation* mutation;
    std::optional<Error> refused;  // what it is answered, whatever becomes of the group
  };
  std::vector<Member> members;
  std::vector<Mutation*> answered;  // without a record
  std::vector<store::Record> records;
  std::size_t bytes = 0;
  std::set<Hash> items;                              // new with this group
  std::set<std::pair<Ulid, std::string>> approvals;  // likewise
  std::set<Ulid> touched;
  std::size_t proposals = 0, proposal_items = 0;
  struct Advance {
    MaybeHead expected;
    HeadMark next;
    Mutation* mutation = nullptr;
  };
  std::optional<Advance> advance;
  std::optional<std::uint32_t> gone;  // segment
  bool closed = false;

  explicit ChangeGroup(std::size_t segment_size) : room(segment_size / 8) {}
  // The log takes half a segment at once: an eighth of one, and the proposal that comes on top of it.
  std::size_t room;

  bool full() const noexcept {
    return closed || records.size() >= group_records_max || bytes >= std::min(group_bytes_max, room);
  }
  void add(RecordKind kind, std::string meta, std::uint64_t origin = 0) {
    store::Record record;
    record.kind = static_cast<std::uint8_t>(kind);
    record.origin = origin;
    bytes += store::record_header_size + store::record_alignment + meta.size();
    record.meta = std::move(meta);
    records.push_back(std::move(record));
  }
};

}  // namespace cairn::registry
