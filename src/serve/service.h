// What a service gives to be served: its declarations, and per shard the code that answers.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "http/exchange.h"
#include "io/machine.h"
#include "observe/log.h"
#include "runtime/topology.h"
#include "serve/body.h"
#include "serve/events.h"
#include "serve/health.h"
#include "serve/settings.h"

namespace cairn::serve {

// How a route's requests run. `at_once` is answered on the connection's shard without a wait; `queued` goes
// through `work` to a worker. A route at once may hand a request on to a worker when it would have to wait.
enum class Run : std::uint8_t { at_once, queued };

struct RouteSpec {
  http::Route route;
  Run run = Run::queued;
  bool body = false;    // takes a request body (decoded under the guard)
  std::string_view op;  // the capability asked for; empty: none
};

class ServiceShard {
 public:
  virtual ~ServiceShard() = default;

  // For Run::at_once: fills the response, or gives false to be run by a worker. Must not wait.
  virtual bool try_answer(http::Exchange& exchange) {
    (void)exchange;
    return false;
  }
  // On a worker. The response is filled, or the error is answered. Cancel: as the route's page says.
  virtual Task<Result<>> handle(Call call, http::Exchange& exchange) = 0;
  // May this request do `op`? Until capabilities are configured everything is allowed.
  virtual Result<> authorize(http::Exchange& exchange, std::string_view op) {
    (void)exchange, (void)op;
    return {};
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
