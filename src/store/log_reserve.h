// LogReserve: space kept back on the disk, as a file that has its blocks. What frees space (deletes,
// compaction) may have it when the disk is full; everything else waits until it is back.
#pragma once

#include <cstdint>
#include <string>

#include "io/machine.h"

namespace cairn::store {

class LogReserve {
 public:
  LogReserve(io::Machine& machine, std::string directory, std::uint64_t size);

  bool is_there() const noexcept { return there_; }
  // What the disk must have for it to be made; 0: it need not be.
  std::uint64_t room_to_make() const noexcept;
  // Looks for the file, and makes it if there is room. A full disk is no error: it is not there then.
  // Cancel: partial — a part of it may be there.
  Task<Result<>> open(Call call);
  // Is it there, or could it be made just now? Tries at most once a second, and only where the disk has room
  // for two. Cancel: partial — as open.
  Task<bool> ensure(Call call);
  // Gives its space away. False: there is nothing to give. Cancel: partial — it may be gone.
  Task<bool> release(Call call);

 private:
  Task<Result<>> make(Call call);
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller waits
  Task<Result<>> fill(Call call, io::File& file);

  io::Machine machine_;  // a bundle of references
  std::string directory_;
  std::string path_;
  std::uint64_t size_;
  bool there_ = false;
  Instant next_try_{};
};

}  // namespace cairn::store
