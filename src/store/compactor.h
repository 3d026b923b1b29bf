// Compactor: moves live records out of segments that are mostly dead, and takes those segments away. It knows
// whether the disk is full, and how much room is wanted.
//
//   [OH-4] A segment is taken away only when no entry points into it, and when that is also so in the index
//         that a crash would leave: the log then still has all that such an index lost. On a disk that is too
//         full to flush the index, the log's floor tells the next start to make the index anew.
//   [OH-5] A segment is compacted only when there is room for all that lives in it: copying never takes the
//         room that the index needs. Deletes wait while they would take the room that copying needs and
//         compaction has something to do. So a full disk can always be emptied.
#pragma once

#include <optional>
#include <vector>

#include "store/home_parts.h"
#include "store/log_reserve.h"
#include "store/mutation.h"

namespace cairn::store {

class Committer;
class Scrubber;

class Compactor {
 public:
  static constexpr char opening_name[] = "index.room";  // keeps room to open the index on a full disk

  // The arguments outlive the compactor. Committer and scrubber may be made after it.
  Compactor(HomeParts& parts, Committer& committer, Scrubber& scrubber);

  // When the log is open: is the disk full? Cancel: clean.
  Task<> open(Call call);
  Task<> compact_loop(Call call);
  // One round of compaction. True: there was something to do.
  Task<Result<bool>> compact_once(Call call);

  bool compacting() const noexcept { return compacting_; }
  std::optional<std::uint32_t> victim() const noexcept { return victim_; }  // the one to take away

  // --- compactor_room.cpp: for the committer
  bool full() const noexcept { return full_; }
  void note_full();
  // Tells compaction not to wait for its time. `bytes`: promised to an upload, to be freed.
  void want_room(std::uint64_t bytes = 0) noexcept;
  // On a full disk: ends the segment being written when most of it is dead, so that it is compacted like the
  // rest.
  Task<> end_dead_segment(Call call);
  // A full disk that has room again takes writes again.
  Task<> look_for_room(Call call);

 private:
  Task<Result<bool>> compact_any(Call call);
  Task<Result<bool>> compact_segment(Call call, std::uint32_t segment);
  Task<Result<>> move_batch(Call call, std::vector<Mutation::Move> moves);
  std::optional<std::uint32_t> pick_victim(std::uint64_t room) const;
  // Tells how much can still be stored; none: the disk is full. Cancel: clean.
  Task<> measure_room(Call call);

  HomeParts& parts_;
  Committer& committer_;
  Scrubber& scrubber_;
  TaskSeats seats_;
  LogReserve opening_;  // room to open the index on a full disk
  WaitList room_wanted_;
  bool full_ = false;
  std::uint64_t wanted_ = 0;             // room that an upload was promised, and that compaction has to make
  bool compacting_ = false;              // a segment
  bool failed_ = false;                  // it is tried again
  std::optional<std::uint32_t> victim_;  // that segment
  observe::LogEvery full_told_{Duration::seconds(60)};  // compaction makes room again and again
};

}  // namespace cairn::store
