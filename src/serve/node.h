// Node: one instance of a service: the state that its shards share, and each shard's part. It is the same for
// real processes and simulated ones. The owner of the machines attaches it, and a Lifecycle takes it from its
// start to its end.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/server_keys.h"
#include "http/h1/server.h"
#include "observe/log.h"
#include "serve/pipeline.h"

namespace cairn::serve {

struct BuildInfo {
  std::string_view version, git, build;
};

class Node {
 public:
  // `service`, `log` and the snapshot's schema outlive the node. A service with routes that have an `op`
  // needs keys in `access`, or `access.open`. `bus` is the process's and outlives the node; without one the
  // service hears only its own events.
  Node(Service& service, config::SnapshotPtr snapshot, const config::ServerKeys& keys, observe::Log& log,
       BuildInfo build, unsigned shards, std::size_t workers, Access access = {}, ProcessBus* bus = nullptr);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // --- before the shards run, or on the shard itself
  // Listeners for work that are opened from now on speak TLS; for handshakes from now on.
  void set_tls(unsigned shard, std::shared_ptr<const io::TlsServer> tls) noexcept;
  // `peers`: those of the service's declared callees that can be reached from that shard.
  void attach(io::Machine& machine, std::span<const PeerTarget> peers = {});
  // The bound address. A `health_only` listener serves health, readiness, version and metrics.
  Result<std::string> listen(unsigned shard, const io::Endpoint& endpoint, bool health_only = false);
  // Accepts; requests are told `not_ready` until serve().
  void start(unsigned shard);

  // --- on the shard
  // Runs the service's own start() there; `done` is called on the shard with its outcome.
  void start_service(unsigned shard, std::function<void(Result<>)> done);
  void cancel_start(unsigned shard) noexcept;
  // Closes the listeners and lets connections end until `deadline`. `done` is called on the shard when all
  // have ended, or when the drain's grace is over. Calls from inside the process are admitted until
  // stop_service. A second call only brings the deadline nearer; its `done` is dropped.
  void drain(unsigned shard, Instant deadline, std::function<void(DrainResult)> done);
  // After drain(), and once every service that calls this one has stopped: ends the work and the tasks. Where
  // start_service succeeded it also runs the service's own stop(), until `deadline`. Then `done` as above.
  void stop_service(unsigned shard, Instant deadline, std::function<void(DrainResult)> done);
  // After that, and once every service of the process has stopped: ends the connections that were still told
  // of health. `aborted`: something was aborted, and clients get a moment to see it.
  void leave(unsigned shard, bool aborted, std::function<void(DrainResult)> done);
  void abort(unsigned shard) noexcept;  // the second signal; health requests are still answered until the end
  // As if the process were gone: connections that attend are cut off too. For simulated processes.
  void cut_off(unsigned shard) noexcept;
  // Ends a shard's background tasks of that name as if by an exception. For tests of whole processes.
  void fail_task(unsigned shard, std::string_view name) noexcept;
  void apply(unsigned shard, const config::SnapshotPtr& snapshot);
  // Moves the shard's listener; on failure the old one stays. Returns the address now served.
  Result<std::string> rebind(unsigned shard, const io::Endpoint& endpoint);
  void take_keys(unsigned shard, const KeySnapshotPtr& keys);
  // On shard 0, once the service has started there.
  std::vector<std::string> revoked_keys();
  // For calls inside the process (http/local_call.h), from tasks of that shard.
  http::Answerer& answerer(unsigned shard) noexcept;

  // --- from any thread
  // The service has started on every shard: requests are let in, and the gate `listener` is open.
  void serve() noexcept;
  std::uint64_t keys_version(unsigned shard) const noexcept;  // 0: no keys
  std::string_view name() const noexcept { return service_.declaration().name; }
  const ServiceDeclaration& declaration() const noexcept { return service_.declaration(); }
  std::string trouble() const { return service_.trouble(); }
  unsigned shards() const noexcept { return static_cast<unsigned>(parts_.size()); }  // attached
  Mailbox& mailbox(unsigned shard) noexcept;
  Health& health() noexcept { return health_; }
  Metrics& metrics() noexcept { return metrics_; }
  observe::Registry& series() noexcept { return registry_; }
  // Process-wide limits take effect for every shard.
  void apply_limits(const config::Snapshot& snapshot);
  const Settings& settings() const noexcept { return settings_; }
  std::size_t connections(unsigned shard) const noexcept;
  std::size_t refusals(unsigned shard) const noexcept;  // of these, without a place

 private:
  struct ShardPart;
  class BackgroundEvents;
  std::string topology_json() const;
  Task<> log_events(Call call, ShardPart& part);
  Task<> start_shard(Call call, ShardPart& part, std::function<void(Result<>)> done);
  Task<> drain_shard(Call call, ShardPart& part, std::function<void(DrainResult)> done);
  Task<> stop_shard(Call call, ShardPart& part, std::function<void(DrainResult)> done);
  static Task<> leave_shard(Call call, ShardPart& part, bool aborted, std::function<void(DrainResult)> done);
  static Task<> run_stop(Call call, ShardPart& part);

  Service& service_;
  config::ServerKeys keys_;
  Settings settings_;
  config::SnapshotPtr snapshot_;  // the one at the start; shards have the newest in Bus::config
  observe::Log& log_;
  std::size_t workers_;
  Access access_;
  std::unique_ptr<ProcessBus> own_bus_;  // none: the node uses the process's bus
  ProcessBus& bus_;
  std::string admin_op_;
  observe::Registry registry_;
  std::vector<RouteSpec> specs_;
  http::RouteTable routes_;
  Metrics metrics_;
  Health health_;
  Admission admission_;
  Permits work_;
  std::string version_json_;
  Shared shared_;
  std::vector<std::unique_ptr<ShardPart>> parts_;
};

}  // namespace cairn::serve
