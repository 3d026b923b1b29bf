// HomeParts: the state that the committer and the tasks of an object store share on its home shard: the log,
// the index, and what is known to be wrong with them. It decides nothing.
//
//   [OH-7] A disk that hangs in one data directory delays no change of another: each task of a store has a
//         seat in every lane of the pool that it asks.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "io/machine.h"
#include "observe/log.h"
#include "store/index_port.h"
#include "store/indexer.h"
#include "store/log.h"
#include "store/object_store.h"

namespace cairn::store {

// The seats of a task that tends a store [OH-7].
struct TaskSeats {
  explicit TaskSeats(Pool& pool) : index(pool, Lane::index), upkeep(pool, Lane::upkeep) {}
  PoolSeat index, upkeep;
};

inline bool is_full(const Result<>& result) noexcept {
  return !result && result.error().code == ErrorCode::storage_full;
}

// Whether some of the bytes at a place are bad or lost.
using PlaceTest = std::function<bool(const Place&)>;

struct HomeParts {
  HomeParts(ObjectStore& of, io::Machine& here, observe::Logger to) : store(of), machine(here), log(to) {}

  void fence(const char* why) noexcept;
  // After every commit group: costs nothing for segments that did not change.
  void publish_totals() noexcept;
  // Tells the operator by name of the files that the log set aside: nothing else points to them.
  void tell_foreign();
  std::set<std::uint32_t> segments_of_index_alone() const;
  std::uint64_t live_bytes(std::uint32_t segment) const noexcept;
  // About how many bytes compaction would copy: the live ones of the segment, and removals of objects in
  // other segments.
  std::uint64_t bytes_to_copy(std::uint32_t segment) const noexcept {
    return live_bytes(segment) + indexer->removal_bytes(segment);
  }
  // How many bytes may go to the log at once: a batch is at most half of a segment.
  std::size_t batch_max(std::size_t wanted) const noexcept;
  Task<Result<>> flush_index(Call call);
  Task<Result<std::vector<HeapBytes>>> read_data(Call call, const Entry& entry);
  static bool is_hit(const Place& place, std::span<const Damage> damages) noexcept;
  Task<Result<bool>> is_hurt(Call call, const ObjectEntry& entry, const PlaceTest& is_bad);

  ObjectStore& store;
  io::Machine& machine;
  observe::Logger log;
  std::unique_ptr<IndexPort> kv;
  std::unique_ptr<Indexer> indexer;
  std::unique_ptr<Log> segments;
  std::unique_ptr<SegmentFiles> files;
  std::set<std::uint32_t> absent;         // segments that the index knows and the log has not
  std::map<std::uint32_t, bool> damaged;  // segments with bytes that must not be thrown away
  Instant opened{};
};

}  // namespace cairn::store
