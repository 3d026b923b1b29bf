// SegmentFiles: the open files of a shard, the least recently used one closed first.
#include <limits>
#include <list>
#include <unordered_map>

#include "runtime/single_flight.h"
#include "store/log.h"

namespace cairn::store {

struct SegmentFiles::State {
  struct Open {
    std::uint32_t segment;
    std::shared_ptr<io::File> file;
  };
  io::Machine machine;  // a bundle of references
  std::string directory;
  std::size_t open_max;
  std::list<Open> recent;  // the newest use first
  std::unordered_map<std::uint32_t, std::list<Open>::iterator> by_segment;
  std::uint64_t forgotten = 0;  // calls of forget()
  // The waiters are requests in flight and a few tasks.
  SingleFlight<std::uint32_t, std::shared_ptr<io::File>> opening{
      machine.shard, std::numeric_limits<std::size_t>::max(), std::numeric_limits<std::size_t>::max()};

  void keep(std::uint32_t segment, std::shared_ptr<io::File> file);
};

void SegmentFiles::State::keep(std::uint32_t segment, std::shared_ptr<io::File> file) {
  recent.push_front({segment, std::move(file)});
  by_segment[segment] = recent.begin();
  if (recent.size() <= open_max) return;
  by_segment.erase(recent.back().segment);
  recent.pop_back();
}

SegmentFiles::SegmentFiles(io::Machine& machine, std::string directory, std::size_t open_max)
    : state_(new State{machine, std::move(directory), open_max, {}, {}}) {
  CHECK(open_max > 0);
}
SegmentFiles::~SegmentFiles() = default;

namespace {

Task<Result<std::shared_ptr<io::File>>> opened(std::shared_ptr<io::File> file) { co_return std::move(file); }

}  // namespace

std::shared_ptr<io::File> SegmentFiles::find(std::uint32_t segment) noexcept {
  const auto it = state_->by_segment.find(segment);
  if (it == state_->by_segment.end()) return nullptr;
  state_->recent.splice(state_->recent.begin(), state_->recent, it->second);
  return it->second->file;
}

Task<Result<std::shared_ptr<io::File>>> SegmentFiles::get(Call call, std::uint32_t segment) {
  if (std::shared_ptr<io::File> open = find(segment)) return opened(std::move(open));
  return state_->opening.run(call, segment, [this, segment](Call leader) { return open(leader, segment); });
}

Task<Result<std::shared_ptr<io::File>>> SegmentFiles::open(Call call, std::uint32_t segment) {
  State& state = *state_;
  // Other waiters may have more patience than this caller.
  LaneUse lanes;
  if (call.lanes() != nullptr) lanes.stall = call.lanes()->stall;
  call = call.in_lanes(lanes);
  const std::uint64_t forgotten = state.forgotten;
  CO_TRY(std::shared_ptr<io::File> file,
         co_await state.machine.disk.open(call, segment_path(state.directory, segment),
                                          io::OpenMode::read_direct));
  // A file that may be gone already is not kept open: that would keep its space.
  if (state.forgotten == forgotten) state.keep(segment, file);
  co_return std::move(file);
}

// A reader of the file keeps it open.
void SegmentFiles::forget(std::uint32_t segment) noexcept {
  ++state_->forgotten;
  const auto it = state_->by_segment.find(segment);
  if (it == state_->by_segment.end()) return;
  state_->recent.erase(it->second);
  state_->by_segment.erase(it);
}

}  // namespace cairn::store
