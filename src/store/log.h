// Log: the segment log of one data directory: append-only files, one writer, group commit.
//
//   [L-1] append() returns success only after every record of the batch is durable (with fsync on).
//   [L-2] Sequences rise by one with every record and never go back, whatever crashes.
//   [L-3] After a crash an appended batch that was acknowledged is there; one that was not is, record by
//         record, whole or absent.
//   [L-4] Damage at or below the highest watermark seen is rot: reported, never cut. Only damage above it is
//         a torn tail, and is cut; and only in the last segment, if its header is good.
//   [L-5] After an error of a sync, or a write whose outcome is unknown, the log is fenced: no append
//         succeeds until the next start, which reads everything above the watermark again. A step that is
//         known not to have begun (Error::undone) never fences: it is asked for again, by the next append.
//   [L-6] Bytes in a record's data are never taken for a record.
//   [L-7] A file that is not of this log, or not under its own number, is never written to: it is set aside
//         whole. No number that a file's name or header says is given to a new segment.
//   [L-8] A segment that is missing and was not taken away by remove_segment() is a loss, and is reported at
//         every start until it is back or accepted.
//   [L-9] Nothing is acknowledged that is in a file which lost its name under the open log: that segment is
//         lost from then on, and the log goes on in another; one that is not compacted is fenced.
// The watermark of a record is the highest sequence durable before its batch was written. The segment's
// header also carries it, and names the last sequence of the segment before it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/machine.h"
#include "store/record.h"

namespace cairn::store {

struct Damage {
  std::uint32_t segment = 0;
  std::uint64_t from = 0, to = 0;                       // bytes
  std::uint64_t first_sequence = 0, last_sequence = 0;  // what may have been there; 0: not known
  bool unreadable = false;                              // the disk gave an error, not other bytes
  bool lost = false;                                    // not other bytes, but none
};

// What ties an index to the log that it was made from: the store, and the last record that it has.
struct LogStamp {
  std::array<std::byte, 16> store{};
  Position at;  // of that record
  std::array<std::byte, 16> seal{};
  friend bool operator==(const LogStamp&, const LogStamp&) = default;
};

// Where an index that is derived from the log stands.
struct LogPoint {
  std::uint64_t sequence = 0;          // everything up to here is in it
  Position next;                       // where the record after that begins, or would
  std::optional<LogStamp> stamp = {};  // of what it was made from, if it says
};

// How such an index fits the log.
enum class IndexFit : std::uint8_t {
  good,
  ahead,   // it has what is not in the log
  behind,  // what it has not was taken away meanwhile
  foreign  // it was made from another log, or from one that went on differently
};

// What takes in the records when a log is opened. In the order of their sequence.
class Replay {
 public:
  virtual ~Replay() = default;
  virtual Task<Result<>> on_record(Call call, Entry entry) = 0;
  virtual Task<Result<>> on_damage(Call call, Damage damage) = 0;
};

// A file with a segment's name that is none of this log's, or not under its own number.
struct ForeignFile {
  std::string path;                             // where it is now
  std::uint32_t segment = 0;                    // the number that its name said
  std::optional<std::uint32_t> header_segment;  // the number that its header says, if that is good
};

// Does the data agree with what the meta says of it? Asked of records above the watermark only.
using DataCheck = bool (*)(const RecordHeader& header, ByteView meta, ByteView data);

struct LogOptions {
  std::string directory;  // of the segments; made when missing
  std::uint64_t segment_size = 256u << 20;
  bool fsync = true;                 // false: durability is the operator's own risk
  std::uint64_t reserve = 8u << 20;  // kept free for records that may use it; 0: none
  // Empty files kept beside it for the same: a disk may be out of files and not of bytes. Everything but
  // those records leaves twice as many to be made.
  std::uint64_t spare_files = 0;
  // For a log that is compacted: what lives in a segment is copied before the segment goes. So everything but
  // records that may use the reserve leaves room for one segment, and on a small disk segments are short.
  bool compacted = false;
  // What such records leave free beside that segment: what the index takes on the same disk at times. The
  // reserve's size, if it is not said.
  std::optional<std::uint64_t> spare = {};
  // Zeros written behind small batches: the next ones overwrite them, so that their sync has no new size and
  // no new blocks of the file to write down, only data. 0: none.
  std::uint64_t ahead = 0;
  DataCheck check = nullptr;
  // The index was durable only after the log was: one that is ahead proves that the end of the log is lost.
  // The log then goes on above it, in a new segment, instead of asking for an index that fits.
  bool index_proves = false;
  // The index says what it was made from; one that does not is from before it did, and is held against the
  // segment it stands in.
  bool index_stamped = false;
  Duration patience = Duration::seconds(30);  // how long the disk may take before the log is fenced
};

struct LogReport {
  std::uint64_t records = 0;        // replayed
  std::uint64_t damaged = 0;        // places
  std::uint64_t cut_bytes = 0;      // of a torn tail, or zeros that were written ahead
  std::uint64_t foreign = 0;        // files that are set aside in the directory, also by earlier openings
  IndexFit index = IndexFit::good;  // else nothing was replayed: open again from zero
  bool ends_lost = false;           // the index was ahead, and is believed
  std::string problem;              // for people: why it was not opened, when it was `integrity`
};

struct SegmentInfo {
  std::uint32_t id = 0;
  std::uint64_t size = 0;
  std::uint64_t first_sequence = 0;
  bool sealed = false;  // no more is appended to it
};

struct LogSize {
  std::uint64_t segments = 0, bytes = 0;
};

class Log {
 public:
  virtual ~Log() = default;

