#include "serve/pipeline.h"

#include <algorithm>

#include "base/ulid.h"
#include "http/path.h"
#include "observe/exposition.h"
#include "runtime/errand.h"
#include "runtime/wait.h"
#include "serve/answer.h"
#include "serve/deadline.h"
#include "serve/origin.h"

namespace cairn::serve {
namespace {

using http::Method;

// What is to be undone when a request is finished; bits of Exchange::counted.
constexpr std::uint32_t counted_inflight = 1;
constexpr std::uint32_t counted_route = 2;
constexpr std::uint32_t counted_answer = 4;  // nothing to undo: its head was its answer

bool is_corr_char(char c) noexcept {
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || c == '-';
}

bool names_address(const RouteSpec& spec) noexcept {
  return spec.pattern.find(":Address}") != std::string_view::npos;
}

// How much the request would store. Nobody can tell before the end of a chunked body, and before it is
// decoded of one with a content coding.
std::optional<std::uint64_t> stored_bytes(const http::RequestHead& head, const RouteSpec& spec) noexcept {
  if (spec.takes == Takes::nothing || head.body == http::BodyKind::none) return spec.stores_least;
  if (head.body != http::BodyKind::length || head.fields.has(http::FieldName::content_encoding))
    return std::nullopt;
  return std::max(spec.stores_least, head.content_length);
}

// What a service kept for this request goes when its handler has returned, however that ended.
struct StateDrop {
  http::Exchange& exchange;
  ~StateDrop() { exchange.state.reset(); }
};

unsigned whole_seconds(Duration duration) noexcept {
  return static_cast<unsigned>(std::max<std::int64_t>(1, (duration.ns + 999'999'999) / 1'000'000'000));
}

}  // namespace

// A route that the pipeline answers itself.
struct Pipeline::BuiltInRoute {
  std::string_view pattern;
  http::MethodSet methods;
  bool is_health;                             // passes by every limit
  void (Pipeline::*answer)(http::Exchange&);  // none: a worker revokes a key
};

constexpr Pipeline::BuiltInRoute Pipeline::built_in[] = {
    {"/healthz", Method::get | Method::head, true, &Pipeline::answer_health},
    {"/readyz", Method::get | Method::head, true, &Pipeline::answer_readiness},
    {"/version", Method::get | Method::head, true, &Pipeline::answer_version},
    {"/metrics", Method::get | Method::head, true, &Pipeline::answer_metrics},
    {"/debug/topology", Method::get | Method::head, false, &Pipeline::answer_topology},
    {"/admin/keys/{id:Id}/revoke", Method::post, false, nullptr},
};

std::vector<RouteSpec> built_in_routes() {
  std::vector<RouteSpec> specs;
  for (const auto& [pattern, methods, health, answer] : Pipeline::built_in)
    specs.push_back({.pattern = pattern,
                     .methods = methods,
                     .handlers = {.run = answer != nullptr ? Run::at_once : Run::queued}});
  return specs;
}

const Pipeline::BuiltInRoute* Pipeline::find_built_in(const http::Exchange& exchange) const noexcept {
  return exchange.route.id < shared_.own ? nullptr : &built_in[exchange.route.id - shared_.own];
}

// One queued request.
struct Pipeline::Job : HandedOver {
  Job(const Call& call, http::Exchange& asked) noexcept : HandedOver(call), exchange(asked) {}
  http::Exchange& exchange;
};

Pipeline::Pipeline(Shared& shared, io::Machine& machine, Bus& bus, const Settings& settings,
                   observe::Logger log, Supervisor& tasks, std::size_t workers)
    : shared_(shared),
      machine_(machine),
      drain_(bus.drain),
      door_(std::move(*bus.drain.try_enter())),
      give_way_(shared.admission, shared.ways, machine.mailbox, bus.drain),
      settings_(settings),
      log_(log),
      service_(shared.service.make_shard(
          {machine, log, shared.health, bus, settings_, tasks, machine.shard.index(), shared.metrics})),
      authorizer_(shared.access.keys ? std::make_unique<Authorizer>(shared.access.keys) : nullptr),
      slot_(machine.shard.index()),
      connection_kind_(shared.metrics.kind_index("connection")),
      workers_(workers),
      queue_(machine.shard, shared.work) {}

Pipeline::~Pipeline() = default;

void Pipeline::start(Supervisor& supervisor) {
  for (std::size_t i = 0; i < workers_; ++i)
    CHECK(supervisor.start({"worker", "worker"}, [this](Call call) { return worker(call); }).has_value());
}

void Pipeline::apply(const config::Snapshot& snapshot, const Settings& settings) {
  settings_ = settings;
  service_->apply(snapshot);
}

void Pipeline::take_keys(KeySnapshotPtr keys) {
  if (authorizer_) authorizer_->take_keys(std::move(keys));
}

http::Handler::Admission Pipeline::admit(const io::PeerAddress& peer, bool health_only) {
  if (!shared_.admission.is_allowed(peer)) {
    shared_.metrics.rejected.at(Rejected::connections).add(slot_);
    return Admission::refused;
  }
  const bool welcome = !health_only && (try_connect(peer) ||
                                        (give_way_.ask(peer) == GiveWay::Found::now && try_connect(peer)));
  shared_.metrics.tasks_spawned.at(connection_kind_).add(slot_);
  return welcome ? Admission::welcome : Admission::extra;
}

http::Handler::Place Pipeline::place(http::Exchange& exchange, bool health_only, PermitHold& hold) {
  using Door = serve::Admission::Door;
  const bool health = match_route(exchange).code == ErrorCode::ok && is_health(exchange);
  const Door door = health_only ? Door::health : exchange.peer.local ? Door::local : Door::open;
  if (health) {
    if (auto place = shared_.admission.try_reserve(door)) {
      hold = std::move(*place);
      return Place::reserved;
    }
  }
  if (health_only) return Place::none;
  if (try_connect(exchange.peer)) return Place::welcome;
  switch (give_way_.ask(exchange.peer)) {
    case GiveWay::Found::none:
      break;
    case GiveWay::Found::soon:
      return Place::soon;
    case GiveWay::Found::now:
      if (try_connect(exchange.peer)) return Place::welcome;
  }
  return Place::none;
}

void Pipeline::closed_unread() { shared_.metrics.rejected.at(Rejected::connections).add(slot_); }

bool Pipeline::is_health(const http::Exchange& exchange) const noexcept {
  const BuiltInRoute* route = find_built_in(exchange);
  return route != nullptr && route->is_health;
}

void Pipeline::left(const io::PeerAddress& peer, Admission admission) {
  if (admission == Admission::welcome) shared_.admission.disconnect(peer);
}

void Pipeline::timed_out(Slow what) {
  shared_.metrics.io_timeouts.at(what == Slow::read ? IoOp::read : IoOp::write).add(slot_);
}

void Pipeline::broke(const char* what) noexcept {
  shared_.metrics.tasks_panicked.at(connection_kind_).add(slot_);
  log_.error("a connection failed", {{"what", what}});
}

// The client's own id when it is fit to be logged, else a fresh ULID.
void Pipeline::take_corr_id(http::Exchange& exchange) noexcept {
  const std::string_view given = exchange.request().fields.get(http::FieldName::x_corr_id);
  if (given.size() >= 8 && given.size() <= 64 && std::all_of(given.begin(), given.end(), is_corr_char)) {
    std::copy(given.begin(), given.end(), exchange.corr_text.begin());
    exchange.corr_size = static_cast<std::uint8_t>(given.size());
    return;
  }
  Random& random = machine_.shard.random();
  format_ulid_to(make_ulid(machine_.shard.wall(), random.next(), random.next()), exchange.corr_text.data());
  exchange.corr_size = ulid_text_size;
}

// Who is asking, for whatever the work calls in turn: the caller's trace goes on, or one begins here.
void Pipeline::take_context(http::Exchange& exchange) noexcept {
  Random& random = machine_.shard.random();
  auto parent = observe::parse_traceparent(exchange.request().fields.get(http::FieldName::traceparent));
  exchange.context.corr_id = exchange.corr();
  exchange.context.span = parent ? observe::child_of(*parent, random.next())
                                 : observe::start_trace(random.next(), random.next(), random.next(), false);
}

Error Pipeline::match_route(http::Exchange& exchange) {
  const std::string_view path = exchange.request().path();
  if (path == "*") return {ErrorCode::not_found, "OPTIONS * is not answered", Side::client};
  auto decoded = http::decode_path(path, exchange.path_text);
  if (!decoded) return decoded.error();
  exchange.route = shared_.routes.match(*decoded, exchange.request().method);
  switch (exchange.route.outcome) {
    case http::RouteMatch::Outcome::matched:
      return {ErrorCode::ok, ""};
    case http::RouteMatch::Outcome::malformed:
      return {ErrorCode::malformed, "the path's parameter does not parse", Side::client};
    case http::RouteMatch::Outcome::not_found:
      return {ErrorCode::not_found, "no such path", Side::client};
    case http::RouteMatch::Outcome::method_not_allowed:
      break;
  }
  return {ErrorCode::method_not_allowed, "method not allowed here", Side::client};
}

void Pipeline::answer_unmatched(http::Exchange& exchange, const Error& error) {
  std::array<char, http::allow_size_max> room;
  if (error.code == ErrorCode::method_not_allowed)
    exchange.response.add_field("Allow", http::format_allow(exchange.route.allow, room));
  answer_error(exchange, error);
}

std::size_t Pipeline::route_of(const http::Exchange& exchange) const noexcept {
  return exchange.route.outcome == http::RouteMatch::Outcome::matched
             ? shared_.metrics.label_of(exchange.route.id)
             : shared_.metrics.unmatched;
}

void Pipeline::reject(http::Exchange& exchange, Rejected why, const Error& error, unsigned retry_after) {
  shared_.metrics.rejected.at(why).add(slot_);
  if (error.code == ErrorCode::busy) shared_.metrics.busy.at(route_of(exchange)).add(slot_);
  tell_refused(exchange, error);
  if (error.retry() == Retry::later)
    answer_error(exchange, error, retry_after);
  else
    answer_error(exchange, error);
}

// Changes only, and of the service's own.
void Pipeline::tell_refused(const http::Exchange& exchange, const Error& error) {
  if (exchange.route.outcome != http::RouteMatch::Outcome::matched || exchange.route.id >= shared_.own)
    return;
  const RouteSpec& spec = shared_.specs[exchange.route.id];
  if (!spec.op.empty() && spec.asked == Asked::always) service_->refused(exchange, spec.op, error);
}

http::Handler::Next Pipeline::begin(http::Exchange& exchange) {
  take_corr_id(exchange);
  const Error unmatched = match_route(exchange);
  const bool matched = unmatched.code == ErrorCode::ok;
  if (matched && is_health(exchange) && !exchange.without_place) {
    exchange.is_health = true;
    (this->*find_built_in(exchange)->answer)(exchange);
    return Next::answered;
  }
  if (exchange.attends) {
    exchange.response.close = true;
    reject(exchange, Rejected::draining, {ErrorCode::draining, "shutting down"});
    return Next::answered;
  }
  if (exchange.reserved) {
    exchange.response.close = true;
    reject(exchange, Rejected::connections, {ErrorCode::busy, "too many connections", Side::client});
    return Next::answered;
  }
  if (const Error wrong = check_origin(exchange, settings_); wrong.code != ErrorCode::ok) {
    reject(exchange, Rejected::head, wrong);
    return Next::answered;
  }
  if (!shared_.serving.load(std::memory_order_relaxed)) {
    reject(exchange, Rejected::not_ready, {ErrorCode::not_ready, "still starting"});
    return Next::answered;
  }
  const Shares::Asker asker =
      shared_.admission.ask(exchange.peer, !settings_.trusts(exchange.peer), exchange.started);
  if (!shared_.admission.try_enter(asker)) {
    reject(exchange, Rejected::inflight, {ErrorCode::busy, "too many requests in flight", Side::client});
    return Next::answered;
  }
  exchange.counted |= counted_inflight;
  exchange.share = asker.slot;
  exchange.contested = asker.contested;
  if (const RateVerdict rate = shared_.admission.try_take(asker, exchange.started); !rate) {
    reject(exchange, Rejected::rate, {ErrorCode::quota, "request rate over its limit", Side::client},
           whole_seconds(rate.retry_after));
    return Next::answered;
  }
  if (!matched) {
    answer_unmatched(exchange, unmatched);
    return Next::answered;
  }
  const RouteSpec& spec = shared_.specs[exchange.route.id];
  if (Error error = admit_request(exchange, spec); error.code != ErrorCode::ok) return Next::answered;
  if (const BuiltInRoute* route = find_built_in(exchange); route != nullptr && route->answer != nullptr) {
    (this->*route->answer)(exchange);
    return Next::answered;
  }
  if (spec.handlers.run == Run::open) return begin_open(exchange);
  exchange.deadline = request_deadline(exchange.request().fields, exchange.started, machine_.shard.wall(),
                                       settings_.request_timeout);
  shared_.metrics.inflight.at(route_of(exchange)).add(slot_, 1);
  exchange.counted |= counted_route;
  return try_now(spec, exchange) ? Next::answered : Next::handle;
}

// False: it is to be run as a task.
bool Pipeline::try_now(const RouteSpec& spec, http::Exchange& exchange) {
  if (spec.handlers.now == nullptr) return false;
  const Result<bool> answered = service_->answer_now(spec.handlers, exchange);
  if (!answered) answer_outcome(exchange, answered.error());
  return !answered || *answered;
}

// Admitted: from here on it counts as a connection only.
http::Handler::Next Pipeline::begin_open(http::Exchange& exchange) {
  leave_flight(exchange);
  exchange.stays_open = true;
  exchange.deadline =
      request_deadline(exchange.request().fields, exchange.started, machine_.shard.wall(), open_timeout);
  if (!try_now(shared_.specs[exchange.route.id], exchange)) return Next::handle;
  count_open_stream(exchange);
  return Next::answered;
}

Task<> Pipeline::answer_open(Call call, http::Exchange& exchange) {
  Result<> outcome;
  try {
    outcome = co_await service_->answer_later(call, shared_.specs[exchange.route.id].handlers, exchange);
  } catch (...) {
    log_exception(exchange);
    outcome = fail(ErrorCode::internal, "internal error");
  }
  if (!outcome) answer_outcome(exchange, outcome.error());
  count_open_stream(exchange);
}

// Of a stream that lasts, the head is the answer; how long it lasts is no latency, and its end no failure.
void Pipeline::count_open_stream(http::Exchange& exchange) noexcept {
  if (exchange.response.kind != http::Response::Body::stream) return;
  count_answer(exchange, exchange.response.status);
  exchange.counted |= counted_answer;
}

Result<> Pipeline::authorize(http::Exchange& exchange, const RouteSpec& spec) {
  if (spec.op.empty() || (spec.asked == Asked::of_reads && !settings_.reads_need_capability)) return {};
  if (!authorizer_) return {};  // open access: the node has checked that this was asked for
  crypto::CapabilityRequest asked{.op = spec.op,
                                  .service = shared_.service.declaration().name,
                                  .now = machine_.shard.wall(),
                                  .bytes = stored_bytes(exchange.request(), spec),
                                  .local = exchange.peer.local};
  if (names_address(spec)) asked.address = exchange.route.address;
  if (!exchange.peer.local) asked.ip = std::to_array(exchange.peer.bytes);
  TRY(const Authorizer::Bearer bearer, authorizer_->authorize(exchange.request().fields, asked));
  exchange.capability = bearer.nonce;
  exchange.tenant = bearer.tenant;
  return {};
}

// Capability, body cap, decode guard. Answers and returns the error when one of them says no.
Error Pipeline::admit_request(http::Exchange& exchange, const RouteSpec& spec) {
  if (auto allowed = authorize(exchange, spec); !allowed) {
    reject(exchange, Rejected::unauthorized, allowed.error());
    return allowed.error();
  }
  const http::RequestHead& head = exchange.request();
  exchange.body.set_cap(settings_.max_body);
  if (head.content_length > settings_.max_body) {
    const Error error(ErrorCode::body_cap, "body over its cap", Side::client);
    reject(exchange, Rejected::body_cap, error);
    return error;
  }
  if (spec.takes == Takes::body && head.fields.has(http::FieldName::content_encoding)) {
    const bool repeated = head.fields.repeated(http::FieldName::content_encoding);
    auto decoder = codec::make_decoder(head.fields.get(http::FieldName::content_encoding), settings_.decode);
    if (repeated || !decoder) {
      const Error error(ErrorCode::unsupported_type, "content coding not supported", Side::client);
      reject(exchange, Rejected::decode, error);
      return error;
    }
  }
  return {ErrorCode::ok, ""};
}

Task<> Pipeline::handle(Call call, http::Exchange& exchange) {
  take_context(exchange);
  call = call.with_context(exchange.context);
  const StateDrop drop{exchange};
  const Run run = shared_.specs[exchange.route.id].handlers.run;
  if (run == Run::open) {
    co_await answer_open(call, exchange);
    co_return;
  }
  if (run == Run::staged && !co_await stage(call, exchange)) co_return;
  Job job(call, exchange);
  const Result<> done = co_await queue_.ask(job, [this] { show_depth(); });
  if (!done) answer_undone(exchange, done.error());
}

// What no worker began, or a worker that died left behind.
void Pipeline::answer_undone(http::Exchange& exchange, const Error& why) {
  exchange.response.clear();
  switch (why.code) {
    case ErrorCode::busy:
      shared_.metrics.queue_dropped.at(0).add(slot_);
      reject(exchange, Rejected::queue, {ErrorCode::busy, "work queue is full"});
      return;
    case ErrorCode::closed:
      reject(exchange, Rejected::draining, {ErrorCode::draining, "shutting down"});
      return;
    case ErrorCode::timeout:
      tell_refused(exchange, why);
      answer_error(exchange, {ErrorCode::timeout, "the deadline passed in the queue"});
      return;
    default:
      tell_refused(exchange, why);
      answer_error(exchange, why);
  }
}

// True when the body is there and the request may be queued; otherwise it was answered.
Task<bool> Pipeline::stage(Call call, http::Exchange& exchange) {
  // What the queue would refuse now is not read first.
  if (shared_.work.taken() >= shared_.work.limit()) {
    shared_.metrics.queue_dropped.at(0).add(slot_);
    reject(exchange, Rejected::queue, {ErrorCode::busy, "work queue is full"});
    co_return false;
  }
  Result<> outcome;
  exchange.taking_body = true;
  try {
    outcome = co_await service_->take(call, shared_.specs[exchange.route.id].handlers, exchange);
  } catch (...) {
    log_exception(exchange);
    outcome = fail(ErrorCode::internal, "internal error");
  }
  exchange.taking_body = false;
  if (outcome) co_return true;
  answer_outcome(exchange, outcome.error());
  co_return false;
}

Task<Result<>> Pipeline::revoke_key(Call call, http::Exchange& exchange) {
  std::string id(exchange.route.at[0].text);
  CO_TRY_VOID(co_await shared_.access.revoke(call, std::move(id)));
  exchange.response.status = 204;
  co_return Result<>{};
}

// Inside a catch block.
void Pipeline::log_exception(const http::Exchange& exchange) {
  try {
    throw;
  } catch (const std::exception& problem) {
    log_.error("a handler failed", {{"corr_id", exchange.corr()}, {"what", problem.what()}});
  } catch (...) {
    log_.error("a handler failed", {{"corr_id", exchange.corr()}, {"what", "not a std::exception"}});
  }
}

Task<> Pipeline::worker(Call call) {
  while (auto place = co_await queue_.arrived(call.shield())) {
    auto begun = queue_.begin(*place);
    show_depth();
    if (!begun) continue;
    co_await run_job(*begun);
    begun.done();
  }
}

void Pipeline::show_depth() noexcept {
  shared_.metrics.queue_depth.at(0).set(slot_, static_cast<std::int64_t>(queue_.depth()));
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): its waiter outlives it
Task<> Pipeline::run_job(Job& job) {
  http::Exchange& exchange = job.exchange;
  Result<> outcome;
  try {
    if (find_built_in(exchange) == nullptr)
      outcome =
          co_await service_->answer_later(job.call(), shared_.specs[exchange.route.id].handlers, exchange);
    else
      outcome = co_await revoke_key(job.call(), exchange);
  } catch (...) {
    log_exception(exchange);
    outcome = fail(ErrorCode::internal, "internal error");
  }
  if (!outcome) answer_outcome(exchange, outcome.error());
}

// What the service itself refused counts where the pipeline's own refusals do.
void Pipeline::answer_outcome(http::Exchange& exchange, const Error& error) {
  exchange.response.clear();
  const Metrics& metrics = shared_.metrics;
  switch (error.code) {
    case ErrorCode::body_cap:
      metrics.rejected.at(Rejected::body_cap).add(slot_);
      break;
    case ErrorCode::decoded_cap:
    case ErrorCode::decoded_ratio:
      metrics.rejected.at(Rejected::decode).add(slot_);
      break;
    case ErrorCode::busy:
      metrics.busy.at(route_of(exchange)).add(slot_);
      metrics.count_refusal(error, slot_);
      break;
    default:
      if (is_late_errand(error)) metrics.io_timeouts.at(IoOp::commit).add(slot_);
  }
  answer_error(exchange, error);
}

void Pipeline::refuse(http::Exchange& exchange, Error error) {
  if (exchange.corr_size == 0) take_corr_id(exchange);
  if (error.code == ErrorCode::internal)
    log_.error("a request failed beside its handler",
               {{"corr_id", exchange.corr()}, {"what", error.context}});
  // Who was refused at the door was counted there.
  if (error.code != ErrorCode::internal && error.code != ErrorCode::forbidden)
    shared_.metrics.rejected.at(Rejected::head).add(slot_);
  exchange.response.close = true;
  answer_error(exchange, error);
}

void Pipeline::leave_flight(http::Exchange& exchange) noexcept {
  if ((exchange.counted & counted_inflight) != 0) shared_.admission.leave(exchange.share);
  exchange.counted &= ~counted_inflight;
}

void Pipeline::finished(http::Exchange& exchange, bool complete) {
  leave_flight(exchange);
  if ((exchange.counted & counted_route) != 0) shared_.metrics.inflight.at(route_of(exchange)).add(slot_, -1);
  // 499: the connection broke before the answer was out; nobody saw that status.
  if ((exchange.counted & counted_answer) == 0)
    count_answer(exchange, complete ? exchange.response.status : 499);
}

void Pipeline::count_answer(const http::Exchange& exchange, int status) noexcept {
  const std::size_t route = route_of(exchange);
  const auto method = static_cast<std::size_t>(exchange.request().method);
  shared_.metrics.requests.at(route, method, Metrics::status_index(status)).add(slot_);
  shared_.metrics.latency.at(route, method).observe(slot_, machine_.shard.precise_now() - exchange.started);
}

void Pipeline::answer_metrics(http::Exchange& exchange) {
  http::Response& response = exchange.response;
  response.text.clear();
  const Instant now = machine_.shard.now();
  if (now - rendering_since_ >= rendering_window) {
    rendering_since_ = now;
    renderings_ = 0;
  }
  if (renderings_ < renderings_max) {
    shared_.registry.expose(response.text);
    if (++renderings_ == renderings_max) rendering_ = response.text;
  } else {
    response.text = rendering_;
  }
  response.answer_text(observe::exposition_type);
}

void Pipeline::answer_health(http::Exchange& exchange) {
  exchange.response.answer_view("text/plain; charset=utf-8", "ok\n");
}

void Pipeline::answer_readiness(http::Exchange& exchange) {
  http::Response& response = exchange.response;
  const Readiness readiness = shared_.health.check();
  response.text.clear();
  write_readiness(readiness, response.text);
  if (!readiness.ready) {
    response.status = 503;
    response.add_number("Retry-After", 1);
  }
  response.add_field("Cache-Control", "no-store");
  response.answer_text("application/json");
}

void Pipeline::answer_version(http::Exchange& exchange) {
  exchange.response.answer_view("application/json", shared_.version_json);
}

void Pipeline::answer_topology(http::Exchange& exchange) {
  exchange.response.text.clear();
  shared_.topology_json(exchange.response.text);
  exchange.response.answer_text("application/json");
}

}  // namespace cairn::serve
