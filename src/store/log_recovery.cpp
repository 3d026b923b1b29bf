#include "store/log_recovery.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "store/log_foreign.h"

namespace cairn::store {
namespace {

// An index that names a segment so far beyond the log's last one is not this log's.
constexpr std::uint32_t lost_most = 1u << 20;

}  // namespace

LogRecovery::LogRecovery(io::Machine& machine, const LogOptions& options, LogPoint from, Replay& replay,
                         LogReport& report)
    : machine_(machine),
      options_(options),
      from_(from),
      replay_(replay),
      report_(report),
      watermark_(from.sequence),
      sequence_(from.sequence),
      ceiling_(from.sequence) {}

Task<Result<LogState>> LogRecovery::run(Call call) {
  CO_TRY_VOID(co_await make_directory(call));
  CO_TRY_VOID(co_await find_segments(call));
  CO_TRY_VOID(co_await settle_key(call));
  CO_TRY_VOID(co_await set_misfits_aside(call));
  CO_TRY_VOID(set_torn_segment_aside());
  CO_TRY_VOID(co_await settle_removals(call));
  CO_TRY(bool fits, co_await settle_index(call));
  if (!fits) co_return result();
  if (!segments_.empty()) {
    CO_TRY_VOID(co_await open_last(call));
    CO_TRY_VOID(co_await learn_watermark(call));
    if (report_.index != IndexFit::good) co_return result();
  }
  CO_TRY_VOID(co_await report_losses(call));
  if (!segments_.empty()) CO_TRY_VOID(co_await replay_all(call));
  ceiling_ = std::max(ceiling_, given_);
  co_return result();
}

LogState LogRecovery::result() const {
  LogState state;
  state.store_key = store_key_;
  state.file = file_;
  state.sequence = ceiling_;
  state.ended = ended_;
  for (const auto& [id, segment] : segments_)
    state.segments[id] = {id, segment.size, segment.first_sequence, !is_last(id)};
  if (!segments_.empty())
    state.tail = std::max<std::uint64_t>(segments_.rbegin()->second.size, segment_header_size);
  state.known = segments_.empty() ? known_ : std::max(known_, segments_.rbegin()->first);
  state.next_segment = torn_ ? *torn_ : highest_ + 1;
  state.ended = state.ended || torn_;
  state.foreign = foreign_;
  state.removals.emplace(*removals_);
  state.lost = lost_;
  state.stamp = stamp_;
  return state;
}

Result<> LogRecovery::refuse(std::string problem) {
  report_.problem = std::move(problem);
  return fail(ErrorCode::integrity, "the segment log cannot be opened by this program");
}

// --- files

Task<Result<>> LogRecovery::make_directory(Call call) {
  const auto made = co_await machine_.disk.make_directory(call, options_.directory);
  if (!made && made.error().code != ErrorCode::conflict) co_return fail(made.error());
  const std::size_t slash = options_.directory.rfind('/');
  const std::string parent = slash == std::string::npos ? "." : options_.directory.substr(0, slash + 1);
  const auto synced = co_await machine_.disk.sync_directory(call, parent);
  // A directory that was there before may be another user's, in a place that we may not read.
  if (made && !synced) co_return fail(synced.error());
  co_return Result<>{};
}

Task<Result<LogRecovery::Head>> LogRecovery::read_head(Call call, std::string path) {
  Head head;
  auto opened = co_await machine_.disk.open(call, std::move(path), io::OpenMode::read);
  if (!opened && opened.error().code == ErrorCode::not_found) co_return std::move(head);
  if (!opened) co_return fail(opened.error());
  const std::unique_ptr<io::File> file = std::move(*opened);
  CO_TRY(head.size, file->size());
  head.there = true;
  auto bytes = std::make_shared<HeapBytes>(head_size);
  const auto got = co_await file->read_into(call, 0, {bytes->room(), bytes});
  head.unreadable = !got && got.error().code == ErrorCode::io_failed;
  if (!got && !head.unreadable) co_return fail(got.error());
  if (got) bytes->fill(*got);
  head.bytes = std::move(*bytes);
  co_return std::move(head);
}

Task<Result<>> LogRecovery::find_segments(Call call) {
  CO_TRY(const std::vector<std::string> names, co_await machine_.disk.list(call, options_.directory));
  for (const std::string& name : names) {
    const std::optional<std::uint32_t> id = parse_segment_name(name);
    const std::optional<std::uint32_t> aside = parse_foreign_name(name);
    if (!id && !aside) continue;
    CO_TRY(const Head head, co_await read_head(call, options_.directory + "/" + name));
    if (!head.there) continue;
    highest_ = std::max(highest_, id ? *id : *aside);
    SegmentHeader header;
    const HeadState state = decode_segment_header(head.bytes.bytes(), header);
    if (state == HeadState::good) highest_ = std::max(highest_, header.id);
    if (aside) {
      ++report_.foreign;
      if (state == HeadState::good) strays_.push_back({header, head.size});
      continue;
    }
    if (state == HeadState::newer)
      co_return refuse(fmt::format("{} has format version {}, this program reads up to {}", name,
                                   major_of(head.bytes.bytes()), format_major));
    Segment& segment = segments_[*id];
    segment.size = head.size;
    segment.unreadable = head.unreadable;
    if (state != HeadState::good) continue;
    segment.header = header;
    segment.first_sequence = header.first_sequence;
  }
  if (highest_ == 0xffff'ffffu) co_return refuse("no number is left for the next segment");
  co_return Result<>{};
}

// Takes the key of the key file, if a segment has that key too. Without the file, the key that all segments
// agree on. Otherwise it cannot be said which segments are this store's.
Task<Result<>> LogRecovery::settle_key(Call call) {
  CO_TRY(const Head head, co_await read_head(call, options_.directory + "/key"));
  crypto::Hash kept{};
  const HeadState state = decode_key_file(head.bytes.bytes(), kept);
  if (state == HeadState::newer)
    co_return refuse(fmt::format("the key file has format version {}, this program reads up to {}",
                                 major_of(head.bytes.bytes()), format_major));
  std::optional<crypto::Hash> key;
  if (state == HeadState::good) key = kept;
  bool unreadable = head.unreadable;
  std::optional<std::uint32_t> other;  // a segment with another key
  bool shared = false;
  for (const auto& [id, segment] : segments_) {
    unreadable = unreadable || segment.unreadable;
    if (!segment.header) continue;
    if (!key) key = segment.header->store_key;
    if (*key == segment.header->store_key)
      shared = true;
    else
      other = id;
  }
  if (other && state != HeadState::good)
    co_return refuse(
        fmt::format("the key file is damaged, and segment {} has another key than others", *other));
  for (auto it = segments_.begin(); other && !shared && it != segments_.end(); ++it) {
    if (it->second.header) continue;
    CO_TRY(shared, co_await has_records(call, it->first, it->second.size, *key));
  }
  if (other && !shared)
    co_return refuse(
        fmt::format("segment {} has the key of another store, and none has the key file's", *other));
  if (!key && unreadable) co_return fail(ErrorCode::io_failed, "the store's key cannot be read");
  if (!key && !segments_.empty()) co_return refuse("no copy of the store's key is left");
  if (key) {
    store_key_ = *key;
    if (state == HeadState::good || head.unreadable) co_return Result<>{};
    ++report_.damaged;
    const auto written = co_await write_key(call, head.there);
    if (!written && written.error().code != ErrorCode::storage_full) co_return fail(written.error());
    co_return Result<>{};
  }
  machine_.entropy.fill(store_key_);
  co_return co_await write_key(call, head.there);
}

// Synced even with fsync off: without its key nothing in the store can be told from noise.
Task<Result<>> LogRecovery::write_key(Call call, bool replace) {
  const std::string path = options_.directory + "/key";
  if (replace) CO_TRY_VOID(co_await machine_.disk.unlink(call, path));
  CO_TRY(const std::unique_ptr<io::File> file,
         co_await machine_.disk.open(call, path, io::OpenMode::create_new));
  std::vector<HeapBytes> blocks;
  blocks.push_back(encode_key_file(store_key_));
  CO_TRY_VOID(co_await file->write_blocks(call, 0, std::move(blocks), io::Sync::data));
  co_return co_await machine_.disk.sync_directory(call, options_.directory);
}

// Whether any record in it is sealed for this place of this store.
Task<Result<bool>> LogRecovery::has_records(Call call, std::uint32_t id, std::uint64_t size,
                                            crypto::Hash key) {
  if (size <= segment_header_size) co_return false;
  CO_TRY(std::unique_ptr<io::File> file,
         co_await machine_.disk.open(call, segment_path(options_.directory, id), io::OpenMode::read));
  SegmentScan scan(machine_, std::move(file), id, segment_key(key, id), segment_header_size, size);
  for (;;) {
    CO_TRY(const SegmentScan::Found found, co_await scan.next(call));
    if (found.entry || scan.watermark() > 0) co_return true;
    if (!found.damage) co_return false;
    if (found.damage->unreadable) co_return true;  // it may be: its bytes cannot be read
  }
}

// A file whose header is lost is ours if a record in it is. A short one at the end is the start of the next
// segment, left by a crash.
Task<Result<bool>> LogRecovery::is_ours(Call call, std::uint32_t id) {
  const Segment& segment = segments_[id];
  if (segment.header) {
    const bool fits = segment.header->id == id && segment.header->store_key == store_key_;
    co_return fits;
  }
  if (segment.unreadable || (id == highest_ && segment.size <= segment_header_size)) co_return true;
  co_return co_await has_records(call, id, segment.size, store_key_);
}

Task<Result<>> LogRecovery::set_misfits_aside(Call call) {
  std::vector<std::uint32_t> misfits;
  for (const auto& [id, segment] : segments_) {
    CO_TRY(const bool ours, co_await is_ours(call, id));
    if (!ours) misfits.push_back(id);
  }
  for (const std::uint32_t id : misfits) {
    const Segment& segment = segments_[id];
    CO_TRY(ForeignFile file, co_await set_aside(call, machine_, options_.directory, id, segment.header));
    if (segment.header) strays_.push_back({*segment.header, segment.size});
    segments_.erase(id);
    foreign_.push_back(std::move(file));
    ++report_.foreign;
  }
  for (const Stray& stray : strays_) heed(stray.header, stray.size);
  co_return Result<>{};
}

// Takes note of a file that was set aside, if it is this store's and the log does not have the segment
// itself. Its header proves what was durable before it, and which sequences were given away.
void LogRecovery::heed(const SegmentHeader& header, std::uint64_t size) {
  if (header.store_key != store_key_ || segments_.contains(header.id)) return;
  known_ = std::max(known_, header.id);
  watermark_ = std::max({watermark_, header.watermark, header.previous_last});
  const std::uint64_t bytes = size - std::min<std::uint64_t>(size, segment_header_size);
  given_ = std::max({given_, header.previous_last, header.first_sequence - 1 + bytes / record_header_size});
  if (segments_.empty() || header.id > segments_.rbegin()->first) ended_ = true;
}

// Sets aside a file that a crash kept from becoming a segment. Records are written only behind a durable
// header, so a longer file has lost its header to rot.
Result<> LogRecovery::set_torn_segment_aside() {
  if (segments_.empty()) return {};
  const auto& [id, segment] = *segments_.rbegin();
  if (segment.unreadable) return fail(ErrorCode::io_failed, "the last segment cannot be read");
  if (segment.header || segment.size > segment_header_size) return {};
  torn_ = id;
  segments_.erase(id);
  return {};
}

// Numbers that segments must have had and that no file has. A header names the segment before it, so numbers
// that were skipped do not count.
std::vector<std::uint32_t> LogRecovery::missing() const {
  std::vector<std::uint32_t> gone;
  std::uint32_t next = 1;
  for (const auto& [id, segment] : segments_) {
    const std::uint32_t last = segment.header ? segment.header->previous : id - 1;
    for (; next <= std::min(last, id - 1); ++next) gone.push_back(next);
    next = id + 1;
  }
  for (const Stray& stray : strays_)
    if (stray.header.store_key == store_key_ && !segments_.contains(stray.header.id) &&
        std::find(gone.begin(), gone.end(), stray.header.id) == gone.end())
      gone.push_back(stray.header.id);
  return gone;
}

// Segments that went missing before removals were noted are no loss: it cannot be known.
Task<Result<>> LogRecovery::settle_removals(Call call) {
  removals_.emplace(machine_.for_upkeep(), options_.directory, store_key_);  // no append waits for a note
  CO_TRY(const LogRemovals::Found found, co_await removals_->open(call));
  std::vector<std::uint32_t> gone = missing();
  if (found == LogRemovals::Found::good) {
    for (const std::uint32_t id : gone)
      if (!removals_->contains(id)) lost_.push_back(id);
    co_return Result<>{};
  }
  if (found == LogRemovals::Found::damaged) ++report_.damaged;
  std::uint64_t floor = 0;
  for (const auto& [id, segment] : segments_)
    if (segment.header && segment.header->previous != 0 && !segments_.contains(segment.header->previous))
      floor = std::max(floor, segment.header->previous_last);
  const auto noted = co_await removals_->add(call, std::move(gone), floor);
  if (!noted && noted.error().code != ErrorCode::storage_full) co_return fail(noted.error());
  co_return Result<>{};
}

Task<Result<>> LogRecovery::report_losses(Call call) {
  for (const std::uint32_t id : lost_) {
    Damage damage{id, 0, 0xffff'ffffu, 0, 0, false, true};
    const auto next = segments_.upper_bound(id);
    if (next != segments_.end() && next->second.header && next->second.header->previous == id)
      damage.last_sequence = next->second.header->previous_last;
    CO_TRY_VOID(co_await report_damage(call, damage));
  }
  // Segments before the replay: only the next header tells that one of them is cut short.
  for (auto it = segments_.begin(); it != segments_.end() && it->first < from_.next.segment; ++it) {
    const auto next = std::next(it);
    if (next == segments_.end() || !next->second.header || next->second.header->previous != it->first)
      continue;
    const SegmentHeader& behind = *next->second.header;
    if (behind.previous_end > it->second.size)
      CO_TRY_VOID(co_await report_damage(
          call, {it->first, it->second.size, behind.previous_end, 0, behind.previous_last, false, true}));
  }
  co_return Result<>{};
}

Task<Result<bool>> LogRecovery::settle_index(Call call) {
  if (from_.sequence == 0) co_return true;
  CO_TRY(const bool foreign, co_await is_foreign(call));
  if (foreign)
    report_.index = IndexFit::foreign;
  else if (from_.sequence < removals_->floor())
    report_.index = IndexFit::behind;
  else if (is_index_ahead())
    report_.index = IndexFit::ahead;
  else
    CO_TRY_VOID(co_await look_for_zeros(call));
  if (report_.index == IndexFit::good && !stamp_ && from_.stamp) stamp_ = from_.stamp;
  if (report_.index != IndexFit::ahead || !options_.index_proves) co_return report_.index == IndexFit::good;
  const auto it = segments_.find(from_.next.segment);
  CO_TRY_VOID(co_await believe_index(call, it == segments_.end() ? from_.next.offset : it->second.size));
  stamp_ = from_.stamp;
  co_return true;
}

Task<Result<bool>> LogRecovery::is_foreign(Call call) {
  if (from_.next.segment > highest_ && from_.next.segment - highest_ > lost_most) co_return true;
  const auto it = segments_.find(from_.next.segment);
  if (it != segments_.end() && it->second.header && it->second.header->first_sequence > from_.sequence + 1)
    co_return true;
  if (from_.stamp) co_return co_await is_stamp_of_another(call);
  if (options_.index_stamped) co_return co_await is_point_of_another(call);
  co_return false;
}

// Only a good record at the stamp's place proves that it is not the stamped one: rot proves nothing, and
// neither does a segment that was taken away.
Task<Result<bool>> LogRecovery::is_stamp_of_another(Call call) {
  const LogStamp& stamp = *from_.stamp;
  if (stamp.store != store_id(store_key_)) co_return true;
  const auto it = segments_.find(stamp.at.segment);
  if (it == segments_.end() || it->second.size < stamp.at.offset + record_header_size) co_return false;
  CO_TRY(std::unique_ptr<io::File> file,
         co_await machine_.disk.open(call, segment_path(options_.directory, it->first), io::OpenMode::read));
  SegmentScan scan(machine_, std::move(file), it->first, segment_key(store_key_, it->first), stamp.at.offset,
                   it->second.size);
  CO_TRY(const SegmentScan::Found found, co_await scan.next(call));
  if (!found.entry || found.entry->at != stamp.at) co_return false;
  co_return found.entry->header.sequence != from_.sequence || scan.seal() != stamp.seal;
}

// A record must end where the index stands, and be the last record that the index has.
Task<Result<bool>> LogRecovery::is_point_of_another(Call call) {
  const auto it = segments_.find(from_.next.segment);
  if (it == segments_.end() || from_.next.offset <= segment_header_size ||
      from_.next.offset > it->second.size)
    co_return false;
  CO_TRY(std::unique_ptr<io::File> file,
         co_await machine_.disk.open(call, segment_path(options_.directory, it->first), io::OpenMode::read));
  SegmentScan scan(machine_, std::move(file), it->first, segment_key(store_key_, it->first),
                   segment_header_size, from_.next.offset);
  std::optional<Entry> last;
  for (;;) {
    CO_TRY(SegmentScan::Found found, co_await scan.next(call));
    if (found.damage) last.reset();  // the record that ends there cannot be known
    if (!found.entry && !found.damage) break;
    if (!found.entry) continue;
    found.entry->meta.clear();
    last = std::move(found.entry);
  }
  if (!last) co_return false;
  stamp_ = LogStamp{store_id(store_key_), last->at, scan.seal()};
  co_return last->header.sequence != from_.sequence;
}

bool LogRecovery::is_index_ahead() const {
  if (torn_ && from_.next.segment == *torn_) return from_.next.offset > segment_header_size;
  if (segments_.empty() || from_.next.segment > segments_.rbegin()->first) return true;
  const auto it = segments_.find(from_.next.segment);
  if (it == segments_.end()) return false;  // it was taken away since, or is lost
  return from_.next.offset > std::max<std::uint64_t>(it->second.size, segment_header_size);
}

// Records that the index has and the log has not were there: they are a loss. `end`: where the segment that
// the index stands in ends now. The log goes on in a segment of its own, above everything that the index
// knows of.
Task<Result<>> LogRecovery::believe_index(Call call, std::uint64_t end) {
  report_.index = IndexFit::good;
  report_.ends_lost = true;
  const std::uint32_t id = from_.next.segment;
  const std::uint32_t last = segments_.empty() ? 0 : segments_.rbegin()->first;
  for (std::uint32_t gone = last + 1; gone <= id; ++gone)
    if (!removals_->contains(gone) && std::find(lost_.begin(), lost_.end(), gone) == lost_.end())
      lost_.push_back(gone);
  highest_ = std::max(highest_, id);
  known_ = std::max(known_, id);
  if (id >= last) ended_ = true;
  torn_.reset();
  if (last != 0 && id > last) {
    // Nothing says where the last segment ended. Zeros written ahead in an old copy of it are no records.
    CO_TRY(std::shared_ptr<io::File> file,
           co_await machine_.disk.open(call, segment_path(options_.directory, last), io::OpenMode::read));
    CO_TRY(segments_[last].size, co_await find_end_before(call, file, last, segments_[last].size));
  }
  if (!segments_.contains(id)) co_return Result<>{};
  segments_[id].size = end;  // zeros that may be behind are nothing
  co_return co_await report_damage(call, {id, end, from_.next.offset, 0, from_.sequence, false, true});
}

// Bytes that a killed process had written, but not yet synced, must be durable before anything builds on
// them.
Task<Result<>> LogRecovery::open_last(Call call) {
  const std::uint32_t id = segments_.rbegin()->first;
  CO_TRY(file_, co_await machine_.disk.open(call, segment_path(options_.directory, id), io::OpenMode::write));
  if (!options_.fsync) co_return Result<>{};
  CO_TRY_VOID(co_await file_->sync_data(call));
  co_return co_await machine_.disk.sync_directory(call, options_.directory);
}

// --- records

// The highest watermark is in the last segment: in its header or behind it.
Task<Result<>> LogRecovery::learn_watermark(Call call) {
  const auto& [id, segment] = *segments_.rbegin();
  if (segment.header) watermark_ = std::max(watermark_, segment.header->watermark);
  const bool here = begins_at(id);
  if (torn_ && !here) co_return Result<>{};  // the next one's file proves everything in this one
  SegmentScan scan(machine_, file_, id, segment_key(store_key_, id),
                   here ? from_.next.offset : segment_header_size, segment.size);
  bool first = true;
  for (;;) {
    CO_TRY(const SegmentScan::Found found, co_await scan.next(call));
    if (!found.entry && !found.damage) break;
    if (!found.entry) continue;
    // An index whose next record is one that it has already was not made from this log.
    if (first && here && found.entry->header.sequence <= from_.sequence) {
      report_.index = IndexFit::foreign;
      co_return Result<>{};
    }
    first = false;
  }
  watermark_ = std::max(watermark_, scan.watermark());
  if (here && first && segment.size > from_.next.offset) {
    CO_TRY(const std::uint64_t end, co_await find_end_before(call, file_, id, from_.next.offset));
    if (end == from_.next.offset) co_return Result<>{};
    report_.index = IndexFit::ahead;
    if (options_.index_proves) CO_TRY_VOID(co_await believe_index(call, end));
  }
  co_return Result<>{};
}

// Looks for the same in a segment that another one follows: a start that found the loss went no further.
Task<Result<>> LogRecovery::look_for_zeros(Call call) {
  const auto it = segments_.find(from_.next.segment);
  if (it == segments_.end() || is_last(it->first) || it->second.size <= from_.next.offset)
    co_return Result<>{};
  CO_TRY(std::shared_ptr<io::File> file,
         co_await machine_.disk.open(call, segment_path(options_.directory, it->first), io::OpenMode::read));
  SegmentScan scan(machine_, file, it->first, segment_key(store_key_, it->first), from_.next.offset,
                   it->second.size);
  for (;;) {
    CO_TRY(const SegmentScan::Found found, co_await scan.next(call));
    if (found.entry) co_return Result<>{};
    if (!found.damage) break;
  }
  CO_TRY(const std::uint64_t end, co_await find_end_before(call, file, it->first, from_.next.offset));
  if (end == from_.next.offset) co_return Result<>{};
  report_.index = IndexFit::ahead;
  if (options_.index_proves) CO_TRY_VOID(co_await believe_index(call, end));
  co_return Result<>{};
}

// Where the last record before `offset` ends, if only zeros lie between: they were written ahead, and the log
// never came as far. Otherwise `offset`.
Task<Result<std::uint64_t>> LogRecovery::find_end_before(Call call, std::shared_ptr<io::File> file,
                                                         std::uint32_t id, std::uint64_t offset) {
  SegmentScan scan(machine_, file, id, segment_key(store_key_, id), segment_header_size, offset);
  std::uint64_t at = offset;  // the end of the last record
  for (;;) {
    CO_TRY(const SegmentScan::Found found, co_await scan.next(call));
    if (!found.entry && !found.damage) break;
    at = found.damage ? found.damage->from : offset;
  }
  if (at == offset) co_return offset;
  auto bytes = std::make_shared<HeapBytes>(static_cast<std::size_t>(offset - at));
  CO_TRY(const std::size_t got, co_await file->read_into(call, at, {bytes->room(), bytes}));
  bytes->fill(got);
  const ByteView view = std::as_const(*bytes).bytes();
  const bool empty = std::all_of(view.begin(), view.end(), [](std::byte b) { return b == std::byte{0}; });
  co_return empty ? at : offset;
}

Task<Result<>> LogRecovery::replay_all(Call call) {
  std::vector<std::uint32_t> ids;
  for (const auto& [id, segment] : segments_)
    if (from_.sequence == 0 || id >= from_.next.segment) ids.push_back(id);
  for (const std::uint32_t id : ids) CO_TRY_VOID(co_await replay_segment(call, id));
  co_return Result<>{};
}

Task<Result<>> LogRecovery::replay_segment(Call call, std::uint32_t id) {
  Segment& segment = segments_[id];
  const bool here = begins_at(id);
  const bool follows = segments_.contains(id - 1) && !(from_.sequence > 0 && id <= from_.next.segment);
  std::shared_ptr<io::File> file = file_;
  if (!is_last(id)) {
    const std::string path = segment_path(options_.directory, id);
    CO_TRY(file, co_await machine_.disk.open(call, path, io::OpenMode::read));
  }
  SegmentScan scan(machine_, file, id, segment_key(store_key_, id),
                   here ? from_.next.offset : segment_header_size, segment.size);
  if (segment.header) {
    // Fewer records than the header says were before it: the others were removed, or are reported already.
    sequence_ = std::max(sequence_, segment.header->first_sequence - 1);
    ceiling_ = std::max(ceiling_, sequence_);
  } else {
    if (is_last(id)) ended_ = true;
    if (!here) {
      const std::uint64_t head = std::min<std::uint64_t>(segment.size, segment_header_size);
      CO_TRY_VOID(co_await report_damage(call, {id, 0, head, 0, 0, segment.unreadable}));
    }
  }
  if (segment.header || here || follows) scan.expect(sequence_ + 1);

  Damage end{id, segment.size, segment.size, 0, 0, false};
  for (;;) {
    CO_TRY(SegmentScan::Found found, co_await scan.next(call));
    if (found.entry) {
      const std::uint64_t sequence = found.entry->header.sequence;
      if (is_unproven(id, sequence)) {
        CO_TRY(const bool whole, co_await is_whole(call, *found.entry));
        if (!whole) co_return co_await cut(call, found.entry->at.offset);
      }
      if (segment.first_sequence == 0) segment.first_sequence = sequence;
      sequence_ = ceiling_ = sequence;
      stamp_ = LogStamp{store_id(store_key_), found.entry->at, scan.seal()};
      ++report_.records;
      CO_TRY_VOID(co_await replay_.on_record(call, std::move(*found.entry)));
    } else if (found.damage) {
      if (is_unproven(id, sequence_ + 1)) {
        if (found.damage->unreadable) co_return fail(ErrorCode::io_failed, "the log's end cannot be read");
        co_return co_await cut(call, found.damage->from);
      }
      if (found.damage->to == segment.size && found.damage->last_sequence == 0)
        end = *found.damage;
      else
        CO_TRY_VOID(co_await report_damage(call, *found.damage));
    } else {
      break;
    }
  }
  co_return co_await replay_end(call, id, end);
}

// A segment that ends in damage, or before the sequence that the next one names.
Task<Result<>> LogRecovery::replay_end(Call call, std::uint32_t id, Damage end) {
  const auto next = std::next(segments_.find(id));
  std::uint64_t named = 0;
  if (next != segments_.end() && next->second.header && next->second.header->previous == id)
    named = next->second.header->previous_last;
  if (named <= sequence_ && end.from == end.to) co_return Result<>{};
  if (named > sequence_) {
    end.first_sequence = sequence_ + 1;
    end.last_sequence = named;
    sequence_ = named;
    ceiling_ = std::max(ceiling_, named);
  } else {
    // No record is smaller than its header, so no more than these can have been here.
    ceiling_ = std::max({ceiling_, watermark_, sequence_ + (end.to - end.from) / record_header_size});
  }
  if (is_last(id)) ended_ = true;
  co_return co_await report_damage(call, end);
}

Task<Result<>> LogRecovery::report_damage(Call call, Damage damage) {
  ++report_.damaged;
  co_return co_await replay_.on_damage(call, damage);
}

Task<Result<bool>> LogRecovery::is_whole(Call call, Entry entry) {
  if (options_.check == nullptr) co_return true;
  auto data = std::make_shared<HeapBytes>(entry.header.data_size);
  if (entry.header.data_size > 0) {
    CO_TRY(const std::size_t got, co_await file_->read_into(call, entry.data_at(), {data->room(), data}));
    if (got != entry.header.data_size) co_return false;
    data->fill(got);
  }
  co_return options_.check(entry.header, as_bytes(entry.meta), data->bytes());
}

Task<Result<>> LogRecovery::cut(Call call, std::uint64_t offset) {
  Segment& segment = segments_.rbegin()->second;
  report_.cut_bytes += segment.size - offset;
  CO_TRY_VOID(co_await file_->truncate(call, offset));
  if (options_.fsync) CO_TRY_VOID(co_await file_->sync_data(call));
  segment.size = offset;
  co_return Result<>{};
}

}  // namespace cairn::store
