#include "store/object_home.h"

#include <algorithm>

#include "store/index_place.h"
#include "store/kv_walk.h"
#include "store/log_reserve.h"
#include "store/segment.h"

namespace cairn::store {
namespace {

constexpr std::size_t replay_batch = 512;
constexpr std::uint64_t write_ahead = 1u << 20;
// Deletes cost almost as much as small objects do. So the reserve is a part of the disk: enough can be
// deleted to leave something to compact, wherever it lies. `reserve_most` limits the reserve on a large disk,
// with the room that the index needs.
constexpr std::uint64_t reserve_part = 20;
constexpr std::uint64_t reserve_most = 12;  // times the size that was asked for
constexpr std::size_t sample = 512;         // objects
constexpr std::size_t looked_at = 64;       // objects of an index that may be another log's

}  // namespace

ObjectHome::ObjectHome(ObjectStore& store, io::Machine& machine, observe::Logger log)
    : parts_{store, machine, log},
      committer_(parts_, compactor_, sweeper_, keeper_),
      compactor_(parts_, committer_, scrubber_),
      scrubber_(parts_, committer_),
      sweeper_(parts_, committer_, compactor_, scrubber_),
      keeper_(parts_, committer_, compactor_, scrubber_) {}

// Without close() nothing is lost that was answered: the next start only reads more of the log.
ObjectHome::~ObjectHome() {
  if (parts_.store.status().open)
    parts_.log.debug("dropped unclosed", {{"directory", parts_.store.options().directory}});
}

Task<Result<>> ObjectHome::open(Call call) {
  CO_TRY(const std::uint64_t number,
         co_await settle_index_place(call, parts_.machine, parts_.store.kv_maker(),
                                     parts_.store.options().directory, parts_.log));
  const std::string directory = index_path(parts_.store.options().directory, number);
  auto opened = co_await parts_.store.kv_maker().open(call, parts_.machine, directory);
  // Reads go on with a full disk: the space kept free for that makes room for the index. The reserve may be
  // in use already; the room to open an index is for nothing else.
  if (!opened && opened.error().code == ErrorCode::storage_full) {
    co_await release_reserve(call, parts_.machine, parts_.store.segment_directory(),
                             parts_.store.options().spare_files);
    opened = co_await parts_.store.kv_maker().open(call, parts_.machine, directory);
  }
  if (!opened && opened.error().code == ErrorCode::storage_full) {
    (void)co_await parts_.machine.disk.unlink(
        call, parts_.store.options().directory + '/' + Compactor::opening_name);
    (void)co_await parts_.machine.disk.sync_directory(call, parts_.store.options().directory);
    opened = co_await parts_.store.kv_maker().open(call, parts_.machine, directory);
  }
  if (!opened && opened.error().code == ErrorCode::integrity) {
    parts_.log.warn("the index is damaged: it is made anew from the log");
    CO_TRY_VOID(co_await parts_.store.kv_maker().destroy(call, parts_.machine, directory));
    opened = co_await parts_.store.kv_maker().open(call, parts_.machine, directory);
  }
  if (!opened) co_return fail(opened.error());
  parts_.store.set_index(std::make_shared<OpenIndex>(std::move(*opened), number));
  io::Machine upkeep = parts_.machine.for_upkeep();
  parts_.files = std::make_unique<SegmentFiles>(upkeep, parts_.store.segment_directory());
  CO_TRY_VOID(co_await open_log(call));
  parts_.absent = parts_.segments_of_index_alone();
  sweeper_.open();
  parts_.opened = parts_.machine.shard.now();
  parts_.publish_totals();
  co_await compactor_.open(call);
  parts_.store.status().open = true;
  co_return Result<>{};
}

Task<Result<>> ObjectHome::open_log(Call call) {
  LogOptions options;
  options.directory = parts_.store.segment_directory();
  options.segment_size = parts_.store.options().segment_size;
  options.fsync = parts_.store.options().fsync;
  options.reserve = parts_.store.options().reserve;
  options.spare_files = parts_.store.options().spare_files;
  options.compacted = true;
  options.ahead = options.fsync ? std::min(write_ahead, options.segment_size / 16) : 0;
  options.check = is_data_right;
  options.index_stamped = true;
  CO_TRY_VOID(co_await set_room(call, &options));
  for (bool remade = false;;) {
    parts_.store.status().index_damaged = false;
    parts_.kv = std::make_unique<IndexPort>(parts_.store, parts_.machine, Lane::index);
    parts_.indexer = std::make_unique<Indexer>(*parts_.kv);
    auto from = co_await parts_.indexer->load(call);
    Result<Fit> fit = Fit{.why = "the index does not decode: it is made anew"};
    if (from) fit = co_await open_with_index(call, &options, *from);
    // A question that a damaged index cannot answer is no fault of the log. An index that the disk has no
    // room for gives its own room back.
    const bool too_large = !fit && std::exchange(index_lacked_room_, false) && !remade;
    if (!fit && !parts_.store.status().index_damaged && !too_large) co_return fail(fit.error());
    if (fit && fit->good) co_return Result<>{};
    if (fit && fit->again) continue;
    if (std::exchange(remade, true))
      co_return fail(ErrorCode::integrity, "the index does not fit the log, twice");
    options.index_proves = false;
    parts_.log.warn(fit         ? fit->why
                    : too_large ? "the disk has no room for what the index lacks: it is made anew"
                                : "the index is damaged: it is made anew");
    CO_TRY_VOID(co_await remake_index(call));
  }
}

Task<Result<>> ObjectHome::set_room(Call call, LogOptions* options) {
  const std::uint64_t index = parts_.store.index()->engine->room();
  if (index == 0 || options->reserve == 0) co_return Result<>{};
  CO_TRY(const std::uint64_t disk,
         co_await parts_.machine.disk.total_space(call, parts_.store.options().directory));
  options->spare = index;
  options->reserve =
      std::clamp(disk / reserve_part + index, options->reserve, reserve_most * options->reserve);
  co_return Result<>{};
}

Task<Result<ObjectHome::Fit>> ObjectHome::open_with_index(Call call, LogOptions* options, LogPoint from) {
  LogReport report;
  scrubber_.forget_damage();
  losses_.clear();
  held_ = from;
  parts_.store.status().damage = 0;
  auto opened = co_await Log::open(call, parts_.machine, *options, from, *this, report);
  if (!opened) {
    if (!report.problem.empty()) parts_.log.error("the log was not opened", {{"why", report.problem}});
    co_return fail(opened.error());
  }
  parts_.segments = std::move(*opened);
  parts_.store.status().foreign = report.foreign;
  parts_.tell_foreign();
  // An index that does not say what it was made from, or that has records the log has not, is looked at.
  const bool believable = report.index == IndexFit::ahead && options->fsync;
  const bool unstamped = report.index == IndexFit::good && from.sequence > 0 && !from.stamp;
  if (believable || unstamped) {
    CO_TRY(const bool another, co_await is_index_of_another(call, believable ? SIZE_MAX : sample));
    if (another) report.index = IndexFit::foreign;
    options->index_proves = believable && !another;
    if (options->index_proves) co_return Fit{.again = true};
  }
  if (report.index != IndexFit::good)
    co_return Fit{.why = report.index == IndexFit::ahead ? "the index is ahead of the log: it is made anew"
                         : report.index == IndexFit::behind
                             ? "the index is too old to be caught up: it is made anew"
                             : "the index is not of this log: it is made anew"};
  look_for_short_segments();
  const auto named = co_await name_losses(call);
  if (!named && named.error().code != ErrorCode::storage_full) co_return fail(named.error());
  // On a full disk the scrubber tries again.
  scrubber_.name_later(losses_);
  losses_.clear();
  CO_TRY_VOID(co_await flush_replayed(call));
  CO_TRY_VOID(co_await settle_index(call));
  CO_TRY_VOID(co_await scrubber_.look_for_losses(call));
  if (report.records > 0 || report.cut_bytes > 0 || report.damaged > 0)
    parts_.log.info(
        "log replayed",
        {{"records", report.records}, {"damaged", report.damaged}, {"cut_bytes", report.cut_bytes}});
  co_return Fit{.good = true};
}

Task<Result<>> ObjectHome::remake_index(Call call) {
  if (parts_.segments) CO_TRY_VOID(co_await parts_.segments->close(call));
  parts_.segments.reset();
  parts_.indexer.reset();
  parts_.kv.reset();
  const std::shared_ptr<OpenIndex> old = parts_.store.index();
  parts_.store.set_index(nullptr);
  // Changes that the old index could not flush are not needed any more.
  if (auto closed = co_await old->engine->close(call, parts_.machine); !closed && call.stopped())
    co_return closed;
  const std::string directory = index_path(parts_.store.options().directory, old->number);
  CO_TRY_VOID(co_await parts_.store.kv_maker().destroy(call, parts_.machine, directory));
  CO_TRY(auto engine, co_await parts_.store.kv_maker().open(call, parts_.machine, directory));
  parts_.store.set_index(std::make_shared<OpenIndex>(std::move(engine), old->number));
  co_return Result<>{};
}

Task<Result<>> ObjectHome::on_record(Call call, Entry entry) {
  CO_TRY_VOID(co_await parts_.indexer->apply(call, entry.header, entry.at, std::move(entry.meta)));
  if (parts_.indexer->changes() < replay_batch) co_return Result<>{};
  const LogPoint reached{
      entry.header.sequence,
      {entry.at.segment, static_cast<std::uint32_t>(entry.at.offset + entry.header.size())}};
  (void)parts_.indexer->take_gone();
  // Objects lost with the end of the log are found by the index's position: it stays there until all are
  // named.
  CO_TRY(KvBatch batch, parts_.indexer->take(losses_.empty() ? reached : *held_));
  co_return co_await write_index(call, std::move(batch));
}

Task<Result<>> ObjectHome::on_damage(Call, Damage damage) {
  scrubber_.note_damage(damage);
  if (damage.lost) losses_.push_back(damage);
  co_return Result<>{};
}

Task<Result<>> ObjectHome::flush_replayed(Call call) {
  (void)parts_.indexer->take_gone();
  const LogPoint end = parts_.segments->end();
  CO_TRY(KvBatch batch, parts_.indexer->take(end));
  CO_TRY_VOID(co_await write_index(call, std::move(batch)));
  committer_.note_indexed(end.sequence);
  co_return Result<>{};
}

Task<Result<>> ObjectHome::write_index(Call call, KvBatch batch) {
  auto written = co_await parts_.kv->write(call, std::move(batch));
  if (is_full(written)) index_lacked_room_ = true;
  co_return written;
}

Task<Result<>> ObjectHome::append_now(Call call, std::vector<Record> batch, LogPoint point) {
  if (batch.empty()) co_return Result<>{};
  CO_TRY(auto appended, co_await parts_.segments->append(call, std::move(batch)));
  for (Entry& one : appended)
    CO_TRY_VOID(co_await parts_.indexer->apply(call, one.header, one.at, std::move(one.meta)));
  (void)parts_.indexer->take_gone();
  CO_TRY(KvBatch changes, parts_.indexer->take(point));
  co_return co_await parts_.kv->write(call, std::move(changes));
}

// A header that gives the length of the segment before it would tell more, but not every log has such
// headers.
void ObjectHome::look_for_short_segments() {
  for (const SegmentInfo& one : parts_.segments->segments()) {
    const bool known = std::any_of(losses_.begin(), losses_.end(),
                                   [&](const Damage& loss) { return loss.segment == one.id; });
    if (!one.sealed || known || parts_.live_bytes(one.id) + segment_header_size <= one.size) continue;
    parts_.log.error("a segment of the log is cut short", {{"segment", one.id}, {"size", one.size}});
    losses_.push_back({one.id, one.size, 0xffff'ffffu, 0, 0, false, true});
  }
}

// Quarantines every object with bytes that are gone, before any request can ask for it.
Task<Result<>> ObjectHome::name_losses(Call call) {
  if (losses_.empty()) co_return Result<>{};
  // Nothing says where a segment ended if the one behind it is missing.
  std::map<std::uint32_t, std::uint64_t> ends;
  for (const SegmentInfo& one : parts_.segments->segments()) ends[one.id] = one.size;
  const PlaceTest is_lost = [&](const Place& place) {
    const auto end = ends.find(place.at.segment);
    return HomeParts::is_hit(place, losses_) || (end != ends.end() && place.end() > end->second);
  };
  CO_TRY(KvBatch replayed, parts_.indexer->take(*held_));
  CO_TRY_VOID(co_await parts_.kv->write(call, std::move(replayed)));
  std::vector<Record> batch;
  std::uint64_t named = 0;
  KvWalk walk(*parts_.kv, object_prefix);
  for (;;) {
    CO_TRY(const auto found, co_await walk.next(call));
    if (found.empty()) break;
    for (const KvPair& pair : found) {
      ObjectEntry entry;
      if (!decode(as_bytes(pair.value), entry) || entry.quarantined()) continue;
      CO_TRY(const bool gone, co_await parts_.is_hurt(call, entry, is_lost));
      if (!gone) continue;
      Record record;
      record.kind = static_cast<std::uint8_t>(RecordKind::quarantine);
      record.meta = encode(QuarantineRecord{address_in(pair.key), entry.origin, {entry.place.at.segment, 0}});
      record.reserve = true;
      batch.push_back(std::move(record));
      ++named;
    }
    CO_TRY_VOID(co_await append_now(call, std::exchange(batch, {}), *held_));
  }
  CO_TRY_VOID(co_await parts_.indexer->forget_parts(call, is_lost));
  if (named > 0) parts_.log.error("objects are lost: put them again, or accept it", {{"objects", named}});
  losses_.clear();
  co_return Result<>{};
}

// Looks at the objects that lie furthest in the log: that is where the index of a diverged log is wrong.
Task<Result<bool>> ObjectHome::is_index_of_another(Call call, std::size_t limit) {
  std::map<Position, Address> last;
  std::map<std::uint32_t, std::uint64_t> sizes;
  for (const SegmentInfo& one : parts_.segments->segments()) sizes[one.id] = one.size;
  KvWalk walk(*parts_.kv, object_prefix);
  for (std::size_t seen = 0; seen < limit;) {
    CO_TRY(const auto found, co_await walk.next(call));
    if (found.empty()) break;
    for (const KvPair& pair : found) {
      ObjectEntry entry;
      if (!decode(as_bytes(pair.value), entry)) continue;
      const auto size = sizes.find(entry.place.at.segment);
      if (size == sizes.end() || entry.place.at.offset >= size->second) continue;
      last[entry.place.at] = address_in(pair.key);
      if (last.size() > looked_at) last.erase(last.begin());
    }
    seen += found.size();
  }
  for (const auto& [at, address] : last) {
    CO_TRY(const bool another, co_await is_another(call, address, at));
    if (another) co_return true;
  }
  co_return false;
}

// Only a good record proves that it is another object's: rot proves nothing.
Task<Result<bool>> ObjectHome::is_another(Call call, Address address, Position at) {
  CO_TRY(auto file, co_await parts_.files->get(call, at.segment));
  CO_TRY(const std::uint64_t size, file->size());
  SegmentScan scan(parts_.machine, file, at.segment, parts_.segments->key_of(at.segment), at.offset, size);
  CO_TRY(const auto found, co_await scan.next(call));
  if (!found.entry || found.entry->at != at) co_return false;
  const auto there = Indexer::address_of(*found.entry);
  co_return there != address;
}

// Brings changes into the index that a crash kept out of it.
Task<Result<>> ObjectHome::settle_index(Call call) {
  std::set<std::uint32_t> gone = parts_.segments_of_index_alone();
  if (gone.empty() && !parts_.indexer->rebuilding()) co_return Result<>{};
  if (!gone.empty()) CO_TRY_VOID(co_await parts_.indexer->segments_gone(call, std::move(gone)));
  if (parts_.indexer->rebuilding()) CO_TRY_VOID(co_await parts_.indexer->end_rebuilding(call));
  co_return co_await flush_replayed(call);
}

Task<Result<>> ObjectHome::close(Call call) {
  parts_.store.status().open = false;
  committer_.errands().close();
  // A new index that was not finished is left to the next start.
  co_await keeper_.close(call);
  if (parts_.segments) CO_TRY_VOID(co_await parts_.segments->close(call));
  parts_.kv.reset();
  co_return Result<>{};
}

}  // namespace cairn::store
