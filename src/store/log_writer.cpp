#include "store/log_writer.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "store/log_foreign.h"

namespace cairn::store {
namespace {

std::uint64_t data_size(const Record& record) noexcept {
  std::uint64_t size = 0;
  for (const HeapBytes& block : record.data) size += block.size();
  return size;
}

// The bytes that a batch takes in a segment.
std::uint64_t size_of(const std::vector<Record>& batch) noexcept {
  std::uint64_t size = 0;
  for (const Record& record : batch) {
    const std::uint64_t data = data_size(record);
    CHECK(record.meta.size() <= record_meta_max && data <= record_data_max);
    RecordHeader header;
    header.meta_size = static_cast<std::uint32_t>(record.meta.size());
    header.data_size = static_cast<std::uint32_t>(data);
    size += header.size();
  }
  return size;
}

// A small disk has at least so many segments, unless they were shorter than the least length: compaction then
// needs a small part of the disk, and is soon done with a segment. On a tiny disk a quarter is kept free for
// it.
constexpr std::uint64_t least_segments = 64;
constexpr std::uint64_t zeros_of_segment = 16;
constexpr std::uint64_t least_length = 1u << 20;
constexpr std::uint64_t kept_most = 4;
constexpr std::uint64_t largest_record = record_data_max + (64u << 10);
// The disk is asked for room again after this part of the room kept free is appended.
constexpr std::uint64_t part_granted = 8;
// How many files that are not of this log may be in the way of a new segment before that is an error.
constexpr int foreign_most = 8;

// A block that is worth a piece of its own in a gathered write.
bool is_large(const HeapBytes& block) noexcept { return block.size() > (16u << 10); }

std::vector<HeapBytes> copy_of(const std::vector<HeapBytes>& blocks) {
  std::vector<HeapBytes> copy;
  for (const HeapBytes& block : blocks) {
    copy.emplace_back(block.size());
    copy.back().append(block.bytes());
  }
  return copy;
}

HeapBytes zero_block(std::size_t size) {
  HeapBytes block(size);
  std::memset(block.room().data(), 0, size);
  block.fill(size);
  return block;
}

bool is_full(const Result<>& result) noexcept {
  return !result && result.error().code == ErrorCode::storage_full;
}

}  // namespace

// One append, roll or removal of the current segment at a time.
struct LogWriter::Busy {
  explicit Busy(LogWriter& writer) noexcept : writer_(writer) {
    CHECK(!writer_.busy_);
    writer_.busy_ = true;
  }
  ~Busy() { writer_.busy_ = false; }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;

