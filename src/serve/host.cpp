#include "serve/host.h"

#include <fmt/format.h>

#include "config/problem.h"
#include "config/reload.h"
#include "io/process.h"
#include "observe/log_writer.h"

namespace cairn::serve {
namespace {

class Host {
 public:
  Host(const config::Schema& schema, const config::ServerKeys& keys, const HostOptions& options,
       config::SnapshotPtr snapshot, std::unique_ptr<Service> service)
      : schema_(schema),
        keys_(keys),
        options_(options),
        snapshot_(std::move(snapshot)),
        service_(std::move(service)),
        process_(shard_count()),
        log_({.slots = process_.shards(), .level = log_level(), .format = log_format()},
             [] { return io::wall_clock(); }),
        writer_(log_, observe::fd_sink(2)),
        node_(*service_, snapshot_, keys_, log_, options_.build, process_.shards(), options_.workers),
        logger_(log_, 0, service_->declaration().name) {}

  int run() {
    if (!check_descriptors()) return exit_bad_config;
    writer_.start();
    for (unsigned i = 0; i < process_.shards(); ++i) node_.attach(process_.machine(i));
    if (auto bound = bind(); !bound) {
      options_.complain(bound.error());
      return exit_failed;
    }
    declare_process_metrics();
    for (unsigned i = 0; i < process_.shards(); ++i) node_.start(i);
    node_.health().set("config", true);
    node_.health().set("listener", true);
    options_.ready(address_);
    process_.run([this](io::Signal signal) { signal == io::Signal::reload ? reload() : terminate(); });
    writer_.stop();
    return exit_;
  }
  // Tasks that did not even answer to abort: their frames cannot be taken down.
  bool must_leave_at_once() const noexcept { return stuck_; }

 private:
  unsigned shard_count() const {
    const auto asked = static_cast<unsigned>(snapshot_->get(keys_.shards));
    return asked != 0 ? asked : io::core_count();
  }
  observe::Level log_level() const { return static_cast<observe::Level>(snapshot_->get(keys_.log_level)); }
  observe::LogFormat log_format() const {
    return static_cast<observe::LogFormat>(snapshot_->get(keys_.log_format));
  }

  bool check_descriptors() {
    const std::uint64_t limit = io::Process::descriptor_limit();
    const auto wanted = static_cast<std::uint64_t>(snapshot_->get(keys_.max_conns));
    if (wanted <= limit / 2) return true;
    options_.complain(
        fmt::format("server.max_conns = {}: must be at most half of this system's limit of open files ({})",
                    wanted, limit));
    return false;
  }

  // Shard 0 learns the port when 0 was asked; the others share it by SO_REUSEPORT.
  std::expected<void, std::string> bind() {
    const auto listen = [this](unsigned shard, const Endpoint& endpoint,
                               bool health_only) -> std::expected<std::string, std::string> {
      auto bound = node_.listen(shard, endpoint, health_only);
      if (bound) return *bound;
      return std::unexpected(fmt::format("cannot listen on {}: {} ({})", format_endpoint(endpoint),
                                         bound.error().context, name_of(bound.error().code)));
    };
    const Endpoint asked = *parse_endpoint(snapshot_->get(keys_.bind));
    if (Result<> free = io::probe_bind(asked); !free)
      return std::unexpected(
          fmt::format("cannot listen on {}: {}", format_endpoint(asked), free.error().context));
    auto bound = listen(0, asked, false);
    if (bound) address_ = *bound;
    for (unsigned i = 1; bound && i < process_.shards(); ++i)
      bound = listen(i, *parse_endpoint(address_), false);
    if (const std::string& apart = snapshot_->get(keys_.metrics_addr); bound && !apart.empty())
      bound = listen(0, *parse_endpoint(apart), true);
    if (const std::string& path = snapshot_->get(keys_.uds_path); bound && !path.empty())
      bound = listen(0, Endpoint{.host = {}, .port = 0, .path = path}, false);
    if (!bound) return std::unexpected(bound.error());
    return {};
  }

  void declare_process_metrics() {
    node_.registry().observed_counter("shard_stalls_total",
                                      "Turns of a shard that ran tasks for more than 10 ms.", [this] {
                                        std::uint64_t sum = 0;
                                        for (unsigned i = 0; i < process_.shards(); ++i)
                                          sum += process_.loop(i).stalls();
                                        return static_cast<double>(sum);
                                      });
    node_.registry().observed_gauge("io_orphaned", "Pool operations whose waiter has left.",
                                    [this] { return static_cast<double>(process_.orphaned()); });
  }

