// LogWriter: the open log. Appends, begins segments, takes them away.
//
//   [LW-1] Everything up to `sequence_` is durable between two appends, so it is the watermark of the next.
//   [LW-2] Once the file of the next segment may exist, nothing more is appended to the one before.
//   [LW-3] The segment appended to is never taken away: it keeps the sequence from starting over.
//   [LW-4] Behind the tail there are zeros up to `ready_`, the end of the file; a segment that is followed by
//         another ends with its last record.
//   [LW-5] In a log that is compacted, records that may not use the reserve leave free what a segment takes,
//         and what the index beside it needs: a full disk always has room to be emptied again.
//   [LW-6] Every step that must come before the next record goes by a lane that only committers use, with a
//         thread for this log. Taking a segment away goes by another lane, so it delays no append.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "store/log.h"
#include "store/log_recovery.h"
#include "store/log_reserve.h"

namespace cairn::store {

class LogWriter final : public Log {
 public:
  LogWriter(io::Machine& machine, LogOptions options, LogState state);

  // Makes the log ready to append. A full disk is no error: the first append tries again.
  // Cancel: partial — as Log::open.
  Task<Result<>> start(Call call);
  // For a log that was only looked at.
  void shut() noexcept;

  Task<Result<std::vector<Entry>>> append(Call call, std::vector<Record> batch) override;
  using Log::remove_segment;
  Task<Result<>> remove_segment(Call call, std::uint32_t segment, bool flushed) override;
  Task<bool> has_room(Call call) override;
  Task<Result<RoomToCopy>> room_to_copy(Call call) override;
  std::uint64_t segment_length() const noexcept override { return length_; }
  bool uses_reserve() const noexcept override { return !reserve_.is_whole(); }
  Task<bool> release_reserve(Call call) override { return reserve_.release(patient(call)); }
  Task<Result<std::uint64_t>> room_to_store(Call call) override;
  Task<Result<>> roll(Call call) override;
  Task<Result<>> close(Call call) override;

  bool fenced() const noexcept override { return fenced_; }
  std::uint64_t durable() const noexcept override { return sequence_; }
  LogPoint end() const noexcept override;
  std::vector<SegmentInfo> segments() const override;
  LogSize size() const noexcept override { return {segments_.size(), bytes_}; }
  const SealKey& key_of(std::uint32_t segment) override;
  Task<Result<>> accept_losses(Call call) override;
  const std::vector<std::uint32_t>& lost() const noexcept override { return lost_; }
  void lose(std::uint32_t segment) override;
  std::vector<ForeignFile> take_foreign() override { return std::exchange(foreign_, {}); }

 private:
  struct Encoded {
    std::vector<HeapBytes> blocks;
    std::vector<Entry> entries;
    std::array<std::byte, 16> seal{};  // of the last
  };
  struct Busy;
  struct Noting;

  Task<bool> take_room(Call call, std::uint64_t size);
  void measure(std::uint64_t free) noexcept;
  // How many files records that may not use the reserve leave to be made.
  std::uint64_t files_kept() const noexcept { return 2 * options_.spare_files; }
  std::uint64_t spare() const noexcept { return options_.spare.value_or(options_.reserve); }
  void set_size(SegmentInfo& segment, std::uint64_t size) noexcept;
  // Whether the file being written to is still there. If not, its segment is lost from now on.
  bool has_current();
  void drop(std::uint32_t segment) noexcept;
  Task<Result<>> make_room(Call call, std::uint64_t size);
  Task<Result<>> make_room_at_any_cost(Call call, std::uint64_t size);
  Task<Result<>> begin_segment(Call call);
  Task<Result<std::unique_ptr<io::File>>> make_next_file(Call call);
  Task<Result<>> set_next_aside(Call call, io::File& file);
  Task<Result<>> note_removal(Call call, std::uint32_t segment, bool flushed);
  Encoded encode(std::vector<Record> batch);
  std::uint64_t zeros_behind(std::uint64_t size) const noexcept;
  Task<Result<>> write(Call call, std::vector<HeapBytes> blocks);
  Task<Result<>> cut(Call call);
  Result<> usable() const noexcept;
  std::unexpected<Error> fence() noexcept;
  // Fences the log after a step that failed, unless the step never began [L-5].
  std::unexpected<Error> fence_unless_undone(const Error& error) noexcept;
  // A step that must not stop half way, for as long as the disk may take.
  Call patient(const Call& call) const noexcept { return call.unbounded().within(options_.patience); }
  io::Sync sync() const noexcept { return options_.fsync ? io::Sync::data : io::Sync::no; }

  io::Machine machine_;  // a bundle of references; the disk by the committers' lane
  io::Disk& upkeep_;     // the same disk by the lane of tasks
  PoolSeat seat_;
  std::optional<PoolSeat> compactor_seat_;  // for the compactor, which asks for room during an append
  LogOptions options_;
  crypto::Hash store_key_;
  std::array<std::byte, 16> store_id_;
  LogReserve reserve_;
  std::map<std::uint32_t, SegmentInfo> segments_;
  std::uint64_t bytes_ = 0;  // of all segments
  std::map<std::uint32_t, SealKey> keys_;
  std::uint32_t current_ = 0;  // 0: none yet
  std::uint32_t known_ = 0;    // the last segment before the next one, also if it is missing
  std::uint32_t next_segment_;
  std::shared_ptr<io::File> file_;
  std::vector<ForeignFile> foreign_;
  std::optional<LogStamp> stamp_;  // of the last record
  LogRemovals removals_;
  std::vector<std::uint32_t> lost_;
  std::uint64_t tail_ = 0;
  std::uint64_t ready_ = 0;
  std::uint64_t sequence_ = 0;
  std::uint64_t length_;       // of a segment, on a disk like this
  std::uint64_t ahead_;        // zeros, likewise
  std::uint64_t kept_ = 0;     // bytes left free
  std::uint64_t granted_ = 0;  // bytes to append before the disk is asked for room again
  bool ended_ = false;         // nothing more goes to the current segment
  bool gone_ = false;          // the current segment's file: it is in `lost_`, or was and is accepted
  bool uncut_ = false;         // a failed write left bytes behind the tail; they go before the next one
  bool fenced_ = false;
  bool closed_ = false;
  bool busy_ = false;
  bool noting_ = false;  // a removal
};

}  // namespace cairn::store
