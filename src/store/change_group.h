// ChangeGroup: the changes that are committed together, as they are planned (committer_plan.cpp,
// committer_delete.cpp, committer_uploads.cpp) and written (committer.cpp).
#pragma once

#include <map>
#include <memory_resource>
#include <utility>
#include <vector>

#include "store/group_commit.h"
#include "store/mutation.h"

namespace cairn::store {

struct ChangeGroup : CommitGroup<Mutation> {
  // What a change is about: an object or an upload.
  using Subject = std::pair<Address, Ulid>;
  enum class Touch : std::uint8_t { put, part, alone };

  std::vector<std::pair<std::uint32_t, std::vector<Address>>> gone;  // segments
  std::vector<Ulid> forgotten;
  std::pmr::monotonic_buffer_resource memory;  // of `touched`, all given back with the group
  std::pmr::map<Subject, Touch> touched{&memory};
  std::uint64_t begun = 0, ended = 0;  // uploads, the latter to make place for others
  bool adopts = false;                 // a new index

  // Whether something else of this group has to do with the same thing. Marks it if not.
  bool is_taken(const Subject& subject, Touch how) {
    const auto [at, fresh] = touched.emplace(subject, how);
    return !fresh && (how == Touch::alone || at->second != how);
  }
};

// A record that is all meta.
template <class T>
Record control(RecordKind kind, const T& content, bool reserve) {
  Record record;
  record.kind = static_cast<std::uint8_t>(kind);
  record.meta = encode(content);
  record.reserve = reserve;
  return record;
}

inline std::pair<Address, Ulid> subject_of(const Address& address) { return {address, {}}; }
inline std::pair<Address, Ulid> subject_of(const Ulid& token) { return {{}, token}; }

}  // namespace cairn::store
