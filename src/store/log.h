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
  std::uint64_t first_sequence = 0, last_sequence = 0;  // records that may have been there; 0: not known
  bool unreadable = false;                              // the disk gave an error, not other bytes
  bool lost = false;                                    // not other bytes, but none
};

// Ties an index to the log that it was made from: the store, and the last record that the index has.
struct LogStamp {
  std::array<std::byte, 16> store{};
  Position at;  // of that record
  std::array<std::byte, 16> seal{};
  friend bool operator==(const LogStamp&, const LogStamp&) = default;
};

// How far an index that is derived from the log has come.
struct LogPoint {
  std::uint64_t sequence = 0;          // every record up to here is in the index
  Position next;                       // where the record after that begins, or would
  std::optional<LogStamp> stamp = {};  // of the log it was made from, if the index says so
};

// How an index fits the log.
enum class IndexFit : std::uint8_t {
  good,
  ahead,   // it has records that are not in the log
  behind,  // it lacks records that were taken away meanwhile
  foreign  // made from another log, or from one that went on differently
};

// Takes in the records when a log is opened, in the order of their sequence.
class Replay {
 public:
  virtual ~Replay() = default;
  virtual Task<Result<>> on_record(Call call, Entry entry) = 0;
  virtual Task<Result<>> on_damage(Call call, Damage damage) = 0;
};

// A file with a segment's name that is not of this log, or not under its own number.
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
  // Empty files kept beside the reserve for the same records: a disk may run out of files before bytes.
  // Records that may not use the reserve leave twice as many files to be made.
  std::uint64_t spare_files = 0;
  // For a log that is compacted: live records of a segment are copied before the segment goes. So records
  // that may not use the reserve leave room for one segment, and on a small disk segments are short.
  bool compacted = false;
  // How much those records leave free beside that segment, for what the index takes on the same disk at
  // times. None: the reserve's size.
  std::optional<std::uint64_t> spare = {};
  // Zeros written behind small batches: the next ones overwrite them, so that their sync has no new size and
  // no new blocks of the file to write down, only data. 0: none.
  std::uint64_t ahead = 0;
  DataCheck check = nullptr;
  // The index is durable only after the log. So an index that is ahead proves that the end of the log is
  // lost. The log then goes on above the index, in a new segment, instead of asking for an index that fits.
  bool index_proves = false;
  // The index says what it was made from. An index without a stamp is compared with the segment it stands in.
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

  // Opens or makes the log; replays records after `from`. `integrity`: newer major version, or not ours.
  // Cancel: partial — the directory is as after a crash.
  static Task<Result<std::unique_ptr<Log>>> open(Call call, io::Machine& machine, LogOptions options,
                                                 LogPoint from, Replay& replay, LogReport& report);

  // Writes one commit group together, with one sync. Only one append at a time. Gives the appended records as
  // a reader would find them. All of a batch is there, or none. storage_full and io_failed leave the log as
  // it was, if that could be made sure of. If not, the error is `degraded`, and the log is fenced.
  // Cancel: shielded — a write whose outcome is not known would fence the log.
  virtual Task<Result<std::vector<Entry>>> append(Call call, std::vector<Record> batch) = 0;
  // Takes the segment's file away. Precondition: sealed, and nothing in it is needed any more; one at a time.
  // `flushed`: the index that says so is durable up to what it knew then. If not, no index from before now
  // can be caught up any more. Cancel: partial — it may be gone.
  virtual Task<Result<>> remove_segment(Call call, std::uint32_t segment, bool flushed) = 0;
  Task<Result<>> remove_segment(Call call, std::uint32_t segment) {
    return remove_segment(call, segment, true);
  }
  // Segments that are missing count as removed from now on. Not while one is removed. Cancel: partial — they
  // may count so at the next start.
  virtual Task<Result<>> accept_losses(Call call) = 0;
  virtual const std::vector<std::uint32_t>& lost() const noexcept = 0;  // segments that are missing
  // The segment's file was taken away from outside. Ignored for one that this log has not, or is removing.
  virtual void lose(std::uint32_t segment) = 0;
  // Whether a few records, at least, that may not use the reserve would be taken. Asks the disk.
  // Cancel: clean.
  virtual Task<bool> has_room(Call call) = 0;
  // How many bytes of records that may not use the reserve could be appended. Asks the disk. Cancel: clean.
  virtual Task<Result<std::uint64_t>> room_to_store(Call call) = 0;
  // How many bytes may be copied out of a segment that is taken away afterwards, so that enough is left for
  // all else that frees space. Asks the disk. Cancel: clean.
  struct RoomToCopy {
    std::uint64_t most = 0;         // if nothing else helps: takes a part of what the index needs
    std::uint64_t safe = 0;         // takes none of what the index needs
    bool index_lacks_room = false;  // unless the reserve is given away
  };
  virtual Task<Result<RoomToCopy>> room_to_copy(Call call) = 0;
  // How long a segment is, on a disk like this.
  virtual std::uint64_t segment_length() const noexcept = 0;
  // The reserve is in use, or could not be made: only records that free space are taken.
  virtual bool uses_reserve() const noexcept = 0;
  // Gives the reserve's space away, for a step that needs it to free more. False: there is none.
  // Cancel: partial — it may be gone.
  virtual Task<bool> release_reserve(Call call) = 0;
  // Ends the current segment, so that it can be compacted. Cancel: as append.
  virtual Task<Result<>> roll(Call call) = 0;
  virtual Task<Result<>> close(Call call) = 0;

  virtual bool fenced() const noexcept = 0;
  virtual std::uint64_t durable() const noexcept = 0;  // the watermark
  virtual LogPoint end() const noexcept = 0;
  virtual std::vector<SegmentInfo> segments() const = 0;
  // The size of all segments together, without counting them.
  virtual LogSize size() const noexcept = 0;
  virtual const SealKey& key_of(std::uint32_t segment) = 0;
  // Files that were set aside since the last call of this, by opening or later.
  virtual std::vector<ForeignFile> take_foreign() = 0;
};

// Where a segment's file is.
std::string segment_path(const std::string& directory, std::uint32_t segment);

// Reads one segment from end to end, records and damage in order. Data is skipped, not read.
class SegmentScan {
 public:
  // `file` and the key outlive it. `end`: where to stop reading (a segment being appended to grows on).
  SegmentScan(io::Machine& machine, std::shared_ptr<io::File> file, std::uint32_t segment, SealKey key,
              std::uint64_t from, std::uint64_t end);
  ~SegmentScan();
  // The sequence of the first record, where it is known. Damage then names the records missing before it, and
  // an older record does not count as one.
  void expect(std::uint64_t sequence) noexcept;
  // From now on the scan reads from the disk, past the page cache: for a second look.
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
  // The highest watermark that a sealed header said so far, also that of a record that is not whole.
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
  // A file that is not open is opened once, however many tasks ask for it. `not_found`: compaction took it
  // away, so ask the index again. Cancel: clean.
  Task<Result<std::shared_ptr<io::File>>> get(Call call, std::uint32_t segment);
  void forget(std::uint32_t segment) noexcept;

 private:
  Task<Result<std::shared_ptr<io::File>>> open(Call call, std::uint32_t segment);
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cairn::store
