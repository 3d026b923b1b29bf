#include "services/storage/service.h"

#include <algorithm>

#include "io/memory.h"
#include "runtime/pool.h"
#include "runtime/wait.h"
#include "serve/sizes.h"
#include "services/storage/shard.h"
#include "store/object_home.h"

namespace cairn::storage {

using serve::Request;

void Metrics::declare(observe::Registry& registry) {
  using observe::Buckets;
  get_latency = registry.histograms({"storage_get_latency_seconds",
                                     "Until the head of an answer, from memory or from the disk.",
                                     {{"route", {std::string(StorageShard::routes().front().pattern)}},
                                      {"range", {"whole", "single", "multi"}}}},
                                    Buckets::latency());
  put_latency = registry.histograms({"storage_put_latency_seconds", "Until a stored object was durable."},
                                    Buckets::latency());
  bytes_in = registry.counters({"bytes_in_total", "Bytes of objects received."});
  bytes_out = registry.counters({"bytes_out_total", "Bytes of objects promised in answers."});
  integrity = registry.counters({"integrity_fail_total",
                                 "Answers refused because stored bytes did not match.",
                                 {{"reason", {"checksum"}}}});
  decompress = registry.counters({"decompress_reject_total",
                                  "Bodies refused by the decode guard.",
                                  {{"reason", {"ratio", "size", "malformed"}}}});
  hits = registry.counters({"cache_hits_total", "Reads answered from memory."});
  misses = registry.counters({"cache_misses_total", "Reads that had to look on the disk."});
}

StorageShard::StorageShard(Shared& shared, serve::ShardContext context)
    : shared_(shared),
      context_(context),
      machine_{context.machine.shard,   context.machine.slab,
               context.machine.network, shared.ram ? *shared.ram : context.machine.disk,
               context.machine.entropy, context.machine.mailbox,
               context.machine.pool,    context.machine.memory},
      slot_(context.slot) {}
StorageShard::~StorageShard() = default;

Task<Result<>> StorageShard::make_stores(Call) {
  const Options& asked = shared_.options;
  prepare_announcing();
  // With amnesia the disk is in memory, and the cache only makes its bytes sendable.
  const std::uint64_t capacity =
      asked.amnesia ? asked.cache_bytes / 16 + store::GroupCache::least_capacity : asked.cache_bytes;
  CO_TRY(auto arena, machine_.memory.make_arena(store::GroupCache::arena_bytes(capacity)));
  std::uint64_t seed = 0;
  machine_.entropy.fill(std::as_writable_bytes(std::span(&seed, 1)));
  shared_.cache = std::make_shared<store::GroupCache>(std::move(arena), capacity, seed);
  shared_.made_cache.store(shared_.cache.get(), std::memory_order_release);
  store::StoreOptions options;
  options.segment_size = asked.segment_size;
  options.reserve = asked.reserve;
  options.pending_max = asked.changes_max;
  if (asked.amnesia) options.reserve = asked.cache_bytes / 32;
  options.spare_files = asked.amnesia ? 0 : asked.spare_files;
  options.fsync = asked.fsync && !asked.amnesia;
  options.scrub_rate = asked.scrub_rate;
  options.scrub_interval = asked.scrub_interval;
  options.changed = announcing_ ? shared_.changed.get() : nullptr;
  options.upload_ttl = asked.uploads_ttl;
  options.uploads_max = asked.uploads_max;
  shared_.stores =
      std::make_unique<store::StoreSet>(shared_.options.data_dirs, options, shared_.kv, *shared_.cache);
  shared_.unopened = shared_.stores->size();
  shared_.made_stores.store(shared_.stores.get(), std::memory_order_release);
  co_return Result<>{};
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the store outlives the task
Task<Result<>> StorageShard::open_store(Call call, store::ObjectStore& store) {
  if (auto opened = co_await store.open(call, machine_, context_.log); !opened) {
    if (!shared_.options.amnesia) shared_.trouble = &store.options().directory;
    co_return fail(opened.error());
  }
  store::ObjectHome& home = store.home();
  Supervisor& tasks = context_.tasks;
  CO_TRY_VOID(tasks.start("committer", [&home](Call c) { return home.committer().run(c); }));
  CO_TRY_VOID(tasks.start("compactor", [&home](Call c) { return home.compactor().compact_loop(c); }));
  CO_TRY_VOID(tasks.start("scrubber", [&home](Call c) { return home.scrubber().scrub_loop(c); }));
  CO_TRY_VOID(tasks.start("sweeper", [&home](Call c) { return home.sweeper().sweep_loop(c); }));
  CO_TRY_VOID(tasks.start("indexer", [&home](Call c) { return home.index_keeper().index_loop(c); }));
  co_return Result<>{};
}

// Shard 0 makes the shared state; then each shard opens the stores that it is the home of.
Task<Result<>> StorageShard::start(Call call) {
  if (machine_.shard.index() == 0) CO_TRY_VOID(co_await make_stores(call));
  ports_ = std::make_unique<store::SetPort>(*shared_.stores, machine_);
  for (std::size_t i = 0; i < shared_.stores->size(); ++i) {
    if (!is_home(i)) continue;
    CO_TRY_VOID(co_await open_store(call, shared_.stores->at(i)));
    if (--shared_.unopened > 0) continue;
    context_.health.set("store", true);
    show_gates();
  }
  if (machine_.shard.index() != 0) co_return Result<>{};
  CO_TRY_VOID(context_.tasks.start("gates", [this](Call c) { return watch_gates(c); }));
  if (announcing_) CO_TRY_VOID(context_.tasks.start("announcer", [this](Call c) { return announce(c); }));
  if (shared_.cache->has_large_pages())
    CO_TRY_VOID(context_.tasks.start("pages", [this](Call c) { return prepare_cache(c); }));
  co_return Result<>{};
}

// Looks often: objects come in bursts, and an object that finds no large page stays in small ones.
Task<> StorageShard::prepare_cache(Call call) {
  constexpr Duration soon = Duration::millis(5), idle = Duration::millis(20);
  const PoolSeat seat(machine_.pool, Lane::cpu);
  bool made = true;
  while (co_await sleep_for(call, made ? soon : idle)) {
    made = false;
    if (!shared_.cache->wants_prepare()) continue;
    const auto done =
        co_await run(machine_.pool, call, Lane::cpu, [cache = shared_.cache] { return cache->prepare(); });
    made = done && *done;
  }
}

Task<> StorageShard::stop(Call call) {
  ports_.reset();
  for (std::size_t i = 0; i < shared_.stores->size(); ++i) {
    if (!is_home(i)) continue;
    if (auto closed = co_await shared_.stores->at(i).close(call); !closed)
      context_.log.warn("a store did not close cleanly", {{"why", closed.error().context}});
  }
}

void StorageShard::apply(const config::Snapshot& snapshot) {
  // During a start, or after one that failed, there is no home to tell.
  store::StoreSet* const stores = shared_.made_stores.load(std::memory_order_acquire);
  for (std::size_t i = 0; stores != nullptr && i < stores->size(); ++i) {
    if (!is_home(i) || !shared_.stores->at(i).status().open) continue;
    store::ObjectHome& home = shared_.stores->at(i).home();
    home.scrubber().set_rate(snapshot.get(shared_.keys.scrub_rate));
    home.scrubber().set_interval(snapshot.get(shared_.keys.scrub_interval));
  }
}

namespace {

class StorageService final : public serve::Service {
 public:
  StorageService(Options options, store::KvMaker& kv, Keys keys)
      : shared_{.options = std::move(options),
                .keys = keys,
                .kv = kv,
                .metrics = {},
                .changed = {},
                .announced = {},
                .ram = {},
                .cache = {},
                .stores = {}} {
    if (const AnnounceOptions& asked = shared_.options.announce; asked.enabled && asked.announcer.key)
      shared_.changed = std::make_unique<store::ChangeFeed>(asked.changed_max);
    if (shared_.options.amnesia) shared_.ram = std::make_unique<io::RamDisk>(shared_.options.cache_bytes);
  }

  const ServiceDeclaration& declaration() const override { return storage::declaration; }
  std::span<const serve::RouteSpec> routes() const override { return StorageShard::routes(); }
  std::vector<serve::GateDeclaration> gates() const override {
    return {std::begin(storage::gates), std::end(storage::gates)};
  }
  std::string trouble() const override {
    const std::string* const directory = shared_.trouble.load();
    return directory == nullptr ? std::string() : *directory;
  }
  std::unique_ptr<serve::ServiceShard> make_shard(serve::ShardContext context) override {
    ++shared_.shards;
    return std::make_unique<StorageShard>(shared_, context);
  }
  void declare_metrics(observe::Registry& registry) override {
    shared_.metrics.declare(registry);
    registry.observed_gauge("cache_bytes", "Memory that the cache of verified groups holds.", [this] {
      const auto* cache = shared_.made_cache.load(std::memory_order_acquire);
      return cache != nullptr ? static_cast<double>(cache->bytes()) : 0;
    });
    observe_announcer(registry);
    registry.observed_gauge("cache_large_page_bytes", "Memory of the cache that is in large pages.", [this] {
      const auto* cache = shared_.made_cache.load(std::memory_order_acquire);
      return cache != nullptr ? static_cast<double>(cache->large_pages().bytes) : 0;
    });
    observe_sum(registry, "chunks_read_total", "Groups read from disk and verified.", true,
                [](store::StoreStatus& s) { return s.groups_read.load(); });
    observe_sum(registry, "chunks_written_total", "Groups written to the log.", true,
                [](store::StoreStatus& s) { return s.groups_written.load(); });
    observe_sum(registry, "storage_objects", "Objects stored.", false,
                [](store::StoreStatus& s) { return s.objects.load(); });
    observe_sum(registry, "storage_bytes", "Bytes of objects stored.", false,
                [](store::StoreStatus& s) { return s.bytes.load(); });
    observe_sum(registry, "storage_uploads", "Uploads that are open.", false,
                [](store::StoreStatus& s) { return s.uploads.load(); });
    observe_sum(registry, "storage_upload_bytes", "Bytes of the parts of open uploads.", false,
                [](store::StoreStatus& s) { return s.upload_bytes.load(); });
    observe_sum(registry, "storage_log_bytes", "Bytes of the segment logs.", false,
                [](store::StoreStatus& s) { return s.log_bytes.load(); });
    observe_sum(registry, "storage_dead_bytes", "Bytes of the segment logs that compaction may reclaim.",
                false, [](store::StoreStatus& s) { return s.dead_bytes.load(); });
    observe_sum(registry, "storage_quarantined", "Objects whose bytes were found bad.", false,
                [](store::StoreStatus& s) { return s.quarantined.load(); });
    observe_sum(registry, "storage_lost_segments", "Segments of the log that are missing.", false,
                [](store::StoreStatus& s) { return s.lost_segments.load(); });
    observe_sum(registry, "storage_index_damaged", "Data directories whose index is being made anew.", false,
                [](store::StoreStatus& s) { return std::uint64_t{s.index_damaged.load()}; });
    observe_sum(registry, "scrubbed_bytes_total", "Bytes the scrubber has looked at.", true,
                [](store::StoreStatus& s) { return s.scrub_bytes.load(); });
  }

 private:
  template <class F>
  void observe_sum(observe::Registry& registry, const char* name, const char* help, bool counter, F read) {
    auto sum = [this, read] {
      std::uint64_t total = 0;
      auto* stores = shared_.made_stores.load(std::memory_order_acquire);
      for (std::size_t i = 0; stores != nullptr && i < stores->size(); ++i)
        total += read(stores->at(i).status());
      return static_cast<double>(total);
    };
    if (counter)
      registry.observed_counter(name, help, sum);
    else
      registry.observed_gauge(name, help, sum);
  }

  // Without an announcer all of it is zero.
  void observe_announcer(observe::Registry& registry) {
    registry.observed_gauge(
        "announce_lag_seconds", "Age of the oldest change that the index was not told of.", [this] {
          const Shard* const here = current_shard();
          return shared_.changed == nullptr || here == nullptr
                     ? 0.0
                     : find_lag(*shared_.changed, shared_.announced, here->now()).to_seconds();
        });
    registry.observed_gauge("announce_covered_keys",
                            "Objects of which the index was told that they are here.",
                            [this] { return static_cast<double>(shared_.announced.covered); });
    registry.observed_gauge(
        "announce_pending_keys", "Objects of which the index has yet to be told.", [this] {
          return shared_.changed == nullptr
                     ? 0.0
                     : static_cast<double>(count_pending(*shared_.changed, shared_.announced));
        });
    auto requests = registry.observed_counters(
        {"announce_requests_total",
         "Batches of records for the index, by what became of them.",
         {{"result", {"taken", "busy", "unauthorized", "refused", "unanswered"}}}});
    for (std::size_t i = 0; i < said_count; ++i)
      requests.bind([this, i] { return static_cast<double>(shared_.announced.requests[i]); }, i);
  }

  Shared shared_;
};

}  // namespace

Options read_options(const config::Snapshot& snapshot, const Keys& keys, const std::string& data) {
  Options options;
  options.data_dirs = snapshot.get(keys.data_dirs);
  if (options.data_dirs.empty()) options.data_dirs.push_back(data);
  options.segment_size = snapshot.get(keys.segment_size).count;
  options.cache_bytes = snapshot.get(keys.cache_bytes).count;
  options.fsync = snapshot.get(keys.fsync);
  options.amnesia = snapshot.get(keys.server.amnesia);
  options.scrub_rate = snapshot.get(keys.scrub_rate);
  options.scrub_interval = snapshot.get(keys.scrub_interval);
  options.uploads_ttl = snapshot.get(keys.uploads_ttl);
  options.changes_max = serve::queue_capacity(declaration, snapshot, keys.server, "changes");
  options.announce.enabled = snapshot.get(keys.announce);
  options.announce.token_file = snapshot.get(keys.announce_token_file);
  options.announce.changed_max = serve::queue_capacity(declaration, snapshot, keys.server, "changed");
  if (auto endpoints = parse_all_announced(snapshot.get(keys.announce_endpoints)))
    options.announce.announcer.endpoints = std::move(*endpoints);
  return options;
}

std::unique_ptr<serve::Service> make_service(Options options, store::KvMaker& kv, Keys keys) {
  return std::make_unique<StorageService>(std::move(options), kv, keys);
}

}  // namespace cairn::storage
