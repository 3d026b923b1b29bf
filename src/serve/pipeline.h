// Pipeline: the steps that every request of every service goes through, in the same order, on its shard:
//   connection caps → head limits → admission (reserved, ready, inflight, rate) → capability → body cap →
//   decode guard → answer at once, or (staged: the body →) its turn, waited for in the bounded queue `work` →
//   answer; open: a wait without a turn → answer. One coroutine does all of it.
//   [V-1] A refused request has cost no work, no queue place and no body, with one exception: if the queue
//         fills up while a staged body comes in, the request is refused after its body.
//   [V-2] A request that is still queued when its deadline passes is answered 504 and never started.
//   [V-3] No limit holds up health, readiness, version and metrics. The metrics cost the most: a shard
//         renders them at most `renderings_max` times in `rendering_window`, and beyond that sends the last
//         rendering again.
//   [V-4] A request whose handler waits for its body holds a turn only on a queued route, and never a place
//         in the queue.
//   [V-5] The capability that a route's `op` asks for is granted before any other part of the request is
//         looked at.
//   [V-6] A request that stays open holds its connection and no other counted resource, and ends when
//         draining begins.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "http/answerer.h"
#include "http/route.h"
#include "runtime/drain.h"
#include "runtime/supervisor.h"
#include "runtime/turn.h"
#include "serve/admission.h"
#include "serve/authorizer.h"
#include "serve/give_way.h"
#include "serve/metrics.h"
#include "serve/request.h"
#include "serve/service.h"

namespace cairn::serve {

// The rights that the routes' `op` names ask for: the root keys, or open access.
struct Access {
  // Without keys, only a service without such routes runs, or one that sets `open`: everybody may do
  // everything. For tests and demonstrations.
  bool open = false;
  KeySnapshotPtr keys = {};
  // For POST /admin/keys/{id}/revoke: makes the revocation durable and gives the keys to every shard. Set
  // exactly when keys are. Cancel: partial — the revocation may have happened.
  std::function<Task<Result<>>(Call call, std::string id)> revoke = {};
};

// The state that the shards of a service share. One per process and service.
struct Shared {
  Service& service;
  const Access& access;
  const http::RouteTable& routes;
  std::span<const RouteSpec> specs;  // by RouteId: the service's, then the ones every service has
  std::size_t own;                   // the service's own
  Admission& admission;
  Permits& work;
  Health& health;
  Metrics& metrics;
  observe::Registry& registry;
  std::string_view version_json;
  std::function<void(std::string& out)> topology_json;  // with live depths
  // The service has started on every shard. Until then requests are answered `not_ready`; after that they see
  // everything that start() made on each shard.
  std::atomic<bool> serving = false;
  std::vector<GiveWay*> ways = {};  // by shard, complete before any of them runs
};

// A scraper asks once in some seconds, and a person now and then: neither meets this limit.
inline constexpr unsigned renderings_max = 20;
inline constexpr Duration rendering_window = Duration::millis(100);

// The routes that every service has; their numbers follow the service's own. The last route exists only with
// keys. It asks for `admin_op`, which outlives the routes.
std::vector<RouteSpec> built_in_routes(std::string_view admin_op);

class Pipeline final : public http::Gate, public http::Answerer {
 public:
  Pipeline(Shared& shared, io::Machine& machine, Bus& bus, Peers& peers, const Settings& settings,
           observe::Logger log, Supervisor& tasks, std::size_t workers);
  ~Pipeline() override;

  void start(Supervisor& supervisor);
  void apply(const config::Snapshot& snapshot, const Settings& settings);
  void take_keys(KeySnapshotPtr keys);
  ServiceShard& service() noexcept { return *service_; }
  GiveWay& give_way() noexcept { return give_way_; }
  // No more work will come: a worker ends when the queue is empty.
  void close() noexcept { turnstile_.close(); }
  std::size_t depth() const noexcept { return turnstile_.depth(); }

