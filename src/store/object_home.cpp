#include "store/object_home.h"

#include <algorithm>

#include "crypto/outboard.h"
#include "runtime/wait.h"
#include "store/index_place.h"
#include "store/log_reserve.h"
#include "store/object_group.h"
#include "store/segment.h"
#include "store/store_port.h"

namespace cairn::store {
namespace {

constexpr std::size_t replay_batch = 512;
constexpr std::uint64_t write_ahead = 1u << 20;
constexpr std::uint64_t worth_ending = 1u << 20;  // of dead bytes
// Deletes cost almost as much as small objects do: a part of the disk, so that enough can be deleted to leave
// something to compact, wherever it lies. And what that may be on a large disk, with what the index needs.
constexpr std::uint64_t reserve_part = 20;
constexpr std::uint64_t reserve_most = 12;  // times what was asked for
// What an index writes when it is opened: the list of its tables.
constexpr std::uint64_t opening_room = 1u << 20;
constexpr char opening_name[] = "index.room";
// What deletes may take while copying needs the rest.
constexpr std::uint64_t deletes_at_once = 256u << 10;
constexpr Duration gather_most = Duration::millis(2);
constexpr std::size_t page = 512;
constexpr std::size_t looked_at = 64;  // objects of an index that may be another log's

bool is_full(const Result<>& result) noexcept {
  return !result && result.error().code == ErrorCode::storage_full;
}

}  // namespace

ObjectHome::ObjectHome(ObjectStore& store, io::Machine& machine, observe::Logger log)
    : store_(store),
      machine_(machine),
      log_(log),
      committer_seat_(machine.pool, Lane::index),
      task_seats_{TaskSeats(machine.pool), TaskSeats(machine.pool), TaskSeats(machine.pool),
                  TaskSeats(machine.pool)},
      errands_(machine.shard, machine.mailbox, {changes_full, "the store is closed"}),
      scrub_pace_(machine.shard, store.options().scrub_rate, Bytes{1u << 20}),
      scrub_interval_(store.options().scrub_interval),
      opening_(machine, store.options().directory, store.options().reserve > 0 ? opening_room : 0, 0,
               opening_name) {}

// Without close() nothing is lost that was answered: the next start only reads more of the log.
ObjectHome::~ObjectHome() {
  if (store_.status_.open) log_.debug("dropped unclosed", {{"directory", store_.options_.directory}});
}

// --- opening

Task<Result<>> ObjectHome::open(Call call) {
  CO_TRY(const std::uint64_t number,
         co_await settle_index_place(call, machine_, store_.kv_maker_, store_.options_.directory, log_));
  const std::string directory = index_path(store_.options_.directory, number);
  auto opened = co_await store_.kv_maker_.open(call, machine_, directory);
  // Reads go on with a full disk: what is kept free for that makes room for the index. The reserve may be in
  // use already; the room to open an index is for nothing else.
  if (!opened && opened.error().code == ErrorCode::storage_full) {
    co_await release_reserve(call, machine_, store_.segment_directory(), store_.options_.spare_files);
    opened = co_await store_.kv_maker_.open(call, machine_, directory);
  }
  if (!opened && opened.error().code == ErrorCode::storage_full) {
    (void)co_await machine_.disk.unlink(call, store_.options_.directory + '/' + opening_name);
    (void)co_await machine_.disk.sync_directory(call, store_.options_.directory);
    opened = co_await store_.kv_maker_.open(call, machine_, directory);
  }
  if (!opened && opened.error().code == ErrorCode::integrity) {
    log_.warn("the index is damaged: it is made anew from the log");
    CO_TRY_VOID(co_await store_.kv_maker_.destroy(call, machine_, directory));
    opened = co_await store_.kv_maker_.open(call, machine_, directory);
  }
  if (!opened) co_return fail(opened.error());
  store_.set_index(std::make_shared<OpenIndex>(std::move(*opened), number));
  io::Machine upkeep = machine_.for_upkeep();
  files_ = std::make_unique<SegmentFiles>(upkeep, store_.segment_directory());
  CO_TRY_VOID(co_await open_log(call));
  absent_ = segments_of_index_alone();
  told_lost_.insert(segments_->lost().begin(), segments_->lost().end());
  opened_ = machine_.shard.now();
  publish_totals();
  if (store_.index()->engine->room() > 0) (void)co_await opening_.open(call);
  if (!co_await segments_->has_room(call)) note_full();
  store_.status_.open = true;
  co_return Result<>{};
}

Task<Result<>> ObjectHome::open_log(Call call) {
  LogOptions options;
  options.directory = store_.segment_directory();
  options.segment_size = store_.options_.segment_size;
  options.fsync = store_.options_.fsync;
  options.reserve = store_.options_.reserve;
  options.spare_files = store_.options_.spare_files;
  options.compacted = true;
  options.ahead = options.fsync ? std::min(write_ahead, options.segment_size / 16) : 0;
  options.check = is_data_right;
  options.index_stamped = true;
  CO_TRY_VOID(co_await set_room(call, &options));
  for (bool remade = false;;) {
    store_.status_.index_damaged = false;
    kv_ = std::make_unique<IndexPort>(store_, machine_, Lane::index);
    indexer_ = std::make_unique<Indexer>(*kv_);
    auto from = co_await indexer_->load(call);
    Result<Fit> fit = Fit{.why = "the index does not decode: it is made anew"};
    if (from) fit = co_await open_with_index(call, &options, *from);
    // What a damaged index cannot tell is no fault of the log. One that the disk has no room for gives its
    // own room back.
    const bool too_large = !fit && std::exchange(index_lacked_room_, false) && !remade;
    if (!fit && !store_.status_.index_damaged && !too_large) co_return fail(fit.error());
    if (fit && fit->good) co_return Result<>{};
    if (fit && fit->again) continue;
    if (std::exchange(remade, true))
      co_return fail(ErrorCode::integrity, "the index does not fit the log, twice");
    options.index_proves = false;
    log_.warn(fit         ? fit->why
              : too_large ? "the disk has no room for what the index lacks: it is made anew"
                          : "the index is damaged: it is made anew");
    CO_TRY_VOID(co_await remake_index(call));
  }
}

Task<Result<>> ObjectHome::set_room(Call call, LogOptions* options) {
  const std::uint64_t index = store_.index()->engine->room();
  if (index == 0 || options->reserve == 0) co_return Result<>{};
  CO_TRY(const std::uint64_t disk, co_await machine_.disk.total_space(call, store_.options_.directory));
  options->spare = index;
  options->reserve =
      std::clamp(disk / reserve_part + index, options->reserve, reserve_most * options->reserve);
  co_return Result<>{};
}

Task<Result<ObjectHome::Fit>> ObjectHome::open_with_index(Call call, LogOptions* options, LogPoint from) {
  LogReport report;
  found_.clear();
  losses_.clear();
  held_ = from;
  store_.status_.damage = 0;
  auto opened = co_await Log::open(call, machine_, *options, from, *this, report);
  if (!opened) {
    if (!report.problem.empty()) log_.error("the log was not opened", {{"why", report.problem}});
    co_return fail(opened.error());
  }
  segments_ = std::move(*opened);
  store_.status_.foreign = report.foreign;
  tell_foreign();
  // An index that does not say what it was made from, or that has what the log has not, is looked at.
  const bool believable = report.index == IndexFit::ahead && options->fsync;
  const bool unstamped = report.index == IndexFit::good && from.sequence > 0 && !from.stamp;
  if (believable || unstamped) {
    CO_TRY(const bool another, co_await is_index_of_another(call, believable ? SIZE_MAX : page));
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
  found_.insert(found_.end(), losses_.begin(), losses_.end());
  losses_.clear();
  CO_TRY_VOID(co_await flush_replayed(call));
  CO_TRY_VOID(co_await settle_index(call));
  CO_TRY_VOID(co_await look_for_losses(call));
  if (report.records > 0 || report.cut_bytes > 0 || report.damaged > 0)
    log_.info("log replayed",
              {{"records", report.records}, {"damaged", report.damaged}, {"cut_bytes", report.cut_bytes}});
  co_return Fit{.good = true};
}

Task<Result<>> ObjectHome::remake_index(Call call) {
  if (segments_) CO_TRY_VOID(co_await segments_->close(call));
  segments_.reset();
  indexer_.reset();
  kv_.reset();
  const std::shared_ptr<OpenIndex> old = store_.index();
  store_.set_index(nullptr);
  // What could not be flushed is not needed any more.
  if (auto closed = co_await old->engine->close(call, machine_); !closed && call.stopped()) co_return closed;
  const std::string directory = index_path(store_.options_.directory, old->number);
  CO_TRY_VOID(co_await store_.kv_maker_.destroy(call, machine_, directory));
  CO_TRY(auto engine, co_await store_.kv_maker_.open(call, machine_, directory));
  store_.set_index(std::make_shared<OpenIndex>(std::move(engine), old->number));
  co_return Result<>{};
}

Task<Result<>> ObjectHome::on_record(Call call, Entry entry) {
  CO_TRY_VOID(co_await indexer_->apply(call, entry.header, entry.at, std::move(entry.meta)));
  if (indexer_->changes() < replay_batch) co_return Result<>{};
  const LogPoint reached{
      entry.header.sequence,
      {entry.at.segment, static_cast<std::uint32_t>(entry.at.offset + entry.header.size())}};
  (void)indexer_->take_gone();
  // What the end of the log lost is found by where the index stands: it stays there until all is named.
  CO_TRY(KvBatch batch, indexer_->take(losses_.empty() ? reached : *held_));
  co_return co_await write_index(call, std::move(batch));
}

Task<Result<>> ObjectHome::on_damage(Call, Damage damage) {
  if (damage.lost) {
    log_.error(damage.from == 0 ? "a segment of the log is missing" : "the end of a segment is lost",
               {{"segment", damage.segment}, {"from", damage.from}, {"last_sequence", damage.last_sequence}});
    losses_.push_back(damage);
    co_return Result<>{};
  }
  store_.status_.damage.fetch_add(1);
  damaged_[damage.segment] = true;
  log_.error("the log has a damaged place", {{"segment", damage.segment},
                                             {"from", damage.from},
                                             {"to", damage.to},
                                             {"first_sequence", damage.first_sequence},
                                             {"last_sequence", damage.last_sequence}});
  found_.push_back(damage);
  co_return Result<>{};
}

Task<Result<>> ObjectHome::flush_replayed(Call call) {
  (void)indexer_->take_gone();
  const LogPoint end = segments_->end();
  CO_TRY(KvBatch batch, indexer_->take(end));
  CO_TRY_VOID(co_await write_index(call, std::move(batch)));
  indexed_ = end.sequence;
  co_return Result<>{};
}

Task<Result<>> ObjectHome::write_index(Call call, KvBatch batch) {
  auto written = co_await kv_->write(call, std::move(batch));
  if (is_full(written)) index_lacked_room_ = true;
  co_return written;
}

bool ObjectHome::is_hit(const Place& place, std::span<const Damage> damages) noexcept {
  return std::any_of(damages.begin(), damages.end(), [&](const Damage& one) {
    return place.at.segment == one.segment && place.at.offset < one.to && place.end() > one.from;
  });
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller waits
Task<Result<bool>> ObjectHome::is_hurt(Call call, const ObjectEntry& entry, const PlaceTest& is_bad) {
  if (is_bad(entry.place)) co_return true;
  for (std::uint32_t first = 0; entry.token;) {
    CO_TRY(const auto parts, co_await indexer_->parts(call, *entry.token, first, page));
    if (parts.empty()) break;
    for (const Indexer::NumberedPart& one : parts)
      if (is_bad(one.entry.place)) co_return true;
    first = parts.back().index + 1;
  }
  co_return false;
}

Task<Result<>> ObjectHome::append_now(Call call, std::vector<Record> batch, LogPoint point) {
  if (batch.empty()) co_return Result<>{};
  CO_TRY(auto appended, co_await segments_->append(call, std::move(batch)));
  for (Entry& one : appended)
    CO_TRY_VOID(co_await indexer_->apply(call, one.header, one.at, std::move(one.meta)));
  (void)indexer_->take_gone();
  CO_TRY(KvBatch changes, indexer_->take(point));
  co_return co_await kv_->write(call, std::move(changes));
}

// A header that says how long the segment before it is tells more, but not every log has them.
void ObjectHome::look_for_short_segments() {
  for (const SegmentInfo& one : segments_->segments()) {
    const bool known = std::any_of(losses_.begin(), losses_.end(),
                                   [&](const Damage& loss) { return loss.segment == one.id; });
    if (!one.sealed || known || live_bytes(one.id) + segment_header_size <= one.size) continue;
    log_.error("a segment of the log is cut short", {{"segment", one.id}, {"size", one.size}});
    losses_.push_back({one.id, one.size, 0xffff'ffffu, 0, 0, false, true});
  }
}

// Every object with bytes that are gone is quarantined, before anybody can ask for it.
Task<Result<>> ObjectHome::name_losses(Call call) {
  if (losses_.empty()) co_return Result<>{};
  // Of a segment before one that is missing nothing says where it ended.
  std::map<std::uint32_t, std::uint64_t> ends;
  for (const SegmentInfo& one : segments_->segments()) ends[one.id] = one.size;
  const PlaceTest is_lost = [&](const Place& place) {
    const auto end = ends.find(place.at.segment);
    return is_hit(place, losses_) || (end != ends.end() && place.end() > end->second);
  };
  CO_TRY(KvBatch replayed, indexer_->take(*held_));
  CO_TRY_VOID(co_await kv_->write(call, std::move(replayed)));
  std::vector<Record> batch;
  std::uint64_t named = 0;
  std::string from(1, object_prefix);
  const std::string until = prefix_end(from);
  for (bool more = true; more;) {
    CO_TRY(const auto found, co_await kv_->scan(call, from, until, page));
    more = found.size() == page;
    for (const KvPair& pair : found) {
      ObjectEntry entry;
      if (!decode(as_bytes(pair.value), entry) || entry.quarantined()) continue;
      CO_TRY(const bool gone, co_await is_hurt(call, entry, is_lost));
      if (!gone) continue;
      Record record;
      record.kind = static_cast<std::uint8_t>(RecordKind::quarantine);
      record.meta = encode(QuarantineRecord{address_in(pair.key), entry.origin, {entry.place.at.segment, 0}});
      record.reserve = true;
      batch.push_back(std::move(record));
      ++named;
    }
    CO_TRY_VOID(co_await append_now(call, std::exchange(batch, {}), *held_));
    if (more) from = found.back().key + '\0';
  }
  CO_TRY_VOID(co_await indexer_->forget_parts(call, is_lost));
  if (named > 0) log_.error("objects are lost: put them again, or accept it", {{"objects", named}});
  losses_.clear();
  co_return Result<>{};
}

Task<Result<>> ObjectHome::look_for_losses(Call call) {
  std::string from(1, quarantine_prefix);
  const std::string until = prefix_end(from);
  for (;;) {
    CO_TRY(const auto found, co_await kv_->scan(call, from, until, page));
    for (const KvPair& pair : found) {
      QuarantineRecord record;
      if (!decode(as_bytes(pair.value), record) || !is_gone(record)) continue;
      store_.status_.lossy = true;
      damaged_[record.at.segment] = true;  // it cannot be compacted: not all that lives in it can be moved
    }
    if (found.size() < page) co_return Result<>{};
    from = found.back().key + '\0';
  }
}

// Those that lie furthest in the log: there an index of a log that went on differently is wrong.
Task<Result<bool>> ObjectHome::is_index_of_another(Call call, std::size_t limit) {
  std::map<Position, Address> last;
  std::map<std::uint32_t, std::uint64_t> sizes;
  for (const SegmentInfo& one : segments_->segments()) sizes[one.id] = one.size;
  std::string from(1, object_prefix);
  const std::string until = prefix_end(from);
  for (std::size_t seen = 0; seen < limit;) {
    CO_TRY(const auto found, co_await kv_->scan(call, from, until, page));
    for (const KvPair& pair : found) {
      ObjectEntry entry;
      if (!decode(as_bytes(pair.value), entry)) continue;
      const auto size = sizes.find(entry.place.at.segment);
      if (size == sizes.end() || entry.place.at.offset >= size->second) continue;
      last[entry.place.at] = address_in(pair.key);
      if (last.size() > looked_at) last.erase(last.begin());
    }
    if (found.size() < page) break;
    seen += found.size();
    from = found.back().key + '\0';
  }
  for (const auto& [at, address] : last) {
    CO_TRY(const bool another, co_await is_another(call, address, at));
    if (another) co_return true;
  }
  co_return false;
}

// Only a good record says that it is not the one.
Task<Result<bool>> ObjectHome::is_another(Call call, Address address, Position at) {
  CO_TRY(auto file, co_await files_->get(call, at.segment));
  CO_TRY(const std::uint64_t size, file->size());
  SegmentScan scan(machine_, file, at.segment, segments_->key_of(at.segment), at.offset, size);
  CO_TRY(const auto found, co_await scan.next(call));
  if (!found.entry || found.entry->at != at) co_return false;
  const auto there = Indexer::address_of(*found.entry);
  co_return there != address;
}

// What a crash kept from being noted.
Task<Result<>> ObjectHome::settle_index(Call call) {
  std::set<std::uint32_t> gone = segments_of_index_alone();
  if (gone.empty() && !indexer_->rebuilding()) co_return Result<>{};
  if (!gone.empty()) CO_TRY_VOID(co_await indexer_->segments_gone(call, std::move(gone)));
  if (indexer_->rebuilding()) CO_TRY_VOID(co_await indexer_->end_rebuilding(call));
  co_return co_await flush_replayed(call);
}

Task<Result<>> ObjectHome::close(Call call) {
  store_.status_.open = false;
  errands_.close();
  // What was not finished with them is for the next start.
  if (rebuild_) (void)co_await rebuild_->close(call);
  if (retired_) (void)co_await retired_->engine->close(call, machine_);
  if (segments_) CO_TRY_VOID(co_await segments_->close(call));
  kv_.reset();
  co_return Result<>{};
}

// --- committing

void ObjectHome::fence(const char* why) noexcept {
  if (store_.status_.fenced.exchange(true)) return;
  log_.error("writes are fenced until the next start", {{"why", why}});
}

std::unexpected<Error> ObjectHome::index_fell_behind(const char* why) noexcept {
  indexer_->forget();
  if (store_.status_.index_damaged)
    store_.status_.index_behind = true;
  else
    fence(why);
  return fail(ErrorCode::degraded, why);
}

Task<> ObjectHome::commit_loop(Call call) {
  // Stopped by its scope: whatever is asked for after that is refused by close().
  while (co_await errands_.arrived(call)) {
    co_await gather(call);
    co_await commit_group(call.unbounded());
  }
}

// Larger groups, fewer syncs. Those who were answered are likely to ask again, so while this shard has other
// work to do, most of as many as were there around the last group are waited for. What the rest asks is
// worked on while the disk syncs.
Task<> ObjectHome::gather(Call call) {
  const Instant until = machine_.shard.now() + gather_most;
  const std::size_t enough = around_ - around_ / 4;
  while (co_await next_turn(call)) {
    if (errands_.waiting() >= enough || machine_.shard.now() >= until) break;
  }
}

Task<> ObjectHome::commit_group(Call call) {
  Group group;
  group.bytes_max = batch_max(Group::bytes_most);
  indexer_->forget();
  for (Mutation* first = nullptr; !group.full() && (first = errands_.next()) != nullptr;) {
    Mutation& next = *first;
    // A new index writes nothing to the log, and ends that changes are refused.
    if ((store_.status_.fenced || store_.status_.index_behind) && next.kind != Mutation::Kind::adopt_index) {
      errands_.take(next);
      errands_.refuse(next,
                      {ErrorCode::degraded, store_.status_.fenced ? "writes are fenced until the next start"
                                                                  : "the index is damaged: it is made anew"});
      continue;
    }
    // On a full disk what frees space must not fail together with what needs it.
    if (full_ && !group.members.empty() && group.frees != next.frees_space()) break;
    const Result<Planned> planned = co_await plan(call, next, group);
    if (planned && *planned == Planned::deferred) break;
    errands_.take(next);
    if (!planned) {
      errands_.refuse(next, planned.error());
    } else if (*planned == Planned::answered) {
      errands_.answer(next);
    } else {
      group.frees = next.frees_space();
      group.members.push_back(&next);
    }
  }
  if (group.members.empty()) co_return;
  const Result<> written = co_await write_group(call, group);
  around_ = group.members.size() + (group.full() ? 0 : errands_.waiting());  // not more than can go together
  // From now on the two kinds go apart; what frees space is tried again alone.
  if (is_full(written)) note_full();
  const bool mixed =
      is_full(written) && std::any_of(group.members.begin(), group.members.end(),
                                      [](const Mutation* member) { return !member->frees_space(); });
  List<Mutation, ErrandLink> again;
  for (Mutation* member : group.members) {
    if (written)
      errands_.answer(*member);
    else if (mixed && member->frees_space())
      again.push_back(*member);
    else
      errands_.refuse(*member, written.error());
  }
  errands_.put_back(again);
}

void ObjectHome::note_full() {
  if (full_) return;
  full_ = true;
  store_.status_.full = true;
  if (auto held = full_told_.due(machine_.shard.now()))
    log_.warn("the disk is full: nothing more is stored until there is room", {{"suppressed", *held}});
  want_room();
}

std::size_t ObjectHome::batch_max(std::size_t wanted) const noexcept {
  // One more record may join, of at most as much, or of a part.
  return std::min<std::size_t>(wanted, (store_.options_.segment_size - 2 * segment_header_size) / 4);
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the committer waits for it
Task<Result<>> ObjectHome::write_group(Call call, Group& group) {
  if (group.adopts) co_return co_await adopt_index(call);
  CO_TRY_VOID(co_await make_index_ready(call));
  if (!group.records.empty()) {
    auto appended = co_await segments_->append(call, std::move(group.records));
    note_lost();
    if (!appended) {
      if (segments_->fenced()) fence(appended.error().context);
      if (appended.error().code != ErrorCode::io_failed) co_return fail(appended.error());
      // The disk's fault, and nothing of it happened: asked again later it may be done.
      if (auto held = failure_told_.due(machine_.shard.now()))
        log_.error("the disk refuses the log", {{"why", appended.error().context}, {"suppressed", *held}});
      store_.status_.refused_at = machine_.shard.now().ns;
      co_return fail(ErrorCode::degraded, "the disk refuses the log");
    }
    store_.status_.refused_at = 0;
    for (Entry& one : *appended) {
      store_.status_.groups_written.fetch_add(crypto::group_count(one.header.data_size),
                                              std::memory_order_relaxed);
      auto applied = co_await indexer_->apply(call, one.header, one.at, std::move(one.meta));
      if (!applied) co_return index_fell_behind("the index cannot follow the log");
    }
  }
  for (auto& [segment, stale] : group.gone)
    if (auto noted = co_await indexer_->segment_gone(call, segment, std::move(stale)); !noted)
      co_return index_fell_behind("the index cannot follow the log");
  for (const Ulid& token : group.forgotten) indexer_->forget_committed(token);
  const LogPoint end = segments_->end();
  auto changes = indexer_->take(end);
  if (!changes) co_return index_fell_behind("the index cannot follow the log");
  if (auto indexed = co_await kv_->write(call, std::move(*changes)); !indexed)
    co_return index_fell_behind("the index cannot be written");
  indexed_ = end.sequence;
  note_uploads(group);
  for (const Address& address : indexer_->take_gone()) store_.cache_.erase(address);
  publish_totals();
  tell_foreign();
  if (segments_->uses_reserve()) note_full();
  co_await end_dead_segment(call);
  co_await look_for_room(call);
  co_return Result<>{};
}

Task<Result<>> ObjectHome::make_index_ready(Call call) {
  auto ready = co_await kv_->make_ready(call);
  if (is_full(ready) && co_await segments_->release_reserve(call)) ready = co_await kv_->make_ready(call);
  if (!ready && !is_full(ready) && !store_.status_.index_damaged) fence("the index cannot be written");
  co_return ready;
}

Task<Result<>> ObjectHome::flush_index(Call call) {
  auto flushed = co_await kv_->flush(call);
  if (is_full(flushed) && co_await segments_->release_reserve(call)) flushed = co_await kv_->flush(call);
  co_return flushed;
}

Task<> ObjectHome::end_dead_segment(Call call) {
  if (!full_) co_return;
  const SegmentInfo current = segments_->segments().back();
  const std::uint64_t live = bytes_to_copy(current.id);
  const std::uint64_t dead = current.size - std::min(current.size, live);
  if (dead <= current.size / 2 || dead <= std::min(worth_ending, store_.options_.segment_size / 16))
    co_return;
  const auto room = co_await segments_->room_to_copy(call);
  if (!room || room->most < live + segment_header_size) co_return;
  if (!co_await segments_->roll(call) && segments_->fenced()) fence("a segment could not be begun");
}

// What others do to the disk is seen before a write meets it.
Task<> ObjectHome::measure_room(Call call) {
  const auto room = co_await segments_->room_to_store(call);
  if (!room) co_return;
  store_.status_.room_bytes = *room;
  if (*room == 0) note_full();
}

Task<> ObjectHome::look_for_room(Call call) {
  if (!full_) co_return;
  StoreStatus& status = store_.status_;
  if (!co_await segments_->has_room(call)) {
    const auto room = co_await segments_->room_to_copy(call);
    const std::uint64_t to_copy = victim_ ? bytes_to_copy(*victim_) : segments_->segment_length();
    const bool at_work = compacting_ || compaction_failed_ || !room_wanted_.empty();
    status.making_room = at_work && room && room->safe < to_copy + deletes_at_once;
    co_return want_room();
  }
  if (store_.index()->engine->room() > 0) (void)co_await opening_.ensure(call);
  full_ = false;
  status.full = false;
  status.making_room = false;
}

void ObjectHome::publish_totals() noexcept {
  StoreStatus& status = store_.status_;
  const Totals& totals = indexer_->totals();
  status.objects = totals.objects;
  status.bytes = totals.bytes;
  status.uploads = totals.uploads;
  status.upload_bytes = indexer_->upload_bytes();
  status.quarantined = totals.quarantined;
  const LogSize log = segments_->size();
  std::uint64_t live = indexer_->live_bytes();
  for (const std::uint32_t segment : absent_) live -= live_bytes(segment);
  status.segments = log.segments;
  status.lost_segments = segments_->lost().size();
  status.first_lost = segments_->lost().empty() ? 0 : segments_->lost().front();
  if (totals.quarantined == 0) status.lossy = false;
  status.log_bytes = log.bytes;
  status.dead_bytes = log.bytes - std::min(log.bytes, live);
}

std::set<std::uint32_t> ObjectHome::segments_of_index_alone() const {
  std::set<std::uint32_t> alone;
  for (const auto& [segment, live] : indexer_->live()) alone.insert(segment);
  for (const SegmentInfo& one : segments_->segments()) alone.erase(one.id);
  return alone;
}

void ObjectHome::tell_foreign() {
  for (const ForeignFile& one : segments_->take_foreign())
    log_.error(
        "a file that is not of this log was set aside",
        {{"path", one.path}, {"segment", one.segment}, {"header_segment", one.header_segment.value_or(0)}});
}

void ObjectHome::want_room() noexcept {
  while (!room_wanted_.empty()) wake(room_wanted_.front());
}

std::uint64_t ObjectHome::live_bytes(std::uint32_t segment) const noexcept {
  const auto found = indexer_->live().find(segment);
  return found == indexer_->live().end() || found->second < 0 ? 0 : static_cast<std::uint64_t>(found->second);
}

Task<Result<>> ObjectHome::quarantine(Call call, Address address, std::uint64_t origin, Position at) {
  auto mutation = std::make_unique<Mutation>(Mutation::Kind::quarantine);
  mutation->address = address;
  mutation->origin = origin;
  mutation->at = at;
  damaged_[at.segment] = true;
  CO_TRY_VOID(co_await submit(call, std::move(mutation)));
  co_return Result<>{};
}

}  // namespace cairn::store