  // Opens or makes it; replays what is after `from`. `integrity`: a newer major version, or not ours.
  // Cancel: partial — the directory is as after a crash.
  static Task<Result<std::unique_ptr<Log>>> open(Call call, io::Machine& machine, LogOptions options,
                                                 LogPoint from, Replay& replay, LogReport& report);

  // One group: written together, one sync. Only one append at a time. What was appended comes back as a
  // reader would find it. All of a batch is there, or none: storage_full and io_failed leave the log as it
  // was, if that could be made sure of; else `degraded`, and the log is fenced. Cancel: shielded — a write
  // whose outcome nobody knows would fence the log.
  virtual Task<Result<std::vector<Entry>>> append(Call call, std::vector<Record> batch) = 0;
  // Takes the file away. Precondition: sealed, and nothing in it is needed any more; one at a time.
  // `flushed`: by the word of an index that is durable as far as it was when it said so; else none from
  // before now can be caught up any more. Cancel: partial — it may be gone.
  virtual Task<Result<>> remove_segment(Call call, std::uint32_t segment, bool flushed) = 0;
  Task<Result<>> remove_segment(Call call, std::uint32_t segment) {
    return remove_segment(call, segment, true);
  }
  // Segments that are missing count as removed from now on. Not while one is removed. Cancel: partial — they
  // may count so at the next start.
  virtual Task<Result<>> accept_losses(Call call) = 0;
  virtual const std::vector<std::uint32_t>& lost() const noexcept = 0;  // segments that are missing
  // Somebody else took its file away. One that this log has not, or takes away itself, is not meant.
  virtual void lose(std::uint32_t segment) = 0;
  // Would records that may not use the reserve be taken, a few at least? Asks the disk. Cancel: clean.
  virtual Task<bool> has_room(Call call) = 0;
  // How much could be appended of records that may not use the reserve. Asks the disk. Cancel: clean.
  virtual Task<Result<std::uint64_t>> room_to_store(Call call) = 0;
  // How much may be copied from a segment that goes then, and leave enough for whatever else frees space.
  // Asks the disk. Cancel: clean.
  struct RoomToCopy {
    std::uint64_t most = 0;         // where nothing else helps: a part of what the index needs
    std::uint64_t safe = 0;         // none of it
    bool index_lacks_room = false;  // unless the reserve is given away
  };
  virtual Task<Result<RoomToCopy>> room_to_copy(Call call) = 0;
  // How long a segment is, on a disk like this.
  virtual std::uint64_t segment_length() const noexcept = 0;
  // The reserve is in use, or could not be made: nothing but what frees space is taken.
  virtual bool uses_reserve() const noexcept = 0;
  // Gives the reserve's space away, to whatever needs it to free more. False: there is none. Cancel: partial
  // — it may be gone.
  virtual Task<bool> release_reserve(Call call) = 0;
  // Ends the current segment, so that it can be compacted. Cancel: as append.
  virtual Task<Result<>> roll(Call call) = 0;
  virtual Task<Result<>> close(Call call) = 0;

  virtual bool fenced() const noexcept = 0;
  virtual std::uint64_t durable() const noexcept = 0;  // the watermark
  virtual LogPoint end() const noexcept = 0;
  virtual std::vector<SegmentInfo> segments() const = 0;
  // What they are together, without counting them.
  virtual LogSize size() const noexcept = 0;
  virtual const SealKey& key_of(std::uint32_t segment) = 0;
  // Files that were set aside since it was asked last, by opening or since.
  virtual std::vector<ForeignFile> take_foreign() = 0;
};

// Where a segment's file is.
std::string segment_path(const std::string& directory, std::uint32_t segment);

// Reads one segment from end to end, records and damage in order. Data is skipped, not read.
class SegmentScan {
 public:
  // `file` and the key outlive it. `end`: bytes that count (a segment being appended to grows on).
  SegmentScan(io::Machine& machine, std::shared_ptr<io::File> file, std::uint32_t segment, SealKey key,
              std::uint64_t from, std::uint64_t end);
  ~SegmentScan();
  // The sequence of the first record, where it is known: what is missing before it is then named, and what
  // is older is no record.
  void expect(std::uint64_t sequence) noexcept;
  // From now on it reads what the disk has, past the page cache: for a second look.
  void look_past_cache() noexcept;
  struct Found {
    std::optional<Entry> entry;
    std::optional<Damage> damage;  // neither: the end
  };
  // Cancel: clean.
  Task<Result<Found>> next(Call call);
  std::uint64_t offset() const noexcept;
  // Of the record found last.
  std::array<std::byte, 16> seal() const noexcept;
  // The highest one that a sealed header said so far, also that of a record that is not whole.
  std::uint64_t watermark() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// A shard's open segment files. Bounded: the one that was used least recently is closed.
class SegmentFiles {
 public:
  SegmentFiles(io::Machine& machine, std::string directory, std::size_t open_max = 128);
  ~SegmentFiles();
  std::shared_ptr<io::File> find(std::uint32_t segment) noexcept;  // only if it is open
  // However many ask for one that is not open, it is opened once. `not_found` when compaction took it away:
  // ask the index again. Cancel: clean.
  Task<Result<std::shared_ptr<io::File>>> get(Call call, std::uint32_t segment);
  void forget(std::uint32_t segment) noexcept;

 private:
  Task<Result<std::shared_ptr<io::File>>> open(Call call, std::uint32_t segment);
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cairn::store
