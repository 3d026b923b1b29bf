// LogRemovals: which segments were taken away on purpose, so that any other gap is known to be a loss. A
// small file beside the key, made once and then overwritten in place: noting a removal needs no room.
//
//   [RM-1] A removal is durable here before the segment's file goes.
//   [RM-2] Two slots take turns: however a write ends, the one before it is still there.
//   [RM-3] Ranges that do not fit any more are merged with their neighbours. Segments between them then count
//         as removed if they are missing: a loss may go untold, but no removal is ever told as a loss.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/machine.h"
#include "store/segment.h"

namespace cairn::store {

class LogRemovals {
 public:
  LogRemovals(io::Machine machine, std::string directory, crypto::Hash store_key);

  enum class Found : std::uint8_t { none, good, damaged };
  // Cancel: clean.
  Task<Result<Found>> open(Call call);

  bool contains(std::uint32_t segment) const noexcept;
  // The highest sequence that a segment which was taken away may have held: an index that stands below it
  // cannot be caught up.
  std::uint64_t floor() const noexcept { return notes_.floor; }

  // Durable when it returns, whatever the log's options say. `storage_full` only where there was no file yet.
  // Cancel: partial — it may be noted.
  Task<Result<>> add(Call call, std::vector<std::uint32_t> segments, std::uint64_t floor);
  bool is_there() const noexcept { return there_; }

 private:
  Task<Result<>> make(Call call);

  io::Machine machine_;  // a bundle of references
  std::string directory_;
  std::string path_;
  crypto::Hash store_key_;
  RemovalNotes notes_;
  bool there_ = false;
};

}  // namespace cairn::store
