#include "serve/host.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>

#include "config/problem.h"
#include "config/reload.h"
#include "crypto/secret_bytes.h"
#include "io/entropy.h"
#include "io/process.h"
#include "io/small_file.h"
#include "observe/log_thread.h"
#include "runtime/wait.h"
#include "serve/lifecycle.h"
#include "serve/reloads.h"
#include "serve/shared_rows.h"
#include "serve/sizes.h"
#include "serve/tls.h"

namespace cairn::serve {
namespace {

// A revocation by another process is to hold within 5 s.
constexpr Duration keys_period = Duration::seconds(1);
// How often a service's state is checked for keys that it revokes, if it has sent no event.
constexpr Duration revocation_period = Duration::seconds(2);
constexpr Duration revoke_patience = Duration::seconds(2);
// A certificate that ends within this time is worth a warning.
constexpr Duration certificate_notice = Duration::seconds(21 * 86'400);
// How often a request that revokes a key checks whether every shard knows.
constexpr Duration spread_period = Duration::millis(1);

// One service at one time: its declaration, its configuration and the objects made from them.
struct Hosted {
  HostedService spec;
  config::SnapshotPtr snapshot;
  std::unique_ptr<Service> service;
  std::shared_ptr<const io::TlsServer> tls;        // null: none
  std::shared_ptr<const io::TlsClient> peers_tls;  // for its peers in other processes
  std::unique_ptr<Node> node;
  std::string address, socket;
};

struct Loaded {
  config::SnapshotPtr process;  // for a service that runs alone: its own
  std::vector<config::SnapshotPtr> services;
  std::vector<std::shared_ptr<const io::TlsServer>> tls;  // of each service; null: it speaks none
};

// The result of reading a configuration, on its way from the pool.
struct Outcome {
  std::expected<Loaded, std::string> loaded;
};

// The sections of a configuration, and which snapshot belongs to which service.
class Sections {
 public:
  Sections(std::span<const HostedService> services, const HostOptions& options)
      : shared_(options.process_schema != nullptr) {
    CHECK(shared_ || services.size() == 1);
    if (shared_) sections_.push_back({{}, options.process_schema});
    for (const HostedService& each : services) {
      sections_.push_back({each.prefix, each.schema});
      keys_.push_back(each.keys);
      tickets_.push_back(std::make_shared<io::TlsTicketKeys>());
    }
  }
  const TicketKeys& tickets() const noexcept { return tickets_; }
  std::expected<Loaded, std::string> load(const HostOptions& options, Reading reading,
                                          std::uint64_t version) const {
    auto sources = options.sources(reading);
    if (!sources) return std::unexpected(sources.error());
    auto snapshots = config::load(sections_, *sources, version);
    if (!snapshots) return std::unexpected(config::format_problems(snapshots.error()));
    Loaded loaded{snapshots->front(), std::move(*snapshots), {}};
    if (shared_) loaded.services.erase(loaded.services.begin());
    for (std::size_t i = 0; i < loaded.services.size(); ++i) {
      const std::string prefix = sections_[i + (shared_ ? 1 : 0)].prefix;
      auto tls = load_tls_server(*loaded.services[i], keys_[i], prefix, tickets_[i]);
      if (!tls) return std::unexpected(tls.error());
      loaded.tls.push_back(std::move(*tls));
    }
    return loaded;
  }

 private:
  bool shared_;
  std::vector<config::Section> sections_;
  std::vector<config::ServerKeys> keys_;  // of each service
  TicketKeys tickets_;                    // the same, for as long as the process runs
};

std::string cannot_listen(const Endpoint& asked, const Error& why) {
  return fmt::format("cannot listen on {}: {}", format_endpoint(asked), why.context);
}

// The declarations of the tasks that run beside the services.
constexpr auto rows_of_all = shared_tasks({});

class Host {
 public:
  Host(Sections sections, std::vector<Hosted> hosted, config::SnapshotPtr process, config::ProcessKeys keys,
       const HostOptions& options, RootKeys* root_keys, bool keeps_keys)
      : sections_(std::move(sections)),
        options_(options),
        root_keys_(root_keys),
        keeps_keys_(keeps_keys),
        keys_(keys),
        snapshot_(std::move(process)),
        log_({.slots = shard_count() + 1, .level = log_level(), .format = log_format()},
             [] { return io::wall_clock(); }),
        process_(shard_count(), configured_lanes(*snapshot_, keys_)),
        writer_(log_, observe::fd_sink(2)),
        hosted_(std::move(hosted)),
        logger_(log_, 0, hosted_.size() == 1 ? hosted_.front().service->declaration().name : "host"),
        last_words_(log_, process_.shards(), "host"),
        events_(*this),
        control_(process_.machine(0).shard),
        reloads_(process_.machine(0).shard, reloads_capacity, OverflowPolicy::drop_oldest),
        watching_(process_.machine(0).shard, rows_of_all, &events_) {
    for (Hosted& each : hosted_)
      each.node = std::make_unique<Node>(*each.service, each.snapshot, each.spec.keys, log_, options_.build,
                                         process_.shards(), each.spec.workers, access_of(each.spec), &bus_);
    std::vector<const ServiceDeclaration*> declared;
    for (const Hosted& each : hosted_) declared.push_back(&each.service->declaration());
    CHECK(find_call_problems(declared).empty());
  }

  int run() {
    if (const auto problem = check_descriptors(snapshots())) {
      options_.complain(*problem);
      return exit_bad_config;
    }
    writer_.start();
    for (Hosted& each : hosted_) {
      for (unsigned i = 0; i < process_.shards(); ++i) {
        each.node->attach(process_.machine(i), targets_of(each, i));
        each.node->set_tls(i, each.tls);
      }
      if (auto bound = bind(each); !bound) {
        options_.complain(bound.error());
        return exit_failed;
      }
    }
    tell_listening();
    std::vector<Node*> nodes;
    for (Hosted& each : hosted_) {
      declare_process_metrics(each.node->series());
      for (unsigned i = 0; i < process_.shards(); ++i) each.node->start(i);
      each.node->health().set("config", true);
      if (each.spec.ready_after && options_.afterwards) each.node->health().set("afterwards", false);
      nodes.push_back(each.node.get());
    }
    lifecycle_ = std::make_unique<Lifecycle>(
        std::move(nodes), LifecycleEvents{.serving = [this] { tell_ready(); },
                                          .ending = [this](Duration within) { begin_end(within); },
                                          .drained = {}});
    note_patience();
    control_.spawn("life", live_or_leave(control_.call()));
    start_beside("reloader", [this](Call call) { return reload_loop(call); });
    if (root_keys_ != nullptr) {
      start_beside("watch-keys", [this](Call call) { return watch_keys(call); });
      if (keeps_keys_)
        start_beside("watch-revocations", [this](Call call) { return watch_revocations(call); });
    }
    if (!options_.chaos.empty()) {
      logger_.warn("tasks may be made to fail", {{"file", options_.chaos}});
      start_beside("chaos", [this](Call call) { return watch_chaos(call); });
    }
    process_.run(
        [this](io::Signal signal, Instant came) { obey(signal, came); },
        {.patience = [this] { return Duration::nanos(patience_ns_.load(std::memory_order_relaxed)); },
         .tell = [this](const std::vector<std::string>& hanging) { tell_hanging(hanging); },
         .told = [this] { return log_.quiet(); },
         .code = exit_aborted});
    if (stuck_) {
      writer_.stop();
      io::leave_now(exit_);
    }
    process_.finish();  // before the services are destroyed, because jobs and mail may still use them
    return exit_;
  }

 private:
  unsigned shard_count() const {
    const auto asked = static_cast<unsigned>(snapshot_->get(keys_.shards));
    return asked != 0 ? asked : io::core_count();
  }
  observe::Level log_level() const { return static_cast<observe::Level>(snapshot_->get(keys_.log_level)); }
  observe::LogFormat log_format() const {
    return static_cast<observe::LogFormat>(snapshot_->get(keys_.log_format));
  }
  Access access_of(const HostedService& spec) {
    if (root_keys_ == nullptr) return {.open = spec.open_access};
    return {.open = false, .keys = root_keys_->current(), .revoke = [this](Call call, std::string id) {
              return revoke(call, std::move(id));
            }};
  }

  // The services that `caller` calls: those before it in the list are in this process, the others are where
  // its configuration says.
  std::vector<PeerTarget> targets_of(const Hosted& caller, unsigned shard) {
    std::vector<PeerTarget> targets;
    for (const std::string_view name : caller.service->declaration().calls) {
      if (name.empty()) continue;
      const auto callee = std::ranges::find(
          hosted_, name, [](const Hosted& each) { return each.service->declaration().name; });
      if (callee != hosted_.end()) {
        targets.push_back({std::string(name), &callee->node->answerer(shard)});
        continue;
      }
      for (const auto& [peer, key] : caller.spec.peers)
        if (const auto endpoint = parse_peer(caller.snapshot->get(key)); peer == name && endpoint)
          targets.push_back({peer, nullptr, *endpoint, caller.peers_tls});
    }
    return targets;
  }

  // Before the shards run.
  void start_beside(const char* task, Supervisor::Factory factory) {
    CHECK(watching_.start(task, std::move(factory)).has_value());
  }

  std::vector<config::SnapshotPtr> snapshots() const {
    std::vector<config::SnapshotPtr> all;
    for (const Hosted& each : hosted_) all.push_back(each.snapshot);
    return all;
  }

  // The problem with these snapshots, one for each service; checked at start and at every reload.
  std::optional<std::string> check_descriptors(std::span<const config::SnapshotPtr> snapshots) const {
    const std::uint64_t limit = io::Process::descriptor_limit();
    std::uint64_t wanted = 0;
    std::string keys;
    for (std::size_t i = 0; i < hosted_.size(); ++i) {
      const HostedService& spec = hosted_[i].spec;
      wanted += static_cast<std::uint64_t>(snapshots[i]->get(spec.keys.max_conns));
      keys += (keys.empty() ? "" : " + ") + config::full_name(spec.prefix, "server.max_conns");
    }
    if (wanted <= limit / 2) return std::nullopt;
    return fmt::format("{} = {}: must be at most half of this system's limit of open files ({})", keys,
                       wanted, limit);
  }

  // If port 0 was configured, shard 0 learns the real port; the other shards share it by SO_REUSEPORT.
  std::expected<void, std::string> bind(Hosted& hosted) {
    const auto listen = [&](unsigned shard, const Endpoint& endpoint,
                            bool health_only) -> std::expected<std::string, std::string> {
      auto bound = hosted.node->listen(shard, endpoint, health_only);
      if (bound) return *bound;
      return std::unexpected(fmt::format("cannot listen on {}: {} ({})", format_endpoint(endpoint),
                                         bound.error().context, name_of(bound.error().code)));
    };
    const config::Snapshot& snapshot = *hosted.snapshot;
    const config::ServerKeys& keys = hosted.spec.keys;
    const Endpoint asked = *parse_endpoint(snapshot.get(keys.bind));
    if (Result<> free = io::probe_bind(asked); !free)
      return std::unexpected(cannot_listen(asked, free.error()));
    auto bound = listen(0, asked, false);
    if (bound) hosted.address = *bound;
    for (unsigned i = 1; bound && i < process_.shards(); ++i)
      bound = listen(i, *parse_endpoint(hosted.address), false);
    if (const std::string& apart = snapshot.get(keys.metrics_addr); bound && !apart.empty())
      bound = listen(0, *parse_endpoint(apart), true);
    // A Unix socket is a file, so an amnesic service has none.
    const bool files = !snapshot.get(keys.amnesia);
    if (const std::string& path = snapshot.get(keys.uds_path); bound && files && !path.empty())
      if (bound = listen(0, Endpoint{.host = {}, .port = 0, .path = path}, false); bound)
        hosted.socket = path;
    if (!bound) return std::unexpected(bound.error());
    return {};
  }

  void declare_process_metrics(observe::Registry& registry) {
    registry.observed_counter("shard_stalls_total", "Turns of a shard that ran tasks for more than 10 ms.",
                              [this] {
                                std::uint64_t sum = 0;
                                for (unsigned i = 0; i < process_.shards(); ++i)
                                  sum += process_.loop(i).stalls();
                                return static_cast<double>(sum);
                              });
    registry.observed_gauge("io_orphaned", "Pool operations whose waiter has left.",
                            [this] { return static_cast<double>(process_.orphaned()); });
  }

  std::vector<Served> served() const {
    std::vector<Served> all;
    for (const Hosted& each : hosted_)
      all.push_back({each.node->name(), each.address, each.socket, each.tls != nullptr});
    return all;
  }
  void tell_listening() {
    if (options_.listening) options_.listening(served());
  }

  void tell_ready() {
    std::vector<Served> served = this->served();
    options_.ready(served);
    for (const Hosted& each : hosted_) tell_certificate(each);
    if (options_.afterwards && !lifecycle_->ending())
      (void)watching_.start("afterwards", [this, served](Call call) { return run_afterwards(call, served); });
  }

  // If it throws, the supervisor runs it again.
  Task<> run_afterwards(Call call, std::vector<Served> served) {
    co_await options_.afterwards(call, &process_.machine(0), std::move(served));
    tell_settled();
  }
  void tell_settled() noexcept {
    for (Hosted& each : hosted_) each.node->health().set("afterwards", true);
  }

  // Tasks beside the services are restarted like the services' own. One that stays down makes the services
  // not ready.
  class Events : public TaskEvents {
   public:
    explicit Events(Host& host) noexcept : host_(host) {}
    void spawned(const TaskDeclaration& task) noexcept override {
      count(&Metrics::tasks_spawned, task);
      count_running(task, 1);
    }
    void ended(const TaskDeclaration& task) noexcept override { count_running(task, -1); }
    void cancelled(const TaskDeclaration& task) noexcept override { count(&Metrics::tasks_canceled, task); }
    void aborted(const TaskDeclaration& task) noexcept override { count(&Metrics::tasks_aborted, task); }
    void panicked(const TaskDeclaration& task, const char* what) noexcept override {
      host_.logger_.error("a task ended with an exception", {{"task", task.name}, {"what", what}});
      count(&Metrics::tasks_panicked, task);
      for (Hosted& each : host_.hosted_) each.node->metrics().backoff_retries.at(Repeated::restart).add(0);
    }
    void unhealthy(const TaskDeclaration& task) noexcept override {
      host_.logger_.error("a task stays down", {{"task", task.name}});
      for (Hosted& each : host_.hosted_) each.node->health().task_stays_down(task.criticality);
      if (task.name == "afterwards") host_.tell_settled();
    }

   private:
    void count(observe::CounterFamily Metrics::* family, const TaskDeclaration& task) noexcept {
      for (Hosted& each : host_.hosted_) {
        Metrics& metrics = each.node->metrics();
        (metrics.*family).at(metrics.kind_index(task.kind)).add(0);
      }
    }
    void count_running(const TaskDeclaration& task, std::int64_t more) noexcept {
      for (Hosted& each : host_.hosted_) each.node->metrics().count_running(task.name, 0, more);
    }
    Host& host_;
  };

  // --- the end

  void obey(io::Signal signal, Instant came) {
    try {
      signal == io::Signal::reload ? ask_reload() : terminate(came);
    } catch (const std::exception& problem) {
      lose("a signal", problem.what());
    }
  }

  // The tasks beside the services read files, and tell services that are about to end. So these tasks end
  // first.
  void begin_end(Duration within) {
    process_.end_within(within);
    watching_.drain(StopReason::draining);
  }

  void terminate(Instant came) {
    if (lifecycle_->ending()) {
      logger_.warn("second signal: aborting");
      return lifecycle_->abort();
    }
    const Duration span = lifecycle_->drain_timeout();
    logger_.info("draining", {{"deadline_ms", span.to_millis()}});
    if (options_.listening) options_.listening({});
    // The time counts from the arrival of the signal, as in the watchdog.
    lifecycle_->end(std::max(Duration{}, came + span - current_shard()->now()));
  }

  // Sets how long the watchdog waits after a signal. Called again after each reload.
  void note_patience() noexcept {
    patience_ns_.store(lifecycle_->drain_timeout().ns, std::memory_order_relaxed);
  }

  // On the watchdog's thread.
  void tell_hanging(const std::vector<std::string>& hanging) const noexcept {
    for (const std::string& each : hanging) last_words_.error("hangs", {{"what", each}});
    last_words_.error("did not end in time and is left", {{"code", int{exit_aborted}}});
  }

  // Without this task of the host the process would serve on and never end.
  void lose(const char* task, const char* what) noexcept {
    logger_.error("the host is lost, the process leaves", {{"task", task}, {"what", what}});
    exit_ = exit_failed;
    stuck_ = true;
    process_.end_within({});
    process_.stop();
  }

  Task<> live_or_leave(Call call) {
    try {
      co_await live(call);
    } catch (const std::exception& problem) {
      lose("life", problem.what());
    } catch (...) {
      lose("life", "not a std::exception");
    }
  }

  // Everything between the first turn of shard 0 and the last.
  Task<> live(Call call) {
    auto outcome = co_await lifecycle_->run(call);
    (void)co_await watching_.join(call);
    CHECK(outcome.has_value());  // this task is never stopped
    for (const std::string& name : outcome->still_alive)
      logger_.error("a task outlived the abort", {{"task", name}});
    stuck_ = !outcome->still_alive.empty();  // the frames of these tasks cannot be destroyed
    if (outcome->failed != nullptr) {
      exit_ = exit_failed;
      const std::string where = outcome->failed->trouble();
      options_.complain(fmt::format("{} cannot start: {}{}{} ({})", outcome->failed->name(), where,
                                    where.empty() ? "" : ": ", outcome->failure.context,
                                    name_of(outcome->failure.code)));
    } else if (outcome->aborted > 0) {
      exit_ = exit_aborted;
    }
    logger_.info("drained", {{"aborted", outcome->aborted > 0}});
    process_.stop();
  }

  // --- the root keys

  // Runs on the shard of the request. Once it returns, every shard refuses the key's tokens. Cancel: partial
  // — the key is revoked, and the other shards learn it all the same.
  Task<Result<>> revoke(Call call, std::string id) {
    if (!keeps_keys_)
      co_return fail(ErrorCode::forbidden, "the keys are another process's: revoke them there", Side::client);
    struct Left {
      KeySnapshotPtr keys;
      Result<> told;
    };
    const unsigned here = current_shard()->index();
    auto left = co_await cairn::run(process_.pool(here), call, Lane::upkeep,
                                    [keys = root_keys_, tell = options_.revoked, id]() -> Result<Left> {
                                      std::array<std::byte, 40> entropy;
                                      io::KernelEntropy().fill(entropy);
                                      auto instead = crypto::make_root_key(entropy, io::wall_clock());
                                      crypto::wipe(entropy);
                                      TRY(KeySnapshotPtr snapshot, keys->revoke(id, std::move(instead)));
                                      Result<> told = tell ? tell(snapshot->ring) : Result<>{};
                                      return Left{std::move(snapshot), told};
                                    });
    if (!left) co_return fail(left.error());
    const observe::Logger logger(log_, here, "host");
    logger.warn("a capability key was revoked", {{"key", id}});
    if (!left->told)
      logger.error("the admin capability was not renewed",
                   {{"key", id}, {"why", left->told.error().context}});
    for (Hosted& each : hosted_) each.node->take_keys(here, left->keys);
    spread_keys(left->keys);
    while (!everywhere(left->keys->version))
      if (auto slept = co_await sleep_for(call, spread_period); !slept) co_return fail(slept.error());
    co_return Result<>{};
  }

  bool everywhere(std::uint64_t version) const noexcept {
    for (const Hosted& each : hosted_)
      for (unsigned i = 0; i < process_.shards(); ++i)
        if (each.node->keys_version(i) < version) return false;
    return true;
  }

  Task<> watch_keys(Call call) {
    RootKeys* keys = root_keys_;
    observe::LogEvery complaints(Duration::seconds(60));
    while (co_await sleep_for(call, keys_period)) {
      auto fresh =
          co_await cairn::run(process_.pool(0), call, Lane::upkeep, [keys] { return keys->refresh(); });
      if (fresh)
        spread_keys(*fresh);
      else if (!call.stopped())
        if (auto held = complaints.due(current_shard()->now()))
          logger_.error("the root keys cannot be read, those known stay in force",
                        {{"why", fresh.error().context}, {"held_back", *held}});
    }
  }

  // Revokes the keys that a service's own state revokes: at its start, and whenever that state has changed.
  Task<> watch_revocations(Call call) {
    Broadcast<Event>::Receiver receiver = bus_.events(0).subscribe();
    do {
      for (Hosted& each : hosted_)
        for (std::string& id : each.node->revoked_keys())
          if (is_in_force(id))
            if (Result<> done = co_await revoke(call.within(revoke_patience), std::move(id));
                !done && !call.stopped())
              logger_.error("a revoked key may still be in force", {{"why", done.error().context}});
    } while (co_await next_revocation(call, receiver));
  }
  // False: no more events will come.
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller waits
  Task<bool> next_revocation(Call call, Broadcast<Event>::Receiver& receiver) {
    // Most changes are announced by the event at once. The regular check finds those that were missed, and
    // tries again.
    const auto event =
        co_await next_of(call.within(revocation_period), receiver, Event::Kind::registry_updated);
    co_return !call.stopped() && (event || event.error().code != ErrorCode::closed);
  }
  bool is_in_force(std::string_view id) const {
    const KeySnapshotPtr keys = root_keys_->current();
    const crypto::RootKey* key = keys->ring.find(id);
    return key != nullptr && !key->revoked;
  }

  // From any shard. A shard whose mailbox is full learns the keys at the next look at the file.
  void spread_keys(const KeySnapshotPtr& keys) {
    for (Hosted& each : hosted_)
      for (unsigned i = 0; i < process_.shards(); ++i)
        if (each.node->keys_version(i) < keys->version)
          (void)process_.post(i, [node = each.node.get(), i, keys] { node->take_keys(i, keys); });
  }

  // --- tests of the whole process

  Task<> watch_chaos(Call call) {
    std::string last;
    while (co_await sleep_for(call, Duration::millis(20))) {
      auto text = co_await cairn::run(process_.pool(0), call, Lane::read,
                                      [path = options_.chaos] { return io::read_small_file(path, 256); });
      if (!text || *text == last || !text->ends_with('\n')) continue;
      last = *text;
      const std::size_t first = last.find(' '), second = last.find(' ', first + 1);
      if (second == std::string::npos) continue;
      fail_task(last.substr(first + 1, second - first - 1),
                last.substr(second + 1, last.size() - second - 2));
    }
  }

  void fail_task(const std::string& service, const std::string& task) {
    for (Hosted& each : hosted_)
      for (unsigned i = 0; each.node->name() == service && i < process_.shards(); ++i)
        (void)process_.post(i, [node = each.node.get(), i, task] { node->fail_task(i, task); });
    if (service == "host") watching_.fail_tasks(task, false);
  }

  // --- reload

  // A dropped request loses nothing: the reloader reads the newest configuration, for all requests at once.
  void ask_reload() {
    const std::uint64_t dropped = reloads_.dropped();
    (void)reloads_.try_send({});
    for (Hosted& each : hosted_)
      each.node->metrics().count_dropped("cfg_reload", 0, reloads_.dropped() - dropped);
    show_reloads();
  }
  void show_reloads() {
    for (Hosted& each : hosted_) each.node->metrics().show_depth("cfg_reload", 0, reloads_.depth());
  }

  // Reading a file may take long, so it does not happen on a shard.
  Task<> reload_loop(Call call) {
    while (co_await next_reload(call, &reloads_, &sections_.tickets())) {
      while (reloads_.try_recv()) {
      }
      show_reloads();
      auto outcome = co_await cairn::run(process_.pool(0), call, Lane::upkeep,
                                         [this, version = snapshot_->version() + 1] {
                                           return Outcome{sections_.load(options_, Reading::again, version)};
                                         });
      if (outcome)
        reload(outcome->loaded);
      else if (!call.stopped())
        refuse_reload(outcome.error().context);
    }
  }

  void reload(const std::expected<Loaded, std::string>& loaded) {
    if (!loaded) return refuse_reload(loaded.error());
    auto process = config::reload(*snapshot_, *loaded->process);
    if (!process) return refuse_reload(config::format_problems(process.error()));
    std::vector<config::Reloaded> merged;
    for (std::size_t i = 0; i < hosted_.size(); ++i) {
      auto next = config::reload(*hosted_[i].snapshot, *loaded->services[i]);
      if (!next) return refuse_reload(config::format_problems(next.error()));
      const std::string& asked = next->snapshot->get(hosted_[i].spec.keys.bind);
      if (asked != hosted_[i].snapshot->get(hosted_[i].spec.keys.bind) &&
          !io::probe_bind(*parse_endpoint(asked)))
        return refuse_reload("cannot listen on " + asked);
      merged.push_back(std::move(*next));
    }
    std::vector<config::SnapshotPtr> next;
    for (const config::Reloaded& each : merged) next.push_back(each.snapshot);
    if (const auto problem = check_descriptors(next)) return refuse_reload(*problem);
    snapshot_ = process->snapshot;
    log_.set_level(log_level());
    for (std::size_t i = 0; i < hosted_.size(); ++i) {
      // TLS itself is on or off until the next start.
      if (hosted_[i].tls && loaded->tls[i]) hosted_[i].tls = loaded->tls[i];
      apply(hosted_[i], merged[i]);
    }
    note_patience();
  }

  void apply(Hosted& hosted, const config::Reloaded& merged) {
    const auto bind = hosted.spec.keys.bind;
    if (merged.snapshot->get(bind) != hosted.snapshot->get(bind) && !rebind(hosted, *merged.snapshot)) return;
    for (std::size_t key : merged.changes.restart)
      logger_.warn(
          "takes effect at the next start",
          {{"key", config::full_name(hosted.spec.prefix, hosted.spec.schema->entries()[key].spec.name)}});
    Node& node = *hosted.node;
    node.metrics().config_reload.at(merged.changes.live.empty() ? 1 : 0).add(0);
    hosted.snapshot = merged.snapshot;
    node.apply_limits(*hosted.snapshot);
    for (unsigned i = 0; i < process_.shards(); ++i)
      if (!process_.post(i, [&node, i, snapshot = hosted.snapshot, tls = hosted.tls] {
            node.set_tls(i, tls);
            node.apply(i, snapshot);
          }))
        logger_.error("a shard's mailbox is full", {{"shard", i}});
    logger_.info("configuration reloaded", {{"service", node.name()},
                                            {"version", hosted.snapshot->version()},
                                            {"changed", merged.changes.live.size()}});
    tell_certificate(hosted);
  }

  void tell_certificate(const Hosted& hosted) {
    if (!hosted.tls) return;
    const WallTime ends = hosted.tls->ends();
    const bool soon = ends.ms - io::wall_clock().ms < certificate_notice.to_millis();
    logger_.record(soon ? observe::Level::warn : observe::Level::info,
                   soon ? "the certificate ends soon, or has ended: renew it, then send SIGHUP"
                        : "the certificate in use",
                   {{"service", hosted.node->name()}, {"ends", format_rfc3339(ends)}});
  }

  void refuse_reload(const std::string& why) {
    for (Hosted& each : hosted_) each.node->metrics().config_reload.at(2).add(0);
    logger_.error("configuration refused, the old one stays", {{"problems", why}});
  }

  // Shard 0 finds out whether the new address can be bound; the other shards follow.
  bool rebind(Hosted& hosted, const config::Snapshot& next) {
    const std::string& asked = next.get(hosted.spec.keys.bind);
    Node& node = *hosted.node;
    // When the old listener has closed, another process may take its address.
    const std::string old = std::exchange(hosted.address, {});
    tell_listening();
    auto bound = node.rebind(0, *parse_endpoint(asked));
    hosted.address = bound ? *bound : old;
    tell_listening();
    if (!bound) {
      node.metrics().config_reload.at(2).add(0);
      logger_.error("configuration refused, the old one stays", {{"problems", "cannot listen on " + asked}});
      return false;
    }
    for (unsigned i = 1; i < process_.shards(); ++i)
      if (!process_.post(i, [this, &node, i, endpoint = *parse_endpoint(hosted.address)] {
            if (!node.rebind(i, endpoint))
              observe::Logger(log_, i, "host").error("a shard could not follow to the new address");
          }))
        logger_.error("a shard's mailbox is full", {{"shard", i}});
    logger_.info("listening", {{"address", hosted.address}});
    return true;
  }

  Sections sections_;
  const HostOptions& options_;
  RootKeys* root_keys_;
  bool keeps_keys_;  // false: another process does, and only reads of them are ours
  config::ProcessKeys keys_;
  config::SnapshotPtr snapshot_;  // the snapshot that holds the process's own keys
  // Members are destroyed in reverse order: the services; the log's writer; the process, whose watchdog makes
  // sure that all of this ends; and the log last, because the watchdog writes to it.
  observe::Log log_;
  io::Process process_;
  ProcessBus bus_;
  observe::LogThread writer_;
  std::vector<Hosted> hosted_;
  observe::Logger logger_;
  observe::Logger last_words_;  // the watchdog's, with a slot of its own
  std::unique_ptr<Lifecycle> lifecycle_;
  Events events_;
  Scope control_;
  Mpsc<ReloadAsked> reloads_;
  Supervisor watching_;                       // the tasks beside the services
  std::atomic<std::int64_t> patience_ns_{0};  // publishes nothing else
  int exit_ = exit_ok;
  bool stuck_ = false;
};

}  // namespace

std::expected<config::File, std::string> read_config_file(const std::string& path, Reading reading) {
  constexpr std::size_t most = 256 << 10;
  const bool again = reading == Reading::again;
  auto text = again ? io::read_regular_file(path, most) : io::read_small_file(path, most);
  if (!text)
    return std::unexpected(fmt::format("{}: {}{}", path, text.error().context,
                                       again && text.error().code == ErrorCode::invalid
                                           ? "; a change of it takes effect at the next start"
                                           : ""));
  if (again && text->empty()) return std::unexpected(fmt::format("{}: is empty", path));
  return config::File{path, std::move(*text)};
}

int run_host(std::vector<HostedService> services, const HostOptions& options) {
  Sections sections(services, options);
  auto loaded = sections.load(options, Reading::first, 1);
  if (!loaded) {
    options.complain(loaded.error());
    return exit_bad_config;
  }
  for (std::size_t i = 0; options.first_start && i < services.size(); ++i) {
    const Endpoint asked = *parse_endpoint(loaded->services[i]->get(services[i].keys.bind));
    if (const Result<> free = io::probe_bind(asked); !free) {
      options.complain(cannot_listen(asked, free.error()));
      return exit_failed;
    }
  }
  RootKeys* root_keys = nullptr;
  if (options.root_keys) {
    std::vector<bool> amnesic;
    for (std::size_t i = 0; i < services.size(); ++i)
      amnesic.push_back(loaded->services[i]->get(services[i].keys.amnesia));
    auto opened = options.root_keys(amnesic);
    if (!opened) {
      options.complain(opened.error());
      return exit_failed;
    }
    root_keys = *opened;
  }
  std::unique_ptr<RootKeys> of_others;
  for (std::size_t i = 0; i < services.size(); ++i) {
    const auto named = services[i].root_keys_of_others;
    if (!named || loaded->services[i]->get(*named).empty()) continue;
    const std::string& path = loaded->services[i]->get(*named);
    auto opened = RootKeys::open(path);
    if (!opened) {
      options.complain(fmt::format("{}: {}", path, opened.error().context));
      return exit_bad_config;
    }
    of_others = std::move(*opened);
  }
  const bool keeps_keys = of_others == nullptr;
  if (!keeps_keys) root_keys = of_others.get();
  const config::ProcessKeys keys =
      options.process_schema != nullptr ? options.process_keys : services.front().keys.process;
  std::vector<Hosted> hosted;
  for (std::size_t i = 0; i < services.size(); ++i) {
    auto service = services[i].make(*loaded->services[i]);
    if (!service) {
      options.complain(service.error());
      return exit_failed;
    }
    std::shared_ptr<const io::TlsClient> peers_tls;
    if (std::ranges::any_of(services[i].peers, [&](const auto& peer) {
          return loaded->services[i]->get(peer.second).starts_with("https://");
        })) {
      auto vouched = load_tls_client(*loaded->services[i], services[i].keys, services[i].prefix);
      if (!vouched) {
        options.complain(vouched.error());
        return exit_bad_config;
      }
      peers_tls = std::move(*vouched);
    }
    hosted.push_back({std::move(services[i]),
                      loaded->services[i],
                      std::move(*service),
                      loaded->tls[i],
                      std::move(peers_tls),
                      {},
                      {},
                      {}});
  }
  auto host = std::make_unique<Host>(std::move(sections), std::move(hosted), loaded->process, keys, options,
                                     root_keys, keeps_keys);
  return host->run();
}

}  // namespace cairn::serve
