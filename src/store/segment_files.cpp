// SegmentFiles: the open files of a shard, the least recently used one closed first.
#include <list>
#include <unordered_map>

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
};

SegmentFiles::SegmentFiles(io::Machine& machine, std::string directory, std::size_t open_max)
    : state_(new State{machine, std::move(directory), open_max, {}, {}, 0}) {
  CHECK(open_max > 0);
}
SegmentFiles::~SegmentFiles() = default;

std::shared_ptr<io::File> SegmentFiles::find(std::uint32_t segment) noexcept {
  const auto it = state_->by_segment.find(segment);
  if (it == state_->by_segment.end()) return nullptr;
  state_->recent.splice(state_->recent.begin(), state_->recent, it->second);
  return it->second->file;
}

Task<Result<std::shared_ptr<io::File>>> SegmentFiles::get(Call call, std::uint32_t segment) {
  if (std::shared_ptr<io::File> open = find(segment)) co_return std::move(open);
  State& state = *state_;
  const std::uint64_t forgotten = state.forgotten;
  CO_TRY(std::shared_ptr<io::File> file,
         co_await state.machine.disk.open(call, segment_path(state.directory, segment),
                                          io::OpenMode::read_direct));
  // Somebody else may have opened it meanwhile: one of both is enough.
  if (std::shared_ptr<io::File> open = find(segment)) co_return std::move(open);
  if (state.forgotten != forgotten) co_return std::move(file);  // it may be gone: do not keep its space
  state.recent.push_front({segment, file});
  state.by_segment[segment] = state.recent.begin();
  if (state.recent.size() > state.open_max) {
    state.by_segment.erase(state.recent.back().segment);
    state.recent.pop_back();
  }
  co_return std::move(file);
}

// Whoever still reads from it keeps it open.
void SegmentFiles::forget(std::uint32_t segment) noexcept {
  ++state_->forgotten;
  const auto it = state_->by_segment.find(segment);
  if (it == state_->by_segment.end()) return;
  state_->recent.erase(it->second);
  state_->by_segment.erase(it);
}

}  // namespace cairn::store
