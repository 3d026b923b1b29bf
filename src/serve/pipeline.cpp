#include "serve/pipeline.h"

#include "base/ascii.h"

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

constexpr std::string_view json_type = "application/json";

// What has to be undone when a request has finished: bits of Request::counted.
constexpr std::uint32_t counted_inflight = 1;
constexpr std::uint32_t counted_route = 2;
constexpr std::uint32_t counted_answer = 4;  // nothing to undo: its head was its answer, and was counted
constexpr std::uint32_t counted_tenant = 8;

bool is_corr_char(char c) noexcept { return is_letter_or_digit(c) || c == '_' || c == '-'; }

bool names_address(const RouteSpec& spec) noexcept {
  return spec.pattern.find(":Address}") != std::string_view::npos;
}

// The name that the request is about, by the parameter's name in the pattern: `{name:Rest}`, or `{key:Rest}`,
// which is an address (`b3:…`) or a name, with or without `name:`.
std::string_view name_asked(const RouteSpec& spec, const http::RouteMatch& route) noexcept {
  if (spec.pattern.find("{name:Rest}") != std::string_view::npos) return route.at[0].text;
  if (spec.pattern.find("{key:Rest}") == std::string_view::npos) return {};
  std::string_view key = route.at[0].text;
  if (key.starts_with("b3:")) return {};
  if (key.starts_with("name:")) key.remove_prefix(5);
  return key;
}

// How many bytes the request would store. Unknown before the end of a chunked body, and before a body with a
// content coding is decoded.
std::optional<std::uint64_t> stored_bytes(const http::RequestHead& head, const RouteSpec& spec) noexcept {
  if (spec.takes == Takes::nothing || head.body == http::BodyKind::none) return spec.stores_least;
  if (head.body != http::BodyKind::length || head.fields.has(http::FieldName::content_encoding))
    return std::nullopt;
  return std::max(spec.stores_least, head.content_length);
}

// Drops what a request has while it is handled, once its handler has returned in whatever way.
struct Leaving {
  Request& request;
  ~Leaving() {
    request.turn = Turn();
    request.state.reset();
  }
};

