// LogReserve: space kept back on the disk, as a file that has its blocks, and files kept back, as empty ones.
// Records that free space (deletes, compaction) may use them when the disk is full. All other records wait
// until the reserve is back.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "io/machine.h"

namespace cairn::store {

class LogReserve {
 public:
  // `files`: names to be kept, too, as empty files.
  LogReserve(io::Machine& machine, std::string directory, std::uint64_t size, std::uint64_t files = 0,
             std::string_view name = "reserve");

  // Whether the space is there; says nothing of the files.
  bool is_there() const noexcept { return there_; }
  bool is_whole() const noexcept { return (there_ || size_ == 0) && files_there_ == files_; }
  // How much the disk must have free to make the rest of the reserve.
  io::FreeSpace room_to_make() const noexcept;
  // Looks for the reserve, and makes the missing part if there is room. A full disk is no error: the reserve
  // is then not there. Cancel: partial — a part of it may be there.
  Task<Result<>> open(Call call);
  // Is all of it there, or could it be made just now? Tries at most once a second, and only where the disk
  // has room for two. Cancel: partial — as open.
  Task<bool> ensure(Call call);
  // Gives all of it away. False: there is nothing to give. Cancel: partial — it may be gone.
  Task<bool> release(Call call);

 private:
  Task<Result<>> make(Call call);
  Task<Result<>> make_space(Call call);
  Task<Result<>> make_files(Call call);
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller waits
  Task<Result<>> fill(Call call, io::File& file);

  io::Machine machine_;  // a bundle of references
  std::string directory_;
  std::string path_;
  std::uint64_t size_, files_;
  bool there_ = false;
  std::uint64_t files_there_ = 0;  // the first so many
  Instant next_try_{};
};

// Gives away the reserve of a log that is not open. Cancel: partial — some of it may be gone.
Task<> release_reserve(Call call, io::Machine machine, std::string directory, std::uint64_t files);

}  // namespace cairn::store