  void on_every_shard(const std::function<void(unsigned)>& call) {
    for (unsigned i = 0; i < process_.shards(); ++i)
      if (!process_.post(i, [call, i] { call(i); }))
        logger_.error("a shard's mailbox is full", {{"shard", i}});
  }

  void terminate() {
    if (draining_++ > 0) {
      logger_.warn("second signal: aborting");
      on_every_shard([this](unsigned i) { node_.abort(i); });
      return;
    }
    logger_.info("draining", {{"deadline_ms", node_.settings().drain_timeout.to_millis()}});
    node_.health().set_draining();
    left_ = process_.shards();
    on_every_shard([this, span = node_.settings().drain_timeout](unsigned i) {
      const Instant deadline = process_.machine(i).shard.now() + span;
      node_.drain(i, deadline, [this](DrainResult result) {
        CHECK(process_.post(0, [this, result = std::move(result)] { drained(result); }).has_value());
      });
    });
  }

  void drained(const DrainResult& result) {
    if (!result.drained()) exit_ = exit_aborted;
    for (const std::string& name : result.still_alive) {
      stuck_ = true;
      logger_.error("a task outlived the abort", {{"task", name}});
    }
    if (--left_ > 0) return;
    logger_.info("drained", {{"aborted", exit_ == exit_aborted}});
    process_.stop();
  }

  void reload() {
    auto sources = options_.sources();
    if (!sources) return refuse_reload(sources.error());
    auto loaded = config::load(schema_, *sources, snapshot_->version() + 1);
    if (!loaded) return refuse_reload(config::format_problems(loaded.error()));
    auto merged = config::reload(*snapshot_, **loaded);
    if (!merged) return refuse_reload(config::format_problems(merged.error()));
    if (merged->snapshot->get(keys_.bind) != snapshot_->get(keys_.bind) && !rebind(*merged->snapshot)) return;
    for (std::size_t key : merged->changes.restart)
      logger_.warn("takes effect at the next start", {{"key", schema_.entries()[key].spec.name}});
    node_.metrics().config_reload.at(merged->changes.live.empty() ? 1 : 0).add(0);
    snapshot_ = merged->snapshot;
    log_.set_level(log_level());
    node_.apply_limits(*snapshot_);
    on_every_shard([this, snapshot = snapshot_](unsigned i) { node_.apply(i, snapshot); });
    logger_.info("configuration reloaded",
                 {{"version", snapshot_->version()}, {"changed", merged->changes.live.size()}});
  }

  void refuse_reload(const std::string& why) {
    node_.metrics().config_reload.at(2).add(0);
    logger_.error("configuration refused, the old one stays", {{"problems", why}});
  }

  // Shard 0 decides whether the new address can be had; the others follow it there.
  bool rebind(const config::Snapshot& next) {
    const Endpoint asked = *parse_endpoint(next.get(keys_.bind));
    auto bound =
        io::probe_bind(asked) ? node_.rebind(0, asked) : fail(ErrorCode::conflict, "the port is taken");
    if (!bound) {
      refuse_reload("cannot listen on " + next.get(keys_.bind));
      return false;
    }
    address_ = *bound;
    for (unsigned i = 1; i < process_.shards(); ++i)
      if (!process_.post(i, [this, i, endpoint = *parse_endpoint(address_)] {
            if (!node_.rebind(i, endpoint))
              observe::Logger(log_, i, "host").error("a shard could not follow to the new address");
          }))
        logger_.error("a shard's mailbox is full", {{"shard", i}});
    logger_.info("listening", {{"address", address_}});
    return true;
  }

  const config::Schema& schema_;
  const config::ServerKeys& keys_;
  const HostOptions& options_;
  config::SnapshotPtr snapshot_;
  std::unique_ptr<Service> service_;
  io::Process process_;
  observe::Log log_;
  observe::LogWriter writer_;
  Node node_;
  observe::Logger logger_;
  std::string address_;
  unsigned draining_ = 0;
  unsigned left_ = 0;
  int exit_ = exit_ok;
  bool stuck_ = false;
};

}  // namespace

int run_host(const config::Schema& schema, const config::ServerKeys& keys, const MakeService& make,
             const HostOptions& options) {
  auto sources = options.sources();
  if (!sources) {
    options.complain(sources.error());
    return exit_bad_config;
  }
  auto snapshot = config::load(schema, *sources);
  if (!snapshot) {
    options.complain(config::format_problems(snapshot.error()));
    return exit_bad_config;
  }
  auto host = std::make_unique<Host>(schema, keys, options, *snapshot, make(**snapshot));
  const int code = host->run();
  if (host->must_leave_at_once()) io::leave_now(code);
  return code;
}

}  // namespace cairn::serve