 private:
  LogWriter& writer_;
};

LogWriter::LogWriter(io::Machine& machine, LogOptions options, LogState state)
    : machine_(machine.for_commits()),
      upkeep_(machine.disk.upkeep()),
      seat_(machine.pool, Lane::commit),
      options_(std::move(options)),
      store_key_(state.store_key),
      store_id_(store_id(state.store_key)),
      reserve_(machine_, options_.directory, options_.reserve, options_.spare_files),
      segments_(std::move(state.segments)),
      current_(segments_.empty() ? 0 : segments_.rbegin()->first),
      known_(state.known),
      next_segment_(state.next_segment),
      file_(std::move(state.file)),
      foreign_(std::move(state.foreign)),
      stamp_(state.stamp),
      removals_(std::move(*state.removals)),
      lost_(std::move(state.lost)),
      tail_(state.tail),
      ready_(state.tail),
      sequence_(state.sequence),
      length_(options_.segment_size),
      ahead_(options_.ahead),
      ended_(state.ended) {
  // Offsets are 32 bits, and one batch may be longer than a segment.
  CHECK(options_.segment_size >= 4 * segment_header_size && options_.segment_size <= 0xffff'0000u);
  for (const auto& [id, info] : segments_) bytes_ += info.size;
  if (options_.compacted) compactor_seat_.emplace(machine_.pool, Lane::commit);
}

Task<Result<>> LogWriter::start(Call call) {
  if (current_ == 0 || ended_) {
    const auto begun = co_await begin_segment(call);
    if (!begun && !(is_full(begun) && current_ != 0)) co_return fail(begun.error());
  }
  co_return co_await reserve_.open(call);
}

void LogWriter::shut() noexcept { closed_ = true; }

Result<> LogWriter::usable() const noexcept {
  if (closed_) return fail(ErrorCode::closed, "log");
  if (fenced_) return fail(ErrorCode::degraded, "the log is fenced since a write failed");
  return {};
}

std::unexpected<Error> LogWriter::fence() noexcept {
  fenced_ = true;
  return fail(ErrorCode::degraded, "a write to the log failed");
}

std::unexpected<Error> LogWriter::fence_unless_undone(const Error& error) noexcept {
  if (!error.undone) return fence();
  return fail(Error(ErrorCode::degraded, "the disk did not come to it in time").as_undone());
}

// --- append

Task<Result<std::vector<Entry>>> LogWriter::append(Call call, std::vector<Record> batch) {
  CO_TRY_VOID(usable());
  if (batch.empty()) co_return std::vector<Entry>();
  const Busy busy(*this);
  if (!has_current() && !options_.compacted) co_return fence();
  const std::uint64_t size = size_of(batch);
  const bool frees = std::all_of(batch.begin(), batch.end(), [](const Record& r) { return r.reserve; });
  if (!frees && !co_await reserve_.ensure(patient(call)))
    co_return fail(ErrorCode::storage_full, "the reserve of a full disk is in use");
  if (!frees && !co_await take_room(patient(call), size))
    co_return fail(ErrorCode::storage_full, "the room left is for what frees space");

  if (frees)
    CO_TRY_VOID(co_await make_room_at_any_cost(call, size));
  else
    CO_TRY_VOID(co_await make_room(call, size));
  const std::uint64_t count = batch.size();
  Encoded encoded = encode(std::move(batch));
  std::vector<HeapBytes> again;
  if (frees && reserve_.is_there()) again = copy_of(encoded.blocks);
  const std::uint64_t zeros = frees ? 0 : zeros_behind(size);
  if (zeros > 0) encoded.blocks.push_back(zero_block(static_cast<std::size_t>(zeros)));
  auto written = co_await write(call, std::move(encoded.blocks));
  if (is_full(written) && !again.empty() && co_await reserve_.release(patient(call)))
    written = co_await write(call, std::move(again));
  if (!written) co_return fail(written.error());
  sequence_ += count;
  tail_ += size;
  ready_ = std::max(ready_, tail_ + zeros);
  set_size(segments_[current_], tail_);
  if (!has_current()) {
    if (!options_.compacted) co_return fence();
    co_return fail(ErrorCode::degraded, "the segment that is written to was taken away");
  }
  stamp_ = LogStamp{store_id_, encoded.entries.back().at, encoded.seal};
  co_return std::move(encoded.entries);
}

// Blocks in the order of the file: small pieces are copied together, large data stays where it is.
LogWriter::Encoded LogWriter::encode(std::vector<Record> batch) {
  const SealKey& key = key_of(current_);
  constexpr std::array<std::byte, record_alignment> zeros{};
  std::uint64_t left = size_of(batch);  // to be copied
  for (const Record& record : batch)
    for (const HeapBytes& block : record.data) left -= is_large(block) ? block.size() : 0;
  Encoded out;
  out.entries.reserve(batch.size());
  HeapBytes together(static_cast<std::size_t>(left));
  std::uint64_t offset = tail_;
  std::uint64_t sequence = sequence_;
  for (Record& record : batch) {
    RecordHeader header;
    header.kind = record.kind;
    header.meta_size = static_cast<std::uint32_t>(record.meta.size());
    header.data_size = static_cast<std::uint32_t>(data_size(record));
    header.sequence = ++sequence;
    header.origin = record.origin == 0 ? sequence : record.origin;
    CHECK(header.origin <= sequence);
    header.watermark = sequence_;
    header.offset = static_cast<std::uint32_t>(offset);
    const auto head = encode_header(header, as_bytes(record.meta), key);
    out.seal = seal_in(head);
    together.append(head);
    together.append(as_bytes(record.meta));
    for (HeapBytes& block : record.data) {
      if (!is_large(block)) {
        together.append(std::as_const(block).bytes());
        continue;
      }
      HeapBytes rest(together.room().size());
      out.blocks.push_back(std::exchange(together, std::move(rest)));
      out.blocks.push_back(std::move(block));
    }
    together.append(ByteView(zeros).first(
        static_cast<std::size_t>(header.size() - record_header_size - header.meta_size - header.data_size)));
    out.entries.push_back({header, {current_, header.offset}, std::move(record.meta)});
    offset += header.size();
  }
  if (!together.empty()) out.blocks.push_back(std::move(together));
  return out;
}

// An error leaves open how much was written, and with Sync::data whether the write or the sync met it.
// Nothing of the batch was acknowledged, and the bytes before the tail are durable since earlier. For a full
// disk, also one that notices only when it syncs, it is enough to cut the bytes beyond the tail and to see
// the cut synced: the pages that could not be written are no longer part of the file. After any other error
// the disk's word is not worth that much: fenced. After a deadline the write may still happen: fenced too.
Task<Result<>> LogWriter::write(Call call, std::vector<HeapBytes> blocks) {
  const auto written = co_await file_->write_blocks(patient(call), tail_, std::move(blocks), sync());
  if (written) co_return Result<>{};
  if (written.error().undone) co_return fence_unless_undone(written.error());
  // Pages that a sync gave up on stay in memory as if they were durable: the next start must not find them.
  if (written.error().code == ErrorCode::io_failed) (void)co_await file_->truncate(patient(call), tail_);
  if (!is_full(written)) co_return fence();
  uncut_ = true;
  // Uncut, a part of the batch is still in the file, and a start before the next append takes it for written.
  // So no caller may be told that the append did not happen.
  if (!co_await cut(call)) co_return fail(ErrorCode::degraded, "a part of a failed write is still there");
  co_return fail(written.error());
}

// Where the zeros are used up, writes as many again, within the segment. A large batch pays for its own sync.
std::uint64_t LogWriter::zeros_behind(std::uint64_t size) const noexcept {
  const std::uint64_t end = tail_ + size;
  if (end <= ready_ || size > ahead_ / 8) return 0;
  return std::min(ahead_, options_.segment_size - std::min(options_.segment_size, end));
}

// Cuts the bytes behind the tail.
Task<Result<>> LogWriter::cut(Call call) {
  if (auto done = co_await file_->truncate(patient(call), tail_); !done)
    co_return fence_unless_undone(done.error());
  if (options_.fsync)
    if (auto done = co_await file_->sync_data(patient(call)); !done)
      co_return fence_unless_undone(done.error());
  ready_ = tail_;
  uncut_ = false;
  co_return Result<>{};
}

// --- room

void LogWriter::measure(std::uint64_t free) noexcept {
  std::uint64_t room = free;
  for (const auto& [id, info] : segments_) room += info.size;
  length_ = std::min(options_.segment_size, std::max(room / least_segments, least_length));
  kept_ = std::min(length_, room / kept_most) + spare();
  ahead_ = std::min(options_.ahead, length_ / zeros_of_segment);
}

Task<bool> LogWriter::take_room(Call call, std::uint64_t size) {
  if (!options_.compacted) co_return true;
  if (granted_ < size) {
    const auto free = co_await machine_.disk.free_space(call, options_.directory);
    if (!free) co_return true;  // the write will tell
    measure(free->bytes);
    if (free->files < files_kept() || free->bytes < kept_ + size) co_return false;
    granted_ = std::max(size, std::min(free->bytes - kept_, kept_ / part_granted));
  }
  granted_ -= size;
  co_return true;
}

Task<bool> LogWriter::has_room(Call call) {
  const auto free = co_await machine_.disk.free_space(call.within(options_.patience), options_.directory);
  if (!free) co_return false;
  if (options_.compacted) measure(free->bytes);
  // A little more than is needed, so that the disk is not full again at once: at least one record of the
  // largest kind.
  const std::uint64_t little = std::max(kept_ / part_granted, length_ < least_length ? 0 : largest_record);
  const io::FreeSpace reserve = reserve_.room_to_make();
  co_return free->bytes >= kept_ + little + reserve.bytes &&
      free->files >= files_kept() + options_.spare_files / 2 + reserve.files;
}

Task<Result<std::uint64_t>> LogWriter::room_to_store(Call call) {
  CO_TRY(const io::FreeSpace free,
         co_await machine_.disk.free_space(call.within(options_.patience), options_.directory));
  if (options_.compacted) measure(free.bytes);
  const io::FreeSpace reserve = reserve_.room_to_make();
  const bool files = free.files >= files_kept() + reserve.files;
  const std::uint64_t room = files ? free.bytes - std::min(free.bytes, kept_ + reserve.bytes) : 0;
  if (room == 0) granted_ = 0;  // others took it
  co_return room;
}

Task<Result<Log::RoomToCopy>> LogWriter::room_to_copy(Call call) {
  CO_TRY(const io::FreeSpace space,
         co_await machine_.disk.free_space(call.within(options_.patience), options_.directory));
  const std::uint64_t free = space.bytes;
  const std::uint64_t all = free + (reserve_.is_there() ? options_.reserve : 0);
  co_return RoomToCopy{all - std::min(all / 2, spare()), all - std::min(all, spare()),
                       options_.spare && free < *options_.spare};
}

// --- segments

Task<Result<>> LogWriter::make_room(Call call, std::uint64_t size) {
  if (uncut_) CO_TRY_VOID(co_await cut(call));
  // A batch that is longer than segments should be has a segment of its own. So have moved records that are
  // longer than segments, which became shorter since.
  const bool fits = tail_ == segment_header_size || tail_ + size <= length_;
  if (current_ != 0 && !ended_ && fits) co_return Result<>{};
  co_return co_await begin_segment(call);
}

Task<Result<>> LogWriter::make_room_at_any_cost(Call call, std::uint64_t size) {
  auto made = co_await make_room(call, size);
  if (is_full(made) && co_await reserve_.release(patient(call))) made = co_await make_room(call, size);
  co_return made;
}

// Makes an empty file under the next number. A file that an attempt left behind, on a full disk, by a crash,
// or because a step of it never began, is used again: it is too short to hold a record. A longer file is not
// of this log's making, and its number is taken.
Task<Result<std::unique_ptr<io::File>>> LogWriter::make_next_file(Call call) {
  for (int attempt = 0;; ++attempt) {
    const std::string path = segment_path(options_.directory, next_segment_);
    auto opened = co_await machine_.disk.open(patient(call), path, io::OpenMode::create_new);
    if (opened || opened.error().code != ErrorCode::conflict) co_return std::move(opened);
    CO_TRY(std::unique_ptr<io::File> there,
           co_await machine_.disk.open(patient(call), path, io::OpenMode::write));
    CO_TRY(const std::uint64_t size, there->size());
    if (size <= segment_header_size) {
      if (auto emptied = co_await there->truncate(patient(call), 0); !emptied)
        co_return fence_unless_undone(emptied.error());
      co_return std::move(there);
    }
    if (attempt == foreign_most) co_return fail(ErrorCode::io_failed, "others make files in the log");
    CO_TRY_VOID(co_await set_next_aside(call, *there));
  }
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller waits
Task<Result<>> LogWriter::set_next_aside(Call call, io::File& file) {
  auto head = std::make_shared<HeapBytes>(head_size);
  CO_TRY(const std::size_t got, co_await file.read_into(patient(call), 0, {head->room(), head}));
  head->fill(got);
  std::optional<SegmentHeader> header(std::in_place);
  if (decode_segment_header(std::as_const(*head).bytes(), *header) != HeadState::good) header.reset();
  const std::uint32_t taken = std::max(next_segment_, header ? header->id : 0);
  if (taken == 0xffff'ffffu) co_return fail(ErrorCode::io_failed, "no number is left for the next segment");
  CO_TRY(ForeignFile aside,
         co_await set_aside(patient(call), machine_, options_.directory, next_segment_, header));
  foreign_.push_back(std::move(aside));
  next_segment_ = taken + 1;
  co_return Result<>{};
}

// Makes the segment durable, name and header, before any record in it can be.
Task<Result<>> LogWriter::begin_segment(Call call) {
  ended_ = true;
  if (ready_ > tail_) CO_TRY_VOID(co_await cut(call));
  auto opened = co_await make_next_file(call);
  const std::string path = segment_path(options_.directory, next_segment_);
  if (!opened) {
    const ErrorCode code = opened.error().code;
    if (code != ErrorCode::storage_full && code != ErrorCode::io_failed)
      co_return fence_unless_undone(opened.error());
    co_return fail(opened.error());
  }
  std::shared_ptr<io::File> file = std::move(*opened);
  std::vector<HeapBytes> blocks;
  const auto end = known_ == current_ ? static_cast<std::uint32_t>(tail_) : 0;
  blocks.push_back(
      encode_segment_header({next_segment_, known_, end, sequence_, sequence_ + 1, sequence_, store_key_}));
  const auto written = co_await file->write_blocks(patient(call), 0, std::move(blocks), sync());
  if (!written && written.error().code == ErrorCode::io_failed)
    (void)co_await file->truncate(patient(call), 0);  // as in write()
  if (is_full(written)) co_return fail(written.error());
  if (!written) co_return fence_unless_undone(written.error());
  if (options_.fsync)
    if (auto named = co_await machine_.disk.sync_directory(patient(call), options_.directory); !named) {
      // The next start would find the name in memory and believe it: the file is to be made anew.
      if (!named.error().undone) (void)co_await machine_.disk.unlink(patient(call), path);
      co_return fence_unless_undone(named.error());
    }
  if (current_ != 0) segments_[current_].sealed = true;
  if (std::exchange(gone_, false)) drop(current_);
  current_ = known_ = next_segment_++;
  file_ = std::move(file);
  tail_ = ready_ = segment_header_size;
  ended_ = false;
  segments_[current_] = {current_, 0, sequence_ + 1, false};
  set_size(segments_[current_], tail_);
  co_return Result<>{};
}

Task<Result<>> LogWriter::roll(Call call) {
  CO_TRY_VOID(usable());
  const Busy busy(*this);
  if (!ended_ && tail_ == segment_header_size) co_return Result<>{};
  ended_ = true;
  co_return co_await make_room_at_any_cost(call, 0);
}

// One change of the notes at a time.
struct LogWriter::Noting {
  explicit Noting(LogWriter& writer) noexcept : writer_(writer) { writer_.noting_ = true; }
  ~Noting() { writer_.noting_ = false; }
  Noting(const Noting&) = delete;
  Noting& operator=(const Noting&) = delete;

 private:
  LogWriter& writer_;
};

// A disk that was full when the notes were to be made has no notes. The gap then counts as older than them.
Task<Result<>> LogWriter::note_removal(Call call, std::uint32_t segment, bool flushed) {
  if (noting_) co_return fail(ErrorCode::busy, "another removal is being noted");
  const Noting noting(*this);
  const std::uint64_t behind = std::next(segments_.find(segment))->second.first_sequence;
  const std::uint64_t floor = behind == 0 || !flushed ? sequence_ : behind - 1;
  const auto noted = co_await removals_.add(patient(call), {segment}, floor);
  // An index that is behind must be recognized by the floor.
  if (!noted && !(flushed && is_full(noted) && !removals_.is_there())) co_return fail(noted.error());
  co_return Result<>{};
}

Task<Result<>> LogWriter::accept_losses(Call call) {
  CO_TRY_VOID(usable());
  if (lost_.empty()) co_return Result<>{};
  if (noting_) co_return fail(ErrorCode::busy, "a removal is being noted");
  const Noting noting(*this);
  CO_TRY_VOID(co_await removals_.add(patient(call), lost_, 0));
  lost_.clear();
  co_return Result<>{};
}

bool LogWriter::has_current() {
  if (current_ != 0 && !file_->is_named()) lose(current_);
  return !gone_;
}

void LogWriter::lose(std::uint32_t segment) {
  if (!segments_.contains(segment) || (segment == current_ && gone_)) return;
  lost_.push_back(segment);
  if (segment == current_)
    gone_ = ended_ = true;  // [LW-3] it stays until there is another
  else
    drop(segment);
}

void LogWriter::drop(std::uint32_t segment) noexcept {
  set_size(segments_[segment], 0);
  segments_.erase(segment);
}

// If a removal did not become durable, the removed records would come back beside their newer copies. Replay
// copes with that, but a directory that cannot be synced is not to be trusted with more.
Task<Result<>> LogWriter::remove_segment(Call call, std::uint32_t segment, bool flushed) {
  CO_TRY_VOID(usable());
  const auto it = segments_.find(segment);
  CHECK(it != segments_.end() && it->second.sealed && segment != current_);
  CO_TRY_VOID(co_await note_removal(call, segment, flushed));
  const auto gone = co_await upkeep_.unlink(call, segment_path(options_.directory, segment));
  if (!gone && gone.error().code != ErrorCode::not_found) co_return fail(gone.error());
  if (options_.fsync)
    if (auto synced = co_await upkeep_.sync_directory(patient(call), options_.directory); !synced)
      co_return fence_unless_undone(synced.error());
  set_size(it->second, 0);
  segments_.erase(it);
  co_return Result<>{};
}

Task<Result<>> LogWriter::close(Call call) {
  if (!closed_ && !fenced_ && ready_ > tail_) (void)co_await file_->truncate(patient(call), tail_);
  closed_ = true;
  file_.reset();
  co_return Result<>{};
}

// --- what is there

void LogWriter::set_size(SegmentInfo& segment, std::uint64_t size) noexcept {
  bytes_ += size - segment.size;
  segment.size = size;
}

LogPoint LogWriter::end() const noexcept {
  return {sequence_, {current_, static_cast<std::uint32_t>(tail_)}, stamp_};
}

std::vector<SegmentInfo> LogWriter::segments() const {
  std::vector<SegmentInfo> all;
  for (const auto& [id, info] : segments_) all.push_back(info);
  return all;
}

const SealKey& LogWriter::key_of(std::uint32_t segment) {
  const auto it = keys_.find(segment);
  if (it != keys_.end()) return it->second;
  return keys_.emplace(segment, segment_key(store_key_, segment)).first->second;
}

}  // namespace cairn::store
