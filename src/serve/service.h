// The interface of a service: its declarations, and per shard the code that answers.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/machine.h"
#include "observe/log.h"
#include "observe/metric.h"
#include "runtime/supervisor.h"
#include "runtime/topology.h"
#include "serve/admission.h"
#include "serve/authorizer.h"
#include "serve/body.h"
#include "serve/bus.h"
#include "serve/health.h"
#include "serve/metrics.h"
#include "serve/peers.h"
#include "serve/request.h"
#include "serve/route.h"
#include "serve/settings.h"
#include "serve/tenancy.h"

namespace cairn::serve {

// A long poll waits 60 s at most; the rest of open_timeout is for its answer.
inline constexpr Duration open_wait_max = Duration::seconds(60);
inline constexpr Duration open_timeout = open_wait_max + Duration::seconds(5);

class ServiceShard {
 public:
  virtual ~ServiceShard() = default;

  // Before any request, on shard 0 before the others. An error ends the process, and its text is shown to the
  // person who started it. Cancel: clean — as if it had not begun; stop() is not called then.
  virtual Task<Result<>> start(Call call) {
    (void)call;
    co_return Result<>{};
  }
  // After the last request and the last background task, on shard 0 after the others, where start() had
  // succeeded. Cancel: partial — the process ends all the same.
  virtual Task<> stop(Call call) {
    (void)call;
    co_return;
  }

  // How the handlers are called: by the table, unless a subclass listens in.
  virtual Result<bool> answer_now(const Handlers& handlers, Request& request) {
    return handlers.now(*this, request);
  }
  virtual Task<Result<>> take(Call call, const Handlers& handlers, Request& request) {
    return handlers.take(*this, call, request);
  }
  virtual Task<Result<>> answer_later(Call call, const Handlers& handlers, Request& request) {
    return handlers.later(*this, call, request);
  }
  // A request that asks for `op`, which is not a read, was refused before the service got it, or while it
  // waited in the queue. Its bearer is known only if request.principal() is not null. Must not wait.
  virtual void refused(const Request& request, std::string_view op, const Error& error) {
    (void)request, (void)op, (void)error;
  }
  // Where its requests wait for their turns, and how they are admitted, if it has ways of its own: both or
  // neither. Asked once, before any request.
  virtual Turnstile* turnstile() { return nullptr; }
  virtual Tenancy* tenancy() { return nullptr; }
  // New root keys, at the latest moment before any later request.
  virtual void take_keys(const KeySnapshotPtr&) {}
  // A new configuration; called between steps.
  virtual void apply(const config::Snapshot&) {}
  // On shard 0: ids of capability keys that this service's own state revokes. The host asks when the service
  // has started and after each of its `registry_updated` events, and revokes them for every service of the
  // process.
  virtual std::vector<std::string> revoked_keys() { return {}; }
};

struct ShardContext {
  io::Machine& machine;
  observe::Logger log;
  Health& health;
  Bus& bus;
  const Settings& settings;  // the newest, between steps
  // For the service's declared background tasks. They are cancelled when the last request of every shard has
  // ended, and have a second to return; stop() comes after them.
  Supervisor& tasks;
  observe::Slot slot;  // of this shard in the service's metrics
  const Metrics& metrics;
  Peers& peers;  // the services that its declaration says it calls
  Admission& admission;
  Permits& work;           // places in the queue `work`
  KeySnapshotPtr keys;     // none: open access, or no keys
  std::size_t shards = 1;  // of the process
};

class Service {
 public:
  virtual ~Service() = default;
  virtual const ServiceDeclaration& declaration() const = 0;
  virtual std::span<const RouteSpec> routes() const = 0;
  // The service's own gates, beside those that every service has: `config`, `listener`, `tasks`.
  virtual std::vector<GateDeclaration> gates() const { return {}; }
  virtual std::unique_ptr<ServiceShard> make_shard(ShardContext context) = 0;
  virtual void declare_metrics(observe::Registry&) {}
  // For people, after a start() that failed: the place of the trouble; empty if there is none to name.
  virtual std::string trouble() const { return {}; }
};

}  // namespace cairn::serve