  // --- of every request
  http::HeadLimits head_limits() const noexcept override { return settings_.server.head; }
  Next begin(http::Exchange& exchange) override;
  Task<> handle(Call call, http::Exchange& exchange) override;
  void refuse(http::Exchange& exchange, Error error) override;
  void finished(http::Exchange& exchange, bool complete) override;
  // --- of connections
  Admission admit(const io::PeerAddress& peer, bool health_only) override;
  Place place(http::Exchange& exchange, bool health_only, PermitHold& hold) override;
  DrainGuard enter() override { return drain_.enter(door_); }
  void closed_unread() override;
  // At the door only a Unix user who may not connect at all is refused.
  Error refusal() const override {
    return {ErrorCode::forbidden, "this user may not connect; uds.allow_uids says who may", Side::client};
  }
  void left(const io::PeerAddress& peer, Admission admission) override;
  bool admit_stream(const io::PeerAddress& peer) override;
  void stream_left(const io::PeerAddress& peer) override { shared_.admission.disconnect(peer); }
  void timed_out(Slow what) override;
  void shook_hands(Hands how) override { shared_.metrics.tls_handshakes.at(how).add(slot_); }
  void broke(const char* what) noexcept override;
  void doors_closed() override { door_ = DrainGuard(); }

 private:
  struct BuiltInRoute;
  static const BuiltInRoute built_in[];
  friend std::vector<RouteSpec> built_in_routes(std::string_view admin_op);

  // The Request attached to the exchange; made when the exchange is first seen.
  static Request& request_of(http::Exchange& exchange);
  const BuiltInRoute* find_built_in(const Request& request) const noexcept;
  Next begin_open(Request& request);
  Task<> answer_open(Call call, Request& request);
  bool try_connect(const io::PeerAddress& peer) {
    return shared_.admission.try_connect(peer, !settings_.trusts(peer));
  }
  bool admit_address(Request& request, bool first_hop);
  bool admit_tenant(Request& request, const RouteSpec* spec);
  void leave_flight(Request& request) noexcept;
  void count_answer(const Request& request, int status) noexcept;
  void count_open_stream(Request& request) noexcept;
  void take_corr_id(Request& request) noexcept;
  Error match_route(Request& request);
  // Takes over what a trusted peer says of the client that it speaks for. An error: it cannot be read.
  Result<> take_hop(Request& request);
  bool is_health(const Request& request) const noexcept;
  bool try_now(const RouteSpec& spec, Request& request);
  void answer_unmatched(Request& request, const Error& error);
  Error admit_request(Request& request, const RouteSpec& spec);
  Result<> authorize(Request& request, const RouteSpec& spec);
  void answer_health(Request& request);
  void answer_readiness(Request& request);
  void answer_version(Request& request);
  void answer_topology(Request& request);
  void answer_undone(Request& request, const Error& why);
  void tell_cut(const Call& call, const Request& request, const Error& why);
  void answer_outcome(Request& request, const Error& error);
  void answer_metrics(Request& request);
  void reject(Request& request, Rejected why, const Error& error, unsigned retry_after = 1);
  void tell_refused(const Request& request, const Error& error);
  Task<Result<>> answer_later(Call call, Request& request);
  Task<bool> stage(Call call, Request& request);
  Task<Result<>> revoke_key(Call call, Request& request);
  void log_exception(const Request& request);
  std::size_t route_of(const Request& request) const noexcept;

  Shared& shared_;
  io::Machine& machine_;
  Drain& drain_;
  // Draining waits for those who hold such a guard: the open door, and each connection that came through it
  // for work.
  DrainGuard door_;
  GiveWay give_way_;
  Settings settings_;
  observe::Logger log_;
  std::unique_ptr<ServiceShard> service_;
  std::unique_ptr<Authorizer> authorizer_;  // none: open access, or nothing to authorize
  observe::Slot slot_;
  std::size_t connection_kind_;
  std::size_t workers_;
  FifoOrder order_;
  Turns turns_;           // where the service has no turnstile of its own
  Turnstile& turnstile_;  // the one in use
  Tenancy* tenancy_;      // none: addresses share the limits
  static constexpr unsigned cuts_told_max = 32;
  unsigned cuts_told_ = 0;
  // The renderings of the metrics in the present window.
  Instant rendering_since_{};
  unsigned renderings_ = 0;
  std::string rendering_;  // the last one of a full window
};

}  // namespace cairn::serve