unsigned whole_seconds(Duration duration) noexcept {
  return static_cast<unsigned>(std::max<std::int64_t>(1, (duration.ns + 999'999'999) / 1'000'000'000));
}

}  // namespace

// A route that the pipeline answers itself.
struct Pipeline::BuiltInRoute {
  RouteSpec spec;
  bool is_health;                      // passes by every limit
  void (Pipeline::*answer)(Request&);  // nullptr: a worker revokes a key
};

namespace {

constexpr http::MethodSet reading = Method::get | Method::head;
constexpr AnswerSpec health_answers[] = {{200, "It does", {"text/plain; charset=utf-8"}}};
constexpr AnswerSpec readiness_answers[] = {
    {200, "It takes requests; `write_ready` says whether it takes changes", {json_type, "http-readiness"}},
    {503, "It does not; `missing` says why", {json_type, "http-readiness"}}};
constexpr AnswerSpec version_answers[] = {{200, "The version", {json_type, "http-version"}}};
constexpr AnswerSpec metrics_answers[] = {
    {200, "The exposition format of Prometheus", {observe::exposition_type}}};
constexpr AnswerSpec topology_answers[] = {
    {200, "The declarations, with the depths of the queues now", {json_type, "topology"}}};
constexpr AnswerSpec revocation_answers[] = {{204, "It is revoked, and stays so"}};

}  // namespace

constexpr Pipeline::BuiltInRoute Pipeline::built_in[] = {
    {{.pattern = "/healthz",
      .methods = reading,
      .summary = "Whether the process lives",
      .handlers = {.run = Run::at_once},
      .answers = health_answers},
     true,
     &Pipeline::answer_health},
    {{.pattern = "/readyz",
      .methods = reading,
      .summary = "Whether the service takes requests",
      .handlers = {.run = Run::at_once},
      .answers = readiness_answers},
     true,
     &Pipeline::answer_readiness},
    {{.pattern = "/version",
      .methods = reading,
      .summary = "What this program is",
      .handlers = {.run = Run::at_once},
      .answers = version_answers},
     true,
     &Pipeline::answer_version},
    {{.pattern = "/metrics",
      .methods = reading,
      .summary = "Everything that is counted",
      .handlers = {.run = Run::at_once},
      .answers = metrics_answers},
     true,
     &Pipeline::answer_metrics},
    {{.pattern = "/debug/topology",
      .methods = reading,
      .summary = "Tasks, queues, locks and writers",
      .handlers = {.run = Run::at_once},
      .answers = topology_answers},
     false,
     &Pipeline::answer_topology},
    {{.pattern = "/admin/keys/{id:Id}/revoke",
      .methods = Method::post,
      .summary = "Revoke a root key, and with it every capability made from it",
      .handlers = {.run = Run::queued},
      .answers = revocation_answers},
     false,
     nullptr},
};

std::vector<RouteSpec> built_in_routes(std::string_view admin_op) {
  std::vector<RouteSpec> specs;
  for (const Pipeline::BuiltInRoute& route : Pipeline::built_in) specs.push_back(route.spec);
  specs.back().op = admin_op;
  return specs;
}

const Pipeline::BuiltInRoute* Pipeline::find_built_in(const Request& request) const noexcept {
  return request.route.id < shared_.own ? nullptr : &built_in[request.route.id - shared_.own];
}

Pipeline::Pipeline(Shared& shared, io::Machine& machine, Bus& bus, Peers& peers, const Settings& settings,
                   observe::Logger log, Supervisor& tasks, std::size_t workers)
    : shared_(shared),
      machine_(machine),
      drain_(bus.drain),
      door_(std::move(*bus.drain.try_enter())),
      give_way_(shared.admission, shared.ways, machine.mailbox, bus.drain),
      settings_(settings),
      log_(log),
      service_(shared.service.make_shard({machine, log, shared.health, bus, settings_, tasks,
                                          machine.shard.index(), shared.metrics, peers, shared.admission,
                                          shared.work, shared.access.keys, shared.registry.slots()})),
      authorizer_(shared.access.keys ? std::make_unique<Authorizer>(shared.access.keys) : nullptr),
      slot_(machine.shard.index()),
      connection_kind_(shared.metrics.kind_index("connection")),
      workers_(workers),
      turns_(machine.shard, shared.work, order_,
             [gauge = shared.metrics.depth_gauge("work"), slot = slot_](std::size_t depth) {
               gauge.set(slot, static_cast<std::int64_t>(depth));
             }),
      turnstile_(service_->turnstile() != nullptr ? *service_->turnstile() : turns_),
      tenancy_(service_->tenancy()) {
  CHECK((tenancy_ == nullptr) == (&turnstile_ == &turns_));
}

Pipeline::~Pipeline() = default;

void Pipeline::start(Supervisor& supervisor) {
  for (std::size_t i = 0; i < turnstile_.workers(workers_); ++i)
    CHECK(
        supervisor.start("worker", [this](Call call) { return turnstile_.work(call.shield()); }).has_value());
}

void Pipeline::apply(const config::Snapshot& snapshot, const Settings& settings) {
  settings_ = settings;
  service_->apply(snapshot);
}

void Pipeline::take_keys(KeySnapshotPtr keys) {
  service_->take_keys(keys);
  if (authorizer_) authorizer_->take_keys(std::move(keys));
}

http::Gate::Admission Pipeline::admit(const io::PeerAddress& peer, bool health_only) {
  if (!shared_.admission.is_allowed(peer)) {
    shared_.metrics.rejected.at(Rejected::connections).add(slot_);
    return Admission::refused;
  }
  const bool welcome = !health_only && (try_connect(peer) ||
                                        (give_way_.ask(peer) == GiveWay::Found::now && try_connect(peer)));
  shared_.metrics.tasks_spawned.at(connection_kind_).add(slot_);
  return welcome ? Admission::welcome : Admission::extra;
}

http::Gate::Place Pipeline::place(http::Exchange& exchange, bool health_only, PermitHold& hold) {
  using Door = serve::Admission::Door;
  Request& request = request_of(exchange);
  const bool health = match_route(request).code == ErrorCode::ok && is_health(request);
  const Door door = health_only ? Door::health : request.peer().local ? Door::local : Door::open;
  if (health) {
    if (auto place = shared_.admission.try_reserve(door)) {
      hold = std::move(*place);
      return Place::reserved;
    }
  }
  if (health_only) return Place::none;
  if (try_connect(request.peer())) return Place::welcome;
  switch (give_way_.ask(request.peer())) {
    case GiveWay::Found::none:
      break;
    case GiveWay::Found::soon:
      return Place::soon;
    case GiveWay::Found::now:
      if (try_connect(request.peer())) return Place::welcome;
  }
  return Place::none;
}

void Pipeline::closed_unread() { shared_.metrics.rejected.at(Rejected::connections).add(slot_); }

bool Pipeline::is_health(const Request& request) const noexcept {
  const BuiltInRoute* route = find_built_in(request);
  return route != nullptr && route->is_health;
}

void Pipeline::left(const io::PeerAddress& peer, Admission admission) {
  if (admission == Admission::welcome) shared_.admission.disconnect(peer);
}

bool Pipeline::admit_stream(const io::PeerAddress& peer) {
  if (try_connect(peer)) return true;
  shared_.metrics.rejected.at(Rejected::connections).add(slot_);
  return false;
}

void Pipeline::timed_out(Slow what) {
  shared_.metrics.io_timeouts.at(what == Slow::read ? IoOp::read : IoOp::write).add(slot_);
}

void Pipeline::broke(const char* what) noexcept {
  shared_.metrics.tasks_panicked.at(connection_kind_).add(slot_);
  log_.error("a connection failed", {{"what", what}});
}

// The client's own id when it is fit to be logged, else a fresh ULID.
void Pipeline::take_corr_id(Request& request) noexcept {
  const std::string_view given = request.fields().get(http::FieldName::x_corr_id);
  if (given.size() >= 8 && given.size() <= 64 && std::all_of(given.begin(), given.end(), is_corr_char)) {
    std::copy(given.begin(), given.end(), request.corr_text.begin());
    request.corr_size = static_cast<std::uint8_t>(given.size());
  } else {
    Random& random = machine_.shard.random();
    format_ulid_to(make_ulid(machine_.shard.wall(), random.next(), random.next()), request.corr_text.data());
    request.corr_size = ulid_text_size;
  }
  // The id is sent with every answer, an error too.
  request.response.add_field(name_of(http::FieldName::x_corr_id), request.corr());
  request.response.fields.keep();
}

Result<> Pipeline::take_hop(Request& request) {
  if (request.exchange.inside || !request.fields().has(http::FieldName::forwarded) ||
      !settings_.trusts(request.peer()))
    return {};
  TRY(request.hop, http::parse_forwarded(request.fields()));
  if (request.hop.client) request.exchange.peer = *request.hop.client;
  return {};
}

Error Pipeline::match_route(Request& request) {
  const std::string_view path = request.head().path();
  if (path == "*") return {ErrorCode::not_found, "OPTIONS * is not answered", Side::client};
  auto decoded = http::decode_path(path, request.path_text);
  if (!decoded) return decoded.error();
  request.route = shared_.routes.match(*decoded, request.head().method);
  switch (request.route.outcome) {
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

void Pipeline::answer_unmatched(Request& request, const Error& error) {
  std::array<char, http::allow_size_max> room;
  if (error.code == ErrorCode::method_not_allowed)
    request.response.add_field("Allow", http::format_allow(request.route.allow, room));
  answer_error(request, error);
}

std::size_t Pipeline::route_of(const Request& request) const noexcept {
  return request.route.outcome == http::RouteMatch::Outcome::matched
             ? shared_.metrics.label_of(request.route.id)
             : shared_.metrics.unmatched;
}

void Pipeline::reject(Request& request, Rejected why, const Error& error, unsigned retry_after) {
  shared_.metrics.rejected.at(why).add(slot_);
  if (error.code == ErrorCode::busy) shared_.metrics.busy.at(route_of(request)).add(slot_);
  tell_refused(request, error);
  if (error.retry() == Retry::later)
    answer_error(request, error, retry_after);
  else
    answer_error(request, error);
}

// Only refused changes are told, and only those of the service's own routes.
void Pipeline::tell_refused(const Request& request, const Error& error) {
  if (request.route.outcome != http::RouteMatch::Outcome::matched || request.route.id >= shared_.own) return;
  const RouteSpec& spec = shared_.specs[request.route.id];
  if (!spec.op.empty() && spec.asked == Asked::always) service_->refused(request, spec.op, error);
}

Request& Pipeline::request_of(http::Exchange& exchange) {
  if (!exchange.attached) exchange.attached = std::make_unique<Request>(exchange);
  // All exchanges of a server belong to one answerer, so the attachment is its own.
  return static_cast<Request&>(*exchange.attached);
}

http::Answerer::Next Pipeline::begin(http::Exchange& exchange) {
  Request& request = request_of(exchange);
  take_corr_id(request);
  const Error unmatched = match_route(request);
  const bool matched = unmatched.code == ErrorCode::ok;
  if (matched && is_health(request) && !request.exchange.without_place) {
    request.exchange.is_health = true;
    (this->*find_built_in(request)->answer)(request);
    return Next::answered;
  }
  if (request.exchange.health_only && !(matched && is_health(request))) {
    request.response.close = true;
    answer_error(request,
                 {ErrorCode::not_found, "this listener serves health and metrics only", Side::client});
    return Next::answered;
  }
  if (request.exchange.attends) {
    request.response.close = true;
    reject(request, Rejected::draining, {ErrorCode::draining, "shutting down"});
    return Next::answered;
  }
  if (request.exchange.reserved) {
    request.response.close = true;
    reject(request, Rejected::connections, {ErrorCode::busy, "too many connections", Side::client});
    return Next::answered;
  }
  // For a call inside the process, the first hop has made these checks, and has counted its connection and
  // its rate.
  const bool first_hop = !exchange.inside;
  if (const Error wrong = first_hop ? check_origin(request, settings_) : Error{ErrorCode::ok, ""};
      wrong.code != ErrorCode::ok) {
    reject(request, Rejected::head, wrong);
    return Next::answered;
  }
  // Behind the check of the origin: a page that reaches a trusted address must not name itself another peer.
  if (const Result<> told = take_hop(request); !told) {
    reject(request, Rejected::head, told.error());
    return Next::answered;
  }
  if (!shared_.serving.load(std::memory_order_acquire)) {
    reject(request, Rejected::not_ready, {ErrorCode::not_ready, "still starting"});
    return Next::answered;
  }
  const RouteSpec* spec = matched ? &shared_.specs[request.route.id] : nullptr;
  if (tenancy_ == nullptr ? !admit_address(request, first_hop) : !admit_tenant(request, spec))
    return Next::answered;
  if (!matched) {
    answer_unmatched(request, unmatched);
    return Next::answered;
  }
  if (Error error = admit_request(request, *spec); error.code != ErrorCode::ok) return Next::answered;
  if (const BuiltInRoute* route = find_built_in(request); route != nullptr && route->answer != nullptr) {
    (this->*route->answer)(request);
    return Next::answered;
  }
  if (spec->handlers.run == Run::open) return begin_open(request);
  request.deadline =
      request_deadline(request.fields(), request.started(), machine_.shard.wall(), settings_.request_timeout);
  shared_.metrics.inflight.at(route_of(request)).add(slot_, 1);
  request.counted |= counted_route;
  return try_now(*spec, request) ? Next::answered : Next::handle;
}

// False: the request was refused and answered; so with admit_tenant().
bool Pipeline::admit_address(Request& request, bool first_hop) {
  const bool has_share = first_hop && !settings_.trusts(request.peer());
  const Shares::Asker asker = shared_.admission.ask(request.peer(), has_share, request.started());
  if (!shared_.admission.try_enter(asker)) {
    reject(request, Rejected::inflight, {ErrorCode::busy, "too many requests in flight", Side::client});
    return false;
  }
  request.counted |= counted_inflight;
  request.share = asker.slot;
  request.contested = asker.contested;
  const RateVerdict rate =
      first_hop ? shared_.admission.try_take(asker, request.started()) : RateVerdict{.taken = true};
  if (!rate) {
    reject(request, Rejected::rate, {ErrorCode::quota, "request rate over its limit", Side::client},
           whole_seconds(rate.retry_after));
    return false;
  }
  return true;
}

bool Pipeline::admit_tenant(Request& request, const RouteSpec* spec) {
  const Tenancy::Verdict verdict = tenancy_->admit(request, spec);
  if (verdict) {
    request.counted |= counted_inflight | counted_tenant;
    return true;
  }
  reject(request, verdict.why, verdict.error, verdict.retry_after);
  return false;
}

// False: the request has to run as a task.
bool Pipeline::try_now(const RouteSpec& spec, Request& request) {
  if (spec.handlers.now == nullptr) return false;
  const Result<bool> answered = service_->answer_now(spec.handlers, request);
  if (!answered) answer_outcome(request, answered.error());
  if (answered && !*answered) return false;
  if (tenancy_ != nullptr) tenancy_->answering(request);
  return true;
}

// The request is admitted. From here on it counts as a connection only.
http::Answerer::Next Pipeline::begin_open(Request& request) {
  leave_flight(request);
  request.exchange.stays_open = true;
  request.deadline =
      request_deadline(request.fields(), request.started(), machine_.shard.wall(), open_timeout);
  if (!try_now(shared_.specs[request.route.id], request)) return Next::handle;
  count_open_stream(request);
  return Next::answered;
}

Task<Result<>> Pipeline::answer_later(Call call, Request& request) {
  try {
    if (find_built_in(request) != nullptr) co_return co_await revoke_key(call, request);
    co_return co_await service_->answer_later(call, shared_.specs[request.route.id].handlers, request);
  } catch (...) {
    log_exception(request);
  }
  co_return fail(ErrorCode::internal, "internal error");
}

Task<> Pipeline::answer_open(Call call, Request& request) {
  const Result<> outcome = co_await answer_later(call, request);
  if (!outcome) answer_outcome(request, outcome.error());
  if (tenancy_ != nullptr) tenancy_->answering(request);
  count_open_stream(request);
}

// The head of a stream that stays open counts as its answer: the stream's length is no latency, and its end
// no failure.
void Pipeline::count_open_stream(Request& request) noexcept {
  if (request.response.kind != http::Response::Body::stream) return;
  count_answer(request, request.response.status);
  request.counted |= counted_answer;
}

Result<> Pipeline::authorize(Request& request, const RouteSpec& spec) {
  if (spec.op.empty() || (spec.asked == Asked::of_reads && !settings_.reads_need_capability)) return {};
  if (!authorizer_) return {};  // open access: the node has checked that it was asked for
  crypto::CapabilityRequest asked{.op = spec.op,
                                  .service = shared_.service.declaration().name,
                                  .now = machine_.shard.wall(),
                                  .bytes = stored_bytes(request.head(), spec),
                                  .local = request.peer().local};
  if (names_address(spec)) asked.address = request.route.address;
  asked.name = name_asked(spec, request.route);
  if (!request.peer().local) asked.ip = std::to_array(request.peer().bytes);
  TRY(const Principal* bearer, authorizer_->authorize(request.fields(), asked));
  request.bearer = *bearer;
  request.is_known = true;
  return {};
}

// Body cap, capability, decode guard. Answers and returns the error when one of them says no.
Error Pipeline::admit_request(Request& request, const RouteSpec& spec) {
  // A length is refused whatever the token; but who sent it is known by then, if the token tells.
  const Result<> allowed = authorize(request, spec);
  const http::RequestHead& head = request.head();
  request.body.set_cap(settings_.max_body);
  if (head.content_length > settings_.max_body) {
    const Error error(ErrorCode::body_cap, "body over its cap", Side::client);
    reject(request, Rejected::body_cap, error);
    return error;
  }
  if (!allowed) {
    reject(request, Rejected::unauthorized, allowed.error());
    return allowed.error();
  }
  if (spec.takes == Takes::body && head.fields.has(http::FieldName::content_encoding)) {
    const bool repeated = head.fields.repeated(http::FieldName::content_encoding);
    auto decoder = codec::make_decoder(head.fields.get(http::FieldName::content_encoding), settings_.decode);
    if (repeated || !decoder) {
      const Error error(ErrorCode::unsupported_type, "content coding not supported", Side::client);
      reject(request, Rejected::decode, error);
      return error;
    }
  }
  return {ErrorCode::ok, ""};
}

Task<> Pipeline::handle(Call call, http::Exchange& exchange) {
  Request& request = request_of(exchange);
  request.take_context(machine_.shard.random());
  call = call.by(request.deadline).with_context(request.context);
  const Leaving leaving{request};
  const Run run = shared_.specs[request.route.id].handlers.run;
  if (run == Run::open) {
    co_await answer_open(call, request);
    co_return;
  }
  if (run == Run::staged && !co_await stage(call, request)) co_return;
  Result<> granted;
  if (!request.turn) {
    Result<Turn> turn =
        co_await (tenancy_ == nullptr ? turns_.ask(call) : turnstile_.ask(call, tenancy_->seek(request)));
    if (turn)
      request.turn = std::move(*turn);
    else
      granted = fail(turn.error());
  }
  if (!granted) {
    tell_cut(call, request, granted.error());
    answer_undone(request, granted.error());
  } else if (const Result<> outcome = co_await answer_later(call, request); !outcome) {
    tell_cut(call, request, outcome.error());
    answer_outcome(request, outcome.error());
  }
  if (tenancy_ != nullptr) tenancy_->answering(request);
}

// Of the requests that the end of the drain cuts, the first few are told, each with what it waited for.
void Pipeline::tell_cut(const Call& call, const Request& request, const Error& why) {
  const StopReason reason = call.cancel().reason();
  const bool is_end = reason == StopReason::draining || reason == StopReason::aborted;
  if (!is_end || cuts_told_ == cuts_told_max) return;
  ++cuts_told_;
  log_.warn("a request was cut off: the drain ended first",
            {{"route", shared_.specs[request.route.id].pattern},
             {"corr_id", request.corr()},
             {"waited_for", why.context}});
}

// Answers a request that did not get its turn.
void Pipeline::answer_undone(Request& request, const Error& why) {
  request.response.clear();
  switch (why.code) {
    case ErrorCode::busy:
      shared_.metrics.queue_dropped.at(0).add(slot_);
      reject(request, Rejected::queue, {ErrorCode::busy, "work queue is full"});
      return;
    case ErrorCode::closed:
    case ErrorCode::draining:
      reject(request, Rejected::draining, {ErrorCode::draining, "shutting down"});
      return;
    case ErrorCode::degraded:
      reject(request, Rejected::queue, why);
      return;
    case ErrorCode::timeout:
      tell_refused(request, why);
      answer_error(request, {ErrorCode::timeout, "the deadline passed in the queue"});
      return;
    default:
      tell_refused(request, why);
      answer_error(request, why);
  }
}

// True when the body is there and the request may be queued; otherwise it was answered.
Task<bool> Pipeline::stage(Call call, Request& request) {
  // A request that the queue would refuse now is refused before its body is read.
  if (shared_.work.taken() >= shared_.work.limit()) {
    shared_.metrics.queue_dropped.at(0).add(slot_);
    reject(request, Rejected::queue, {ErrorCode::busy, "work queue is full"});
    co_return false;
  }
  Result<> outcome;
  request.exchange.taking_body = true;
  try {
    outcome = co_await service_->take(call, shared_.specs[request.route.id].handlers, request);
  } catch (...) {
    log_exception(request);
    outcome = fail(ErrorCode::internal, "internal error");
  }
  request.exchange.taking_body = false;
  if (outcome) co_return true;
  tell_cut(call, request, outcome.error());
  answer_outcome(request, outcome.error());
  co_return false;
}

Task<Result<>> Pipeline::revoke_key(Call call, Request& request) {
  std::string id(request.route.at[0].text);
  CO_TRY_VOID(co_await shared_.access.revoke(call, std::move(id)));
  request.response.status = 204;
  co_return Result<>{};
}

// Inside a catch block.
void Pipeline::log_exception(const Request& request) {
  try {
    throw;
  } catch (const std::exception& problem) {
    log_.error("a handler failed", {{"corr_id", request.corr()}, {"what", problem.what()}});
  } catch (...) {
    log_.error("a handler failed", {{"corr_id", request.corr()}, {"what", "not a std::exception"}});
  }
}

// Refusals by the service itself are counted with the pipeline's own.
void Pipeline::answer_outcome(Request& request, const Error& error) {
  request.response.clear();
  const Metrics& metrics = shared_.metrics;
  switch (error.code) {
    case ErrorCode::body_cap:
      metrics.rejected.at(Rejected::body_cap).add(slot_);
      break;
    case ErrorCode::decoded_cap:
      metrics.rejected.at(Rejected::decoded_cap).add(slot_);
      break;
    case ErrorCode::decoded_ratio:
      metrics.rejected.at(Rejected::decoded_ratio).add(slot_);
      break;
    case ErrorCode::busy:
      metrics.busy.at(route_of(request)).add(slot_);
      metrics.count_refusal(error, slot_);
      break;
    default:
      if (is_late_errand(error)) metrics.io_timeouts.at(IoOp::commit).add(slot_);
  }
  answer_error(request, error);
}

void Pipeline::refuse(http::Exchange& exchange, Error error) {
  Request& request = request_of(exchange);
  if (request.corr_size == 0) take_corr_id(request);
  if (error.code == ErrorCode::internal)
    log_.error("a request failed beside its handler", {{"corr_id", request.corr()}, {"what", error.context}});
  // A connection that was refused at the door was counted there.
  if (error.side == Side::client && error.code != ErrorCode::forbidden)
    shared_.metrics.rejected.at(Rejected::head).add(slot_);
  if (error.code == ErrorCode::draining) shared_.metrics.rejected.at(Rejected::draining).add(slot_);
  request.response.close = true;
  answer_error(request, error);
}

void Pipeline::leave_flight(Request& request) noexcept {
  if ((request.counted & counted_inflight) != 0) {
    if (tenancy_ == nullptr)
      shared_.admission.leave(request.share);
    else
      tenancy_->leave(request);
  }
  request.counted &= ~counted_inflight;
}

void Pipeline::finished(http::Exchange& exchange, bool complete) {
  Request& request = request_of(exchange);
  leave_flight(request);
  if ((request.counted & counted_tenant) != 0) tenancy_->finished(request, complete);
  if ((request.counted & counted_route) != 0) shared_.metrics.inflight.at(route_of(request)).add(slot_, -1);
  // 499: the connection broke before the answer was sent; no client saw that status.
  if ((request.counted & counted_answer) == 0)
    count_answer(request, complete ? request.response.status : 499);
}

void Pipeline::count_answer(const Request& request, int status) noexcept {
  const std::size_t route = route_of(request);
  const auto method = static_cast<std::size_t>(request.head().method);
  shared_.metrics.requests.at(route, method, Metrics::status_index(status)).add(slot_);
  shared_.metrics.latency.at(route, method).observe(slot_, machine_.shard.precise_now() - request.started());
}

void Pipeline::answer_metrics(Request& request) {
  http::Response& response = request.response;
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

void Pipeline::answer_health(Request& request) {
  request.response.answer_view("text/plain; charset=utf-8", "ok\n");
}

void Pipeline::answer_readiness(Request& request) {
  http::Response& response = request.response;
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

void Pipeline::answer_version(Request& request) {
  request.response.answer_view("application/json", shared_.version_json);
}

void Pipeline::answer_topology(Request& request) {
  request.response.text.clear();
  shared_.topology_json(request.response.text);
  request.response.answer_text("application/json");
}

}  // namespace cairn::serve
