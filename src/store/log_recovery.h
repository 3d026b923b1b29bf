// LogRecovery: opens a log, before anything is appended: finds the files, settles the key, sets aside files
// that are not of this log, tells rot from a torn tail, replays, cuts.
//
// A tail is torn only if nothing proves that it was durable. Three things prove that everything up to a
// sequence was durable: a sealed record with that watermark, a good segment header with it, and the index
// that was derived (`from`). The next segment's file proves a whole segment, because it is made only after
// everything before it is durable. A header proves that also in a file that was set aside, if it has this
// store's key.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "store/log.h"
#include "store/log_removals.h"
#include "store/segment.h"

namespace cairn::store {

// The state of an opened log, for the writer.
struct LogState {
  crypto::Hash store_key{};
  std::map<std::uint32_t, SegmentInfo> segments;
  std::shared_ptr<io::File> file;    // of the last one, for writing; null: there is none
  std::uint64_t tail = 0;            // where the next record of it goes
  std::uint64_t sequence = 0;        // the highest that was given away
  std::uint32_t known = 0;           // the highest segment that was there, also if it is missing
  std::uint32_t next_segment = 1;    // its file may be there, without any record
  bool ended = false;                // nothing more may be appended to the last one
  std::vector<ForeignFile> foreign;  // set aside by this opening
  std::optional<LogRemovals> removals;
  std::vector<std::uint32_t> lost;  // segments that are missing
  std::optional<LogStamp> stamp;    // of the last record
};

class LogRecovery {
 public:
  // The options, the replay and the report outlive it.
  LogRecovery(io::Machine& machine, const LogOptions& options, LogPoint from, Replay& replay,
              LogReport& report);

  // Cancel: partial — the directory is as after a crash.
  Task<Result<LogState>> run(Call call);

 private:
  struct Segment {
    std::uint64_t size = 0;
    std::optional<SegmentHeader> header;  // if it is good
    bool unreadable = false;
    std::uint64_t first_sequence = 0;
  };
  using Segments = std::map<std::uint32_t, Segment>;
  struct Head {
    HeapBytes bytes;
    std::uint64_t size = 0;
    bool there = false;
    bool unreadable = false;
  };

  Task<Result<>> make_directory(Call call);
  Task<Result<Head>> read_head(Call call, std::string path);
  Task<Result<>> find_segments(Call call);
  Task<Result<>> settle_key(Call call);
  Task<Result<>> write_key(Call call, bool replace);
  Task<Result<bool>> has_records(Call call, std::uint32_t id, std::uint64_t size, crypto::Hash key);
  Task<Result<bool>> is_ours(Call call, std::uint32_t id);
  Task<Result<>> set_misfits_aside(Call call);
  void heed(const SegmentHeader& header, std::uint64_t size);
  Result<> set_torn_segment_aside();
  Task<Result<>> settle_removals(Call call);
  std::vector<std::uint32_t> missing() const;
  Task<Result<>> report_losses(Call call);
  // Settles how the index fits this log. True: it fits, or is believed.
  Task<Result<bool>> settle_index(Call call);
  Task<Result<bool>> is_foreign(Call call);
  Task<Result<bool>> is_stamp_of_another(Call call);
  Task<Result<bool>> is_point_of_another(Call call);
  bool is_index_ahead() const;
  Task<Result<>> believe_index(Call call, std::uint64_t end);
  Task<Result<>> open_last(Call call);
  Task<Result<>> learn_watermark(Call call);
  Task<Result<>> look_for_zeros(Call call);
  Task<Result<std::uint64_t>> find_end_before(Call call, std::shared_ptr<io::File> file, std::uint32_t id,
                                              std::uint64_t offset);
  Task<Result<>> replay_all(Call call);
  Task<Result<>> replay_segment(Call call, std::uint32_t id);
  Task<Result<>> replay_end(Call call, std::uint32_t id, Damage end);
  Task<Result<>> report_damage(Call call, Damage damage);
  Task<Result<bool>> is_whole(Call call, Entry entry);
  Task<Result<>> cut(Call call, std::uint64_t offset);
  bool is_last(std::uint32_t id) const noexcept { return id == segments_.rbegin()->first; }
  bool begins_at(std::uint32_t id) const noexcept { return from_.sequence > 0 && id == from_.next.segment; }
  // A segment whose header is missing, or that has a segment after it, is never cut.
  bool is_unproven(std::uint32_t id, std::uint64_t sequence) const noexcept {
    return is_last(id) && !torn_ && !ended_ && sequence > watermark_;
  }
  Result<> refuse(std::string problem);
  LogState result() const;

  io::Machine machine_;  // a bundle of references
  const LogOptions& options_;
  LogPoint from_;
  Replay& replay_;
  LogReport& report_;
  crypto::Hash store_key_{};
  Segments segments_;
  // Good heads of files that are no segments of this log: set aside now or earlier.
  struct Stray {
    SegmentHeader header;
    std::uint64_t size = 0;
  };
  std::vector<Stray> strays_;
  std::vector<ForeignFile> foreign_;
  std::optional<LogRemovals> removals_;
  std::vector<std::uint32_t> lost_;
  std::optional<LogStamp> stamp_;
  std::uint32_t known_ = 0;            // of this log's segments, also missing ones
  std::uint32_t highest_ = 0;          // number that any name or header says
  std::optional<std::uint32_t> torn_;  // the file that was to become the next segment
  std::shared_ptr<io::File> file_;     // of the last segment
  std::uint64_t watermark_ = 0;
  std::uint64_t sequence_ = 0;  // of the last record replayed, or known to have been there
  std::uint64_t ceiling_ = 0;   // no higher one was ever given away
  std::uint64_t given_ = 0;     // by files that were set aside
  bool ended_ = false;
};

}  // namespace cairn::store
