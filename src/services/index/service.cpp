#include "services/index/service.h"

#include <algorithm>
#include <span>

#include "base/endpoint.h"
#include "codec/json_writer.h"
#include "runtime/wait.h"
#include "serve/answer.h"
#include "serve/sizes.h"
#include "services/index/dht_peers.h"
#include "services/index/home.h"
#include "services/index/incoming.h"
#include "services/index/node_target.h"

namespace cairn::index {

using serve::Request;

namespace {

constexpr std::uint64_t write_ahead = 1u << 20;
constexpr std::uint32_t local_network = 1;
constexpr std::uint64_t ram_bytes = std::uint64_t{256} << 20;
constexpr Duration registry_patience = Duration::seconds(5), registry_period = Duration::seconds(30),
                   registry_retry = Duration::seconds(1), registry_soon = Duration::millis(5),
                   peers_period = Duration::seconds(600);

}  // namespace

void Metrics::declare(observe::Registry& registry) {
  integrity = registry.counters({"integrity_fail_total",
                                 "Reads refused because stored bytes did not match.",
                                 {{"reason", {"checksum"}}}});
  refused_records = registry.counters({"index_records_refused_total",
                                       "Records of providers that were not taken.",
                                       {{"reason", {"forged", "expired", "older", "crowded"}}}});
  resolve_latency = registry.histograms({"resolve_latency_seconds",
                                         "How long questions took, from the head to the answer.",
                                         {{"type", {"name", "cid"}}}},
                                        observe::Buckets::latency());
  lookups = registry.histogram("index_dht_lookup_seconds", "How long lookups at other nodes took.",
                               observe::Buckets::latency());
  hits = registry.counters({"index_cache_hits_total", "Questions that the cache answered."}).at();
  misses = registry.counters({"index_cache_misses_total", "Questions that others had to be asked."}).at();
  deadline_hits =
      registry.counters({"resolve_deadline_hit_total", "Questions whose deadline came first."}).at();
}

IndexShard::IndexShard(Shared& shared, serve::ShardContext context)
    : shared_(shared),
      context_(context),
      machine_{context.machine.shard,   context.machine.slab,
               context.machine.network, shared.ram ? *shared.ram : context.machine.disk,
               context.machine.entropy, context.machine.mailbox,
               context.machine.pool,    context.machine.memory},
      slot_(context.slot),
      policies_(shared.options.policies) {
  if (machine_.shard.index() == 0) {
    std::uint64_t seed = 0;
    machine_.entropy.fill(std::as_writable_bytes(std::span(&seed, 1)));
    shared_.finders = std::make_unique<Finders>(machine_.shard, machine_.mailbox, policies_.finder, seed);
  }
  finder_ = std::make_unique<Finder>(*shared_.finders, machine_.shard, machine_.mailbox, policies_.finder,
                                     *this, shared_.options.ledger.key->public_key());
}
IndexShard::~IndexShard() {
  if (publisher_) shared_.made_publisher.store(nullptr);
}

// Shard 0 makes the shared state and is the home.
Task<Result<>> IndexShard::start(Call call) {
  const bool home = machine_.shard.index() == 0;
  if (home) {
    shared_.ledger = std::make_unique<Ledger>(shared_.options.ledger, shared_.kv);
    shared_.made_ledger.store(shared_.ledger.get(), std::memory_order_release);
    CO_TRY_VOID(co_await shared_.ledger->open(call, machine_, context_.log));
    shared_.providers =
        std::make_unique<ProviderTable>(shared_.options.providers, shared_.options.announced_max, shared_.kv);
    CO_TRY_VOID(co_await shared_.providers->open(call, machine_, context_.log));
  }
  port_ = shared_.ledger->make_port(machine_);
  providers_ = shared_.providers->make_port(machine_);
  CO_TRY_VOID(co_await start_dht(call));
  CO_TRY_VOID(context_.tasks.start("flights", [this](Call c) { return finder_->run(c); }));
  if (home) {
    Home& tended = shared_.ledger->home();
    CO_TRY_VOID(context_.tasks.start("committer", [&tended](Call c) { return tended.committer().run(c); }));
    CO_TRY_VOID(context_.tasks.start("tender", [&tended](Call c) { return tended.tend(c); }));
    ProviderTable& table = *shared_.providers;
    Finders& finders = *shared_.finders;
    CO_TRY_VOID(context_.tasks.start("keeper", [&table](Call c) { return table.keep(c); }));
    CO_TRY_VOID(context_.tasks.start("cache-janitor", [&finders](Call c) { return finders.cache.run(c); }));
    CO_TRY_VOID(
        context_.tasks.start("breaker-janitor", [&finders](Call c) { return finders.breakers.run(c); }));
    context_.health.set("store", true);
    CO_TRY_VOID(context_.tasks.start("gates", [this](Call c) { return watch_gates(c); }));
  }
  co_return Result<>{};
}

Task<Result<>> IndexShard::start_dht(Call call) {
  finder_->set_targets([this](const Members& members) { return make_targets(members); });
  if (machine_.shard.index() != 0) co_return Result<>{};
  serve::Peer* const registry = context_.peers.find("registry");
  Members alone;
  alone.known = registry == nullptr;
  if (shared_.options.dht.mode == io::DhtMode::local)
    CO_TRY_VOID(co_await open_dht(call, local_network, alone));
  shared_.finders->set_members(std::make_shared<const Members>(std::move(alone)));
  // A registry of this process answers only once all of its services have started.
  if (registry != nullptr && !registry->is_inside())
    (void)co_await take_newest(call.within(registry_patience), *registry);
  co_return context_.tasks.start("follower", [this](Call c) { return follow_registry(c); });
}

// On the home shard, once.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): `members` is the caller's
Task<Result<>> IndexShard::open_dht(Call call, std::uint32_t network, Members& members) {
  io::DhtOptions options = shared_.options.dht;
  options.network = network;
  options.peers = co_await read_dht_peers(call, machine_, shared_.options.dht_peers);
  CO_TRY(shared_.dht_node, co_await shared_.dht.open(call, machine_, std::move(options)));
  members.dht = shared_.dht_node;
  members.network = network;
  dht_ = shared_.dht_node->make_port(machine_);
  announced_ = shared_.providers->make_port(machine_);
  PublishPolicy policy = shared_.options.publish;
  policy.network = network;
  publisher_ = std::make_unique<Publisher>(machine_.shard, *dht_, *announced_, policy);
  shared_.providers->on_address([this](const Address& address) { publisher_->note(address); });
  shared_.ledger->on_named([this](const Address& address) { publisher_->note_named(address); });
  shared_.made_publisher.store(publisher_.get(), std::memory_order_release);
  CO_TRY_VOID(context_.tasks.start("publisher", [this](Call c) { return publish(c); }));
  co_return context_.tasks.start("peer-keeper", [this](Call c) { return keep_peers(c); });
}

Task<> IndexShard::keep_peers(Call call) {
  while (co_await sleep_for(call, peers_period))
    co_await write_dht_peers(call, machine_, *dht_, shared_.options.dht_peers);
}

// The DHT first: it is one target however many nodes there are.
Targets IndexShard::make_targets(const Members& members) {
  Targets out;
  if (members.dht && !dht_) dht_ = members.dht->make_port(machine_);
  if (dht_)
    out.push_back(std::make_shared<DhtTarget>(machine_.shard, *dht_, members.network,
                                              shared_.options.publish.reach, shared_.dht_refused));
  for (const IndexNode& node : members.index_nodes)
    if (!node.at.tls) out.push_back(std::make_shared<NodeTarget>(machine_, node, nullptr));
  return out;
}

Task<> IndexShard::publish(Call call) {
  std::string after;
  for (std::size_t told = 0; told < shared_.options.publish.keys_most;) {
    const auto page = co_await port_->list(call, "", after, 256);
    if (!page) break;
    for (const ListedName& one : page->names) publisher_->note_named(*one.state.manifest);
    told += page->names.size();
    if (!page->next) break;
    after = *page->next;
  }
  co_await publisher_->run(call);
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the peer outlives the call
Task<Result<>> IndexShard::take_newest(Call call, serve::Peer& registry) {
  CO_TRY(const auto newest, co_await read_newest_set(call, registry, version_));
  if (!newest) co_return Result<>{};
  Members members = Members::read(newest->set, shared_.options.ledger.key->public_key());
  const MembersPtr before = shared_.finders->members();
  members.dht = before->dht;
  members.network = before->network;
  // Who may change which names is in force whatever becomes of the DHT.
  shared_.finders->set_members(std::make_shared<const Members>(members));
  if (!members.dht) {
    CO_TRY(const std::uint32_t network, co_await read_network(call, registry));
    CO_TRY_VOID(co_await open_dht(call, network, members));
    shared_.finders->set_members(std::make_shared<const Members>(std::move(members)));
  }
  version_ = newest->version;
  show_writes();
  co_return Result<>{};
}

Task<> IndexShard::follow_registry(Call call) {
  serve::Peer* const registry = context_.peers.find("registry");
  if (registry == nullptr) {
    context_.log.info("no registry is known: every name is this node's own", {{"key", "peers.registry"}});
    (void)co_await sleep_until(call, Instant::never());
    co_return;
  }
  Broadcast<serve::Event>::Receiver events = context_.bus.events.subscribe();
  observe::LogEvery told(Duration::seconds(60));
  const Instant begun = machine_.shard.now();
  while (!call.stopped()) {
    const Result<> newest = co_await take_newest(call.within(registry_patience), *registry);
    const bool known = shared_.finders->members()->known;
    // In its first moment the process's own registry does not answer yet.
    const bool is_early = !known && registry->is_inside() && machine_.shard.now() - begun < registry_patience;
    if (!newest && !call.stopped() && !is_early) {
      if (auto held = told.due(machine_.shard.now()))
        context_.log.warn(
            "the registry was not read, or the DHT not joined: what was known before is in force",
            {{"why", newest.error().context}, {"suppressed", *held}});
    }
    const Instant next = machine_.shard.now() + (newest     ? registry_period
                                                 : is_early ? registry_soon
                                                            : registry_retry);
    // Another service of this process tells of a new version at once.
    while (machine_.shard.now() < next && !call.stopped()) {
      const auto event = co_await events.recv(call.by(next));
      if (event && event->kind == serve::Event::Kind::registry_updated) break;
      if (!event && event.error().code != ErrorCode::lagged) break;
    }
  }
}

Task<> IndexShard::stop(Call call) {
  if (publisher_) {
    shared_.made_publisher.store(nullptr);
    publisher_.reset();
  }
  announced_.reset();
  finder_->set_targets({});
  if (machine_.shard.index() == 0 && dht_)
    co_await write_dht_peers(call, machine_, *dht_, shared_.options.dht_peers);
  dht_.reset();
  if (machine_.shard.index() == 0 && shared_.dht_node)
    if (auto closed = co_await shared_.dht_node->close(call, machine_); !closed)
      context_.log.warn("the DHT's node did not close in time", {{"why", closed.error().context}});
  port_.reset();
  providers_.reset();
  if (machine_.shard.index() != 0 || !shared_.providers) co_return;
  if (auto closed = co_await shared_.providers->close(call); !closed)
    context_.log.warn("the table of providers did not close cleanly", {{"why", closed.error().context}});
  if (auto closed = co_await shared_.ledger->close(call); !closed)
    context_.log.warn("the log did not close cleanly", {{"why", closed.error().context}});
}

void IndexShard::apply(const config::Snapshot& snapshot) {
  policies_ = read_policies(snapshot, shared_.keys);
  finder_->set_policy(policies_.finder);
  if (machine_.shard.index() != 0) return;
  shared_.finders->cache.set_policy(policies_.finder.cache);
  shared_.finders->breakers.set_rules(policies_.finder.breakers);
}

// The tables count what was lost; the metric grows by what is new of it.
void IndexShard::count_lost(std::string_view queue, std::uint64_t lost, std::uint64_t& counted) {
  if (lost > counted) context_.metrics.count_dropped(queue, slot_, lost - counted);
  counted = lost;
}

void IndexShard::ended(Duration took) noexcept { shared_.metrics.lookups.observe(slot_, took); }
void IndexShard::retried(const Target&) noexcept {
  context_.metrics.backoff_retries.at(serve::Repeated::dht).add(slot_);
}
void IndexShard::late(const Target&) noexcept {
  context_.metrics.io_timeouts.at(serve::IoOp::rpc).add(slot_);
}

// Names are changed once it is known whose they are.
void IndexShard::show_writes() {
  context_.health.set("writes", shared_.ledger->writable() && shared_.finders->members()->known);
}

Task<> IndexShard::watch_gates(Call call) {
  Ledger& ledger = *shared_.ledger;
  do {
    context_.health.set("store", !ledger.status().index_damaged);
    show_writes();
    bool ready = false;
    if (dht_) {
      const auto status = co_await dht_->status(call.within(Duration::seconds(1)));
      ready = status && status->ready;
    }
    context_.health.set("dht", ready);
    context_.metrics.show_depth("changes", slot_, ledger.changes().taken());
    context_.metrics.show_depth("announced", slot_, shared_.providers->announced().taken());
    context_.metrics.show_depth("learned", slot_, shared_.finders->cache.waiting());
    context_.metrics.show_depth("outcomes", slot_, shared_.finders->breakers.waiting());
    count_lost("learned", shared_.finders->cache.lost(), learned_lost_);
    count_lost("outcomes", shared_.finders->breakers.lost(), outcomes_lost_);
  } while (co_await sleep_for(call, Duration::millis(100)));
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request's state outlives it
Task<Result<>> IndexShard::take_body(Call call, Request& request, Incoming& incoming, std::size_t most) {
  most = std::min<std::size_t>(most, context_.settings.max_body);
  const http::RequestHead& head = request.head();
  const bool plain =
      head.body == http::BodyKind::length && !head.fields.has(http::FieldName::content_encoding);
  const std::size_t wanted = plain ? std::min<std::uint64_t>(most, head.content_length) : most;
  const store::Taker taker{request.share, request.contested};
  if (!shared_.ingest.try_take(wanted, taker))
    co_return fail(ErrorCode::busy, "too many bodies are on their way in");
  incoming.bytes = store::BudgetHold(shared_.ingest, wanted, taker.slot);
  serve::Body body(request, machine_.slab, context_.settings.decode);
  CO_TRY(incoming.document, co_await body.read_all(call, most));
  co_return Result<>{};
}

std::unexpected<Error> IndexShard::turned_away(const Error& error) {
  if (error.code == ErrorCode::busy && std::string_view(error.context) == changes_full)
    context_.metrics.count_dropped("changes", slot_);
  return fail(error);
}

Result<> IndexShard::answer_malformed(Request& request, const Error& error, const std::string& why) {
  if (error.code != ErrorCode::malformed || why.empty()) return fail(error);
  std::string details;
  codec::JsonWriter json(details);
  json.begin_object().field("why", why).end_object().finish();
  serve::answer_error(request, error, details);
  return {};
}

http::FieldLines IndexShard::freshness() const noexcept {
  static constexpr http::FieldLines shared = "Cache-Control: public, max-age=5\r\n",
                                    own = "Cache-Control: private, max-age=5\r\n";
  return context_.settings.reads_need_capability ? own : shared;
}

namespace {

class IndexService final : public serve::Service {
 public:
  IndexService(Options options, store::KvMaker& kv, io::DhtMaker& dht, Keys keys)
      : shared_{.options = std::move(options),
                .keys = keys,
                .kv = kv,
                .dht = dht,
                .metrics = {},
                .ram = {},
                .ledger = {},
                .providers = {},
                .finders = {},
                .dht_node = {},
                .dht_refused = {}} {
    if (shared_.options.amnesia) shared_.ram = std::make_unique<io::RamDisk>(ram_bytes);
  }

  const ServiceDeclaration& declaration() const override { return index::declaration; }
  std::span<const serve::RouteSpec> routes() const override { return IndexShard::routes(); }
  std::vector<serve::GateDeclaration> gates() const override {
    return {std::begin(index::gates), std::end(index::gates)};
  }
  std::unique_ptr<serve::ServiceShard> make_shard(serve::ShardContext context) override {
    return std::make_unique<IndexShard>(shared_, context);
  }
  std::string trouble() const override {
    return shared_.options.amnesia ? "" : shared_.options.ledger.directory;
  }
  void declare_metrics(observe::Registry& registry) override {
    shared_.metrics.declare(registry);
    const auto gauge = [&](const char* name, const char* help, auto read) {
      registry.observed_gauge(name, help, reader(read));
    };
    gauge("index_names", "Names that lead somewhere.", [](Status& s) { return s.names.load(); });
    gauge("index_changes", "Changes of names that are kept.", [](Status& s) { return s.changes.load(); });
    gauge("index_manifests", "Manifests that are kept.", [](Status& s) { return s.manifests.load(); });
    gauge("index_log_bytes", "Bytes of the log.", [](Status& s) { return s.log_bytes.load(); });
    gauge("index_log_segments", "Segments of the log.", [](Status& s) { return s.segments.load(); });
    gauge("index_log_damaged", "Places of the log that are not what was written.",
          [](Status& s) { return s.damaged.load(); });
    const auto published = [&](const char* name, const char* help, auto read) {
      registry.observed_gauge(name, help, [this, read] {
        auto* publisher = shared_.made_publisher.load(std::memory_order_acquire);
        return publisher != nullptr ? static_cast<double>(read(publisher->status())) : 0.0;
      });
    };
    published("index_dht_covered_keys", "Addresses that are kept in the DHT.",
              [](PublishStatus& s) { return s.covered.load(); });
    published("index_dht_uncovered_keys", "Addresses that were announced and are not kept in the DHT.",
              [](PublishStatus& s) { return s.uncovered.load(); });
    published("index_dht_put_lag_seconds", "How long the oldest put waits beyond its time.",
              [](PublishStatus& s) { return static_cast<double>(s.lag.load()) / 1e9; });
    const auto puts = registry.observed_counters(
        {"index_dht_puts_total", "Addresses put into the DHT.", {{"result", {"done", "failed"}}}});
    for (const bool done : {true, false})
      puts.bind(
          [this, done] {
            auto* publisher = shared_.made_publisher.load(std::memory_order_acquire);
            if (publisher == nullptr) return 0.0;
            return static_cast<double>(done ? publisher->status().done : publisher->status().failed);
          },
          done ? 0 : 1);
    const auto refused = registry.observed_counters({"index_dht_values_refused_total",
                                                     "Values of the DHT that were not taken.",
                                                     {{"reason", {"forged", "foreign"}}}});
    refused.bind([this] { return static_cast<double>(shared_.dht_refused.forged); }, 0);
    refused.bind([this] { return static_cast<double>(shared_.dht_refused.foreign); }, 1);
    gauge("index_replayed_records", "Records that the start took in from the log.",
          [](Status& s) { return s.replayed.load(); });
  }

 private:
  template <class F>
  std::function<double()> reader(F read) {
    return [this, read] {
      auto* ledger = shared_.made_ledger.load(std::memory_order_acquire);
      return ledger != nullptr ? static_cast<double>(read(ledger->status())) : 0.0;
    };
  }

  Shared shared_;
};

}  // namespace

namespace {

std::vector<Duration> durations(const std::vector<std::string>& texts) {
  std::vector<Duration> out;
  for (const std::string& text : texts) out.push_back(parse_duration(text).value_or(Duration{}));
  return out;
}

}  // namespace

io::DhtOptions read_dht_options(const config::Snapshot& snapshot, const Keys& keys) {
  io::DhtOptions options;
  options.mode = snapshot.get(keys.dht.mode);
  const std::string& bind = snapshot.get(keys.dht.bind);
  const auto server = parse_endpoint(snapshot.get(keys.server.bind));
  options.bind.host = !bind.empty() ? bind : server ? server->host : options.bind.host;
  options.bind.port = static_cast<std::uint16_t>(snapshot.get(keys.dht.port));
  for (const std::string& text : snapshot.get(keys.dht.bootstrap))
    if (auto at = parse_endpoint(text)) options.bootstrap.push_back(std::move(*at));
  return options;
}

Policies read_policies(const config::Snapshot& snapshot, const Keys& keys) {
  Policies out;
  LookupPolicy& lookup = out.finder.lookup;
  lookup.alpha = static_cast<std::size_t>(snapshot.get(keys.lookup.alpha));
  lookup.beta = static_cast<std::size_t>(snapshot.get(keys.lookup.beta));
  lookup.retries = static_cast<unsigned>(snapshot.get(keys.lookup.max_retries));
  lookup.hedge = snapshot.get(keys.lookup.hedge);
  lookup.deadline = snapshot.get(keys.lookup.deadline);
  CachePolicy& cache = out.finder.cache;
  cache.entries = static_cast<std::size_t>(snapshot.get(keys.cache.entries));
  cache.ttl = snapshot.get(keys.cache.ttl);
  cache.neg_ttl = snapshot.get(keys.cache.neg_ttl);
  cache.purge_interval =
      snapshot.get(keys.server.amnesia) ? snapshot.get(keys.cache.purge_interval) : Duration{};
  BreakerRules& breakers = out.finder.breakers;
  breakers.window = snapshot.get(keys.breaker.error_window);
  breakers.trip_threshold = snapshot.get(keys.breaker.trip_threshold);
  breakers.cooldown = snapshot.get(keys.breaker.cooldown);
  breakers.probes = static_cast<std::uint32_t>(snapshot.get(keys.breaker.half_open_probes));
  out.rank.region_bias = snapshot.get(keys.rank.region_bias);
  out.rank.freshness_half_life = snapshot.get(keys.rank.freshness_half_life);
  out.rank.latency_bounds = durations(snapshot.get(keys.rank.latency_buckets));
  out.rank.allowed_regions = snapshot.get(keys.rank.allowed_regions);
  for (const std::string& text : snapshot.get(keys.rank.provider_denylist)) {
    crypto::Ed25519PublicKey key{};
    if (parse_hex_to(text, key)) out.rank.provider_denylist.push_back(key);
  }
  return out;
}

Options read_options(const config::Snapshot& snapshot, const Keys& keys, const std::string& data) {
  Options options;
  options.amnesia = snapshot.get(keys.server.amnesia);
  LedgerOptions& ledger = options.ledger;
  ledger.directory = snapshot.get(keys.db_path);
  if (ledger.directory.empty()) ledger.directory = data;
  options.providers = ledger.directory + "/providers";
  options.announced_max = serve::queue_capacity(declaration, snapshot, keys.server, "announced");
  options.policies = read_policies(snapshot, keys);
  options.dht = read_dht_options(snapshot, keys);
  options.dht_peers = ledger.directory + "/dht.peers";
  options.publish.reach = {options.dht.mode, snapshot.get(keys.dht.allow_loopback)};
  options.publish.keys_most = static_cast<std::size_t>(snapshot.get(keys.announce_most));
  ledger.ahead = write_ahead;
  ledger.changes_max = serve::queue_capacity(declaration, snapshot, keys.server, "changes");
  if (options.amnesia) {
    ledger.segment_size = 16u << 20;
    ledger.reserve = ledger.ahead = 0;
  }
  return options;
}

std::unique_ptr<serve::Service> make_service(Options options, store::KvMaker& kv, io::DhtMaker& dht,
                                             Keys keys) {
  return std::make_unique<IndexService>(std::move(options), kv, dht, keys);
}

}  // namespace cairn::index
