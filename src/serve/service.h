// What a service gives to be served: its declarations, and per shard the code that answers.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "crypto/caveat.h"
#include "http/exchange.h"
#include "io/machine.h"
#include "observe/log.h"
#include "observe/metric.h"
#include "runtime/supervisor.h"
#include "runtime/topology.h"
#include "serve/body.h"
#include "serve/events.h"
#include "serve/health.h"
#include "serve/metrics.h"
#include "serve/settings.h"

namespace cairn::serve {

// How a route's requests run. `at_once` is answered on the connection's shard without a wait; `queued` goes
// through `work` to a worker. A route at once may hand a request on to a worker when it would have to wait.
// `staged` is for bodies: the connection's own task pulls the body first, so that a client that sends slowly
// holds neither a worker nor a place in the queue; then it is queued.
// `open` is for what waits for something to happen: a long poll, a stream of events. It is admitted like any
// other request and from then on counts as a connection, not in flight: no worker, no place in the queue. It
// is answered at once if it can be, or else in the connection's own task.
enum class Run : std::uint8_t { at_once, queued, staged, open };

// A long poll lasts 60 s at most; then it is to be told what came of it.
inline constexpr Duration open_wait_max = Duration::seconds(60);
inline constexpr Duration open_timeout = open_wait_max + Duration::seconds(5);

struct RouteSpec {
  http::Route route;
  Run run = Run::queued;
  bool body = false;    // takes a request body (decoded under the guard)
  std::string_view op;  // the capability asked for; empty: none
  bool read = false;    // `op` is asked for only where auth.reads = required
};

class ServiceShard {
 public:
  virtual ~ServiceShard() = default;

  // Before any request, on shard 0 before the others. An error ends the process: its text is shown to whoever
  // started it. Cancel: clean — as if it had not begun; stop() is not called then.
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

  // For Run::at_once: fills the response, or gives false to be run by a worker. For Run::open: fills it (with
  // a stream, say), or gives false to be given to answer_later(). Must not wait.
  virtual bool try_answer(http::Exchange& exchange) {
    (void)exchange;
    return false;
  }
  // For Run::staged, in the connection's task: pulls the body into memory that the service bounds, and leaves
  // it in exchange.state, which is dropped when handle() has returned, or would have. An error is answered as
  // one of handle(). Cancel: clean.
  virtual Task<Result<>> stage(Call call, http::Exchange& exchange) {
    (void)call, (void)exchange;
    co_return Result<>{};
  }
  // For Run::open, in the connection's task: waits, by its own narrower time (wait_open()), and answers with
  // what there is then, or with a stream (http/sse.h). The call's deadline is open_timeout, whatever
  // timeouts.request says. When draining begins its waits end with `cancelled` and StopReason::draining: what
  // there is may still be answered; the error itself is answered `draining`. A stream's source is stopped and
  // ended in the same way, without its doing. It may keep no view of the request. Cancel: clean.
  virtual Task<Result<>> answer_later(Call call, http::Exchange& exchange) {
    (void)call, (void)exchange;
    co_return fail(ErrorCode::not_implemented, "nothing answers here");
  }
  // On a worker. The response is filled, or the error is answered. Cancel: as the route's page says.
  virtual Task<Result<>> handle(Call call, http::Exchange& exchange) = 0;
  // What a capability is asked about. `asked` has op, service, time, peer, the route's address and the body's
  // size; a service adds what it alone knows of the request (tenant, name), as views that live as long.
  virtual crypto::CapabilityRequest describe(const http::Exchange& exchange,
                                             crypto::CapabilityRequest asked) {
    (void)exchange;
    return asked;
  }
  // A new configuration; called between steps.
  virtual void apply(const config::Snapshot&) {}
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
};

class Service {
 public:
  virtual ~Service() = default;
  virtual const ServiceDeclaration& declaration() const = 0;
  virtual std::span<const RouteSpec> routes() const = 0;
  // Gates of its own, beside the ones every service has: `config`, `listener`, `tasks`.
  virtual std::vector<GateDeclaration> gates() const { return {}; }
  virtual std::unique_ptr<ServiceShard> make_shard(ShardContext context) = 0;
  virtual void declare_metrics(observe::Registry&) {}
};

}  // namespace cairn::serve
