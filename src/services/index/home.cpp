#include "services/index/home.h"

#include "runtime/wait.h"
#include "store/index_place.h"
#include "store/log_reserve.h"

namespace cairn::index {
namespace {

constexpr std::size_t replay_batch = 1024;
constexpr Duration tend_period = Duration::millis(200);

}  // namespace

Home::Home(Ledger& ledger, io::Machine& machine, observe::Logger log)
    : ledger_(ledger), machine_(machine), log_(log) {}
// Without close() nothing is lost that was answered: the next start only reads more of the log.
Home::~Home() {
  if (ledger_.status().open) log_.debug("dropped unclosed", {{"directory", ledger_.options().directory}});
}

Task<Result<>> Home::open(Call call) {
  const LedgerOptions& options = ledger_.options();
  const auto made = co_await machine_.disk.make_directory(call, options.directory);
  if (!made && made.error().code != ErrorCode::conflict) co_return fail(made.error());
  const std::size_t slash = options.directory.rfind('/');
  const auto named = co_await machine_.disk.sync_directory(
      call, slash == std::string::npos ? "." : options.directory.substr(0, slash + 1));
  // A directory that was there may have been made by another user, in a place that this process may not read.
  if (made && !named) co_return fail(named.error());
  CO_TRY(const std::uint64_t number,
         co_await store::settle_index_place(call, machine_, ledger_.kv_maker_, options.directory, log_));
  map_directory_ = store::index_path(options.directory, number);
  CO_TRY_VOID(co_await open_map(call, map_directory_));
  CO_TRY_VOID(co_await open_log(call));
  committer_ = std::make_unique<Committer>(ledger_, machine_, log_, *segments_, *kv_, *indexer_);
  publish_totals();
  co_return Result<>{};
}

Task<Result<>> Home::open_map(Call call, std::string directory) {
  store::KvMaker& maker = ledger_.kv_maker_;
  auto opened = co_await maker.open(call, machine_, directory);
  // Reads go on with a full disk: the space that is kept free for that makes room for the map.
  if (!opened && opened.error().code == ErrorCode::storage_full) {
    co_await store::release_reserve(call, machine_, ledger_.segment_directory(), 0);
    opened = co_await maker.open(call, machine_, directory);
  }
  if (!opened && opened.error().code == ErrorCode::integrity) {
    log_.warn("the index is damaged: it is made anew from the log");
    CO_TRY_VOID(co_await maker.destroy(call, machine_, directory));
    opened = co_await maker.open(call, machine_, directory);
  }
  if (!opened) co_return fail(opened.error());
  ledger_.engine_ = std::move(*opened);
  ledger_.status().index_damaged = false;
  kv_ = std::make_unique<MapPort>(ledger_.engine_->make_port(machine_, Lane::index),
                                  ledger_.status().index_damaged);
  indexer_ = std::make_unique<Indexer>(*kv_);
  co_return Result<>{};
}

Task<Result<>> Home::remake_map(Call call) {
  if (segments_) CO_TRY_VOID(co_await segments_->close(call));
  segments_.reset();
  indexer_.reset();
  kv_.reset();
  // Changes that the old map could not flush are not needed any more.
  if (auto closed = co_await ledger_.engine_->close(call, machine_); !closed && call.stopped())
    co_return closed;
  ledger_.engine_.reset();
  CO_TRY_VOID(co_await ledger_.kv_maker_.destroy(call, machine_, map_directory_));
  co_return co_await open_map(call, map_directory_);
}

Task<Result<>> Home::open_log(Call call) {
  const LedgerOptions& asked = ledger_.options();
  store::LogOptions options;
  options.directory = ledger_.segment_directory();
  options.segment_size = asked.segment_size;
  options.fsync = asked.fsync;
  options.reserve = asked.reserve;
  options.ahead = asked.ahead;
  options.check = is_data_right;
  options.index_stamped = true;
  // The map is flushed only after the log is durable: a map that is ahead has changes that the log lost.
  options.index_proves = asked.fsync;
  for (bool remade = false;; remade = true) {
    auto fits = co_await open_with_map(call, options);
    if (!fits && !ledger_.status().index_damaged) co_return fail(fits.error());
    if (fits && *fits) co_return Result<>{};
    if (remade) co_return fail(ErrorCode::integrity, "the index does not fit the log, twice");
    CO_TRY_VOID(co_await remake_map(call));
  }
}

Task<Result<bool>> Home::open_with_map(Call call, store::LogOptions options) {
  CO_TRY(const store::LogPoint from, co_await indexer_->load(call));
  store::LogReport report;
  ledger_.status().damaged = 0;
  auto opened = co_await store::Log::open(call, machine_, std::move(options), from, *this, report);
  if (!opened) {
    if (!report.problem.empty()) log_.error("the log was not opened", {{"why", report.problem}});
    co_return fail(opened.error());
  }
  segments_ = std::move(*opened);
  for (const store::ForeignFile& one : segments_->take_foreign())
    log_.error("a file that is not of this log was set aside",
               {{"path", one.path}, {"segment", one.segment}});
  if (report.ends_lost)
    log_.error("the log has lost its end, and the index has it: restore the segments",
               {{"directory", ledger_.options().directory}});
  // A log is never empty behind a map that was made from it: its directory was taken away. The map is all
  // that is left of it.
  if (report.index == store::IndexFit::foreign && segments_->segments().empty()) {
    log_.error("the log is gone, and the index has it: restore the segments, or take the index away too",
               {{"directory", ledger_.options().directory}});
    co_return fail(ErrorCode::integrity, "the log of names is gone");
  }
  if (report.index != store::IndexFit::good && !report.ends_lost) {
    log_.warn("the index does not fit the log: it is made anew");
    co_return false;
  }
  if (indexer_->changes() > 0 || report.records > 0 || !from.stamp)
    CO_TRY_VOID(co_await write_map(call, indexer_->take(segments_->end())));
  ledger_.status().replayed = report.records;
  if (report.records > 0 || report.cut_bytes > 0 || report.damaged > 0)
    log_.info("log replayed",
              {{"records", report.records}, {"damaged", report.damaged}, {"cut_bytes", report.cut_bytes}});
  co_return true;
}

// A batch that the map does not take is lost to it, and must not be passed by. On a full disk the space that
// is kept free for that makes room.
Task<Result<>> Home::write_map(Call call, store::KvBatch batch) {
  const auto ready = co_await kv_->make_ready(call);
  if (!ready && ready.error().code == ErrorCode::storage_full) {
    log_.warn("the disk has no room for the index");
    if (segments_)
      (void)co_await segments_->release_reserve(call);
    else
      co_await store::release_reserve(call, machine_, ledger_.segment_directory(), 0);
  }
  co_return co_await kv_->write(call, std::move(batch));
}

Task<Result<>> Home::on_record(Call call, store::Entry entry) {
  const store::LogPoint reached{
      entry.header.sequence,
      {entry.at.segment, static_cast<std::uint32_t>(entry.at.offset + entry.header.size())}};
  CO_TRY_VOID(co_await indexer_->apply(call, std::move(entry)));
  if (indexer_->changes() < replay_batch) co_return Result<>{};
  co_return co_await write_map(call, indexer_->take(reached));
}

Task<Result<>> Home::on_damage(Call, store::Damage damage) {
  ++ledger_.status().damaged;
  log_.error("the log has a damaged place: changes may be lost", {{"segment", damage.segment},
                                                                  {"from", damage.from},
                                                                  {"to", damage.to},
                                                                  {"first_sequence", damage.first_sequence},
                                                                  {"last_sequence", damage.last_sequence}});
  // What the disk does not read now it may read later: a map that passes it by would never have it again.
  if (damage.unreadable) co_return fail(ErrorCode::io_failed, "the disk does not read the log");
  co_return Result<>{};
}

void Home::publish_totals() noexcept {
  Status& status = ledger_.status();
  status.names = indexer_->totals().names;
  status.changes = indexer_->totals().changes;
  status.manifests = indexer_->totals().manifests;
  const store::LogSize size = segments_->size();
  status.log_bytes = size.bytes;
  status.segments = size.segments;
}

Task<> Home::tend(Call call) {
  Status& status = ledger_.status();
  while (co_await sleep_for(call, tend_period)) {
    if (status.full && co_await segments_->has_room(call)) status.full = false;
    if (!status.index_damaged || marked_) continue;
    log_.error("the index is damaged: the next start makes it anew", {{"directory", map_directory_}});
    marked_ = (co_await store::mark_index_damaged(call, machine_, ledger_.options().directory)).has_value();
  }
}

Task<Result<>> Home::close(Call call) {
  committer_->errands().close();
  Result<> closed = co_await segments_->close(call);
  committer_.reset();
  indexer_.reset();
  kv_.reset();
  if (auto flushed = co_await ledger_.engine_->close(call, machine_); !flushed && closed) closed = flushed;
  co_return closed;
}

}  // namespace cairn::index
