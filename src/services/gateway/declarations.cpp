#include "services/gateway/declarations.h"

#include "config/snapshot.h"
#include "serve/shared_rows.h"
#include "serve/sizes.h"
#include "services/gateway/history.h"
#include "services/gateway/tenants.h"

namespace cairn::gateway {
namespace {

constexpr serve::SharedRows shared{.workers = "pools.workers in the process, at least one per shard",
                                   .work = work_capacity};
constexpr TaskDeclaration own_tasks[] = {
    {"scheduler", "scheduler", "1", Criticality::essential,
     "gives tenants their turns by a deficit round robin", "the supervisor of the first shard"},
    {"prober", "prober", "1", Criticality::degrading,
     "samples depths, lag and deficits once a second, and sets the pressure by them",
     "the supervisor of the first shard"},
    {"history", "history", "1", Criticality::optional, "keeps the samples of the last 15 minutes",
     "the supervisor of the first shard"},
    {"quota-keeper", "quota-keeper", "1, where quotas are kept", Criticality::degrading,
     "replaces the file of what tenants have used every 10 s", "the supervisor of the first shard"},
};
constexpr auto tasks = serve::join(serve::shared_tasks(shared), own_tasks);
constexpr QueueDeclaration own_queues[] = {
    {.name = "sched",
     .capacity = sched_capacity,
     .producers = {"scheduler"},
     .consumers = {"worker"},
     .policy = OverflowPolicy::drop_oldest,
     .metric = "queue_depth"},
    {.name = "metrics_tick",
     .capacity = ticks_capacity,
     .producers = {"prober"},
     .consumers = {"history"},
     .policy = OverflowPolicy::wait_until_deadline,
     .metric = "queue_depth",
     .fixed = true},
};
constexpr auto queues = [] {
  auto rows = serve::join(serve::shared_queues(shared), own_queues);
  rows[0].consumers = {"scheduler"};  // `work`
  return rows;
}();
constexpr LockDeclaration own_locks[] = {tenants_lock, samples_lock};
constexpr auto locks = serve::join(serve::shared_locks, own_locks);

constexpr WriterDeclaration own_writers[] = {
    {"the spare calls to an upstream", "the shard whose they are"},
    {"the tenants' queues, and what they are served", "scheduler"},
    {"what an answer costs beyond its price", "the request's shard, atomically"},
    {"what a tenant has used of its quota", "the request's shard, atomically"},
    {"the file of what tenants have used", "quota-keeper, and the stop after it"},
    {"the samples of the last 15 minutes", "history"},
    {"the pressure", "prober"},
};
constexpr auto writers = serve::join(serve::shared_writers, own_writers);

// What the services behind it have built decides about these.
void declare_unbuilt_upstreams(config::Schema& schema) {
  config::declare_peer_key(schema, "edge", "", false);
}

BreakerKeys declare_breaker(config::Schema& schema) {
  const auto number = [&](const char* name, const char* value, const char* doc) {
    return schema.add<std::int64_t>(
        {.name = name, .default_value = value, .doc = doc, .min = "1", .max = "65536"});
  };
  BreakerKeys keys;
  keys.window = schema.add<Duration>({.name = "breaker.window",
                                      .default_value = "10s",
                                      .doc = "The time over which an upstream's failures are counted.",
                                      .min = "1s",
                                      .max = "10m"});
  keys.error_ratio = schema.add<double>(
      {.name = "breaker.error_ratio",
       .default_value = "0.5",
       .doc = "The part of the requests in the window whose failure makes the breaker open.",
       .min = "0.01",
       .max = "1"});
  keys.min_requests = number("breaker.min_requests", "20", "Requests in the window before the ratio counts.");
  keys.consecutive = number("breaker.consecutive", "5", "Failures in a row that make the breaker open.");
  keys.cooldown = schema.add<Duration>({.name = "breaker.cooldown",
                                        .default_value = "1s",
                                        .doc = "How long an open breaker refuses (503 breaker_open). It "
                                               "doubles up to 30 s while the upstream fails.",
                                        .min = "10ms",
                                        .max = "30s"});
  keys.half_open_probes = number("breaker.half_open_probes", "3",
                                 "Requests that may try an upstream after the cooldown; as many successes "
                                 "close the breaker.");
  return keys;
}

}  // namespace

const ServiceDeclaration declaration{
    .name = "gateway",
    .purpose = "One origin before all services: checks, limits, forwards",
    .owner = "cairn maintainers",
    .last_reviewed = "2026-11-19",
    .drain = Duration::seconds(3),
    .tasks = tasks,
    .queues = queues,
    .locks = locks,
    .lanes = lane_declarations,
    .writers = writers,
    .calls = {"storage", "index", "registry"},
};

Keys declare_keys(config::Schema& schema, const Defaults& where) {
  Keys keys;
  config::ServerDefaults defaults;
  defaults.http2 = true;
  defaults.reads = false;  // the services behind it decide
  defaults.bind = where.bind;
  defaults.uds_path = where.uds_path;
  defaults.alone = where.alone;
  defaults.queues = serve::queue_sizes(declaration);
  defaults.pools = serve::pool_sizes();
  defaults.amnesia = true;
  keys.server = config::declare_server_keys(schema, defaults);
  keys.storage = config::declare_peer_key(schema, "storage", where.storage);
  keys.index = config::declare_peer_key(schema, "index", where.index);
  keys.registry = config::declare_peer_key(schema, "registry", where.registry);
  keys.verify = schema.add<bool>({.name = "proxy.verify",
                                  .default_value = "true",
                                  .doc = "Whether objects from another process are verified by their "
                                         "addresses while they pass."});
  declare_unbuilt_upstreams(schema);
  keys.breaker = declare_breaker(schema);
  keys.fairness = declare_fairness_keys(schema);
  if (where.alone)
    keys.root_keys =
        schema.add<std::string>({.name = "auth.keys",
                                 .default_value = "",
                                 .doc = "The file of root keys (keys/capability-root.key of the services' "
                                        "data directory) by which tokens are known, and their tenants. It is "
                                        "read only. Empty: tokens pass unread, and tenants are addresses.",
                                 .reload = config::Reload::restart});
  return keys;
}

}  // namespace cairn::gateway
