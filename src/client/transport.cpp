#include "client/transport.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/scope.h"
#include "runtime/wait.h"

namespace cairn::client {
namespace {

constexpr std::size_t error_body_max = 64 << 10;
constexpr std::size_t piece_size = 64 << 10;

// Whether the server refused before it did anything, so that any request may be sent again.
bool was_refused(const Failure& failure) noexcept { return failure.status == 429 || failure.status == 503; }

bool is_idempotent(http::Method method) noexcept {
  using http::Method;
  return (Method::get | Method::head | Method::put | Method::del | Method::options).has(method);
}

}  // namespace

bool may_pass(const Failure& failure) noexcept {
  switch (failure.code()) {
    case ErrorCode::busy:
    case ErrorCode::quota:
    case ErrorCode::draining:
    case ErrorCode::degraded:
    case ErrorCode::breaker_open:
    case ErrorCode::not_ready:
    case ErrorCode::timeout_read:
    case ErrorCode::upstream:
    case ErrorCode::connection_lost:
      return true;
    case ErrorCode::timeout:
      // The server's own timeout may pass, as it may be faster next time. After our own timeout the patience
      // is used up.
      return failure.status != 0;
    default:
      return false;
  }
}

// The time at which a part of the request last moved.
struct Transport::Watched {
  Instant moved{};

  // Gives the body in pieces. When the client asks for the next piece, the one before has been sent.
  class Source final : public io::BodySource {
   public:
    Source(Watched& watched, ByteView body) : watched_(watched), left_(body) {}
    Task<Result<io::Piece>> next(Call) override {
      watched_.moved = current_shard()->now();
      const ByteView piece = left_.first(std::min(left_.size(), piece_size));
      left_ = left_.subspan(piece.size());
      co_return piece.empty() ? io::Piece() : io::Piece::memory(piece);
    }

   private:
    Watched& watched_;
    ByteView left_;
  };
};

Transport::Transport(io::Machine& machine, TransportOptions options)
    : machine_(machine),
      options_(std::move(options)),
      client_(machine, {.connections_max = options_.connections_max,
                        .idle_per_host_max = options_.connections_max,
                        .waiting_max = 1024,
                        .tls = options_.tls}) {}

std::string Transport::describe(const Ask& ask) const {
  return fmt::format("{} {} of {}", http::name_of(ask.method), ask.target,
                     format_endpoint(options_.endpoint));
}

http::ClientRequest Transport::make_request(const Ask& ask, Watched* watched) const {
  http::ClientRequest request;
  request.endpoint = options_.endpoint;
  request.method = ask.method;
  request.target = ask.target;
  if (!options_.endpoint.path.empty()) request.host = "localhost";
  request.repeatable = ask.repeatable;
  if (!options_.token.empty()) request.add_field("Authorization", "Bearer " + options_.token);
  for (const auto& [name, value] : ask.fields) request.add_field(name, value);
  if (!ask.has_body) return request;
  const ByteView body = ask.text.empty() ? ask.view : as_bytes(std::string_view(ask.text));
  if (watched != nullptr)
    request.set_source(std::make_unique<Watched::Source>(*watched, body), body.size());
  else
    request.set_view(as_text(body));
  return request;
}

Task<> Transport::watch(Call call, Watched* watched, CancelSource* stop, Duration stall) {
  for (;;) {
    const Instant due = watched->moved + stall;
    if (due <= current_shard()->now()) break;
    if (!co_await sleep_until(call, due)) co_return;
  }
  stop->cancel(StopReason::deadline);
}

Task<Result<http::ClientResponse>> Transport::attempt(Call call, http::ClientRequest request,
                                                      Watched* watched) {
  watched->moved = machine_.shard.now();
  CancelSource stop(machine_.shard, &call.cancel());
  Scope scope(machine_.shard, call);
  scope.spawn("stall-watch", watch(scope.call(), watched, &stop, options_.stall));
  auto answer = co_await client_.send(call.under(stop), std::move(request));
  scope.cancel(StopReason::superseded);
  (void)co_await scope.join(call.unbounded());
  if (!answer && stop.reason() == StopReason::deadline)
    co_return fail(Error(ErrorCode::timeout, "nothing moved for too long", Side::upstream));
  co_return answer;
}

Task<Outcome<http::ClientResponse>> Transport::try_once(Call call, const Ask* ask) {
  // A body that fits the socket is sent at once. Only a larger one can stand still on its way, and is
  // watched.
  const std::size_t body = ask->has_body ? std::max(ask->text.size(), ask->view.size()) : 0;
  Watched watched;
  const bool watches = body > piece_size;
  http::ClientRequest request = make_request(*ask, watches ? &watched : nullptr);
  auto answer = watches ? co_await attempt(call, std::move(request), &watched)
                        : co_await client_.send(call.within(options_.first_byte), std::move(request));
  if (!answer) co_return fail(Failure(answer.error()));
  const int status = answer->status();
  if (ask->any_answer || (status >= 200 && status < 300)) co_return std::move(*answer);
  auto text = co_await answer->read_text(call.within(options_.first_byte), error_body_max);
  Failure failure = parse_failure(status, text ? std::string_view(*text) : std::string_view());
  if (failure.code() == ErrorCode::unauthorized && options_.token.empty())
    failure.hint = options_.anonymous_hint;
  const http::Fields& fields = answer->head().fields;
  if (failure.corr_id.empty()) failure.corr_id = fields.get(http::FieldName::x_corr_id);
  if (!failure.retry_after)
    if (auto after = http::parse_content_length(fields.get(http::FieldName::retry_after));
        after && *after < 86400)
      failure.retry_after = Duration::seconds(static_cast<std::int64_t>(*after));
  co_return fail(std::move(failure));
}

Task<Outcome<http::ClientResponse>> Transport::send(Call call, Ask ask) {
  Backoff backoff(options_.backoff);
  Backoff polite({.base = options_.backoff.base, .cap = options_.backoff.cap, .tries = 0});
  Duration waited{};
  for (;;) {
    auto answer = co_await try_once(call, &ask);
    if (answer) co_return answer;
    Failure& failure = answer.error();
    failure.asked = describe(ask);
    const bool refused = was_refused(failure);
    if (!ask.patient || !may_pass(failure) || !(refused || ask.repeatable || is_idempotent(ask.method)))
      co_return answer;
    std::optional<Duration> wait =
        refused ? polite.next(machine_.shard.random()) : backoff.next(machine_.shard.random());
    if (!wait) co_return answer;
    if (failure.retry_after) wait = std::max(*wait, *failure.retry_after);
    waited = waited + *wait;
    if (waited > options_.first_byte || machine_.shard.now() + *wait >= call.deadline()) co_return answer;
    if (auto slept = co_await sleep_for(call, *wait); !slept) {
      Failure stopped(slept.error());
      stopped.asked = failure.asked;
      co_return fail(std::move(stopped));
    }
  }
}

Task<Outcome<std::string>> Transport::send_for_text(Call call, Ask ask, std::size_t cap) {
  std::string asked = describe(ask);
  CO_TRY(http::ClientResponse response, co_await send(call, std::move(ask)));
  std::string text;
  for (;;) {
    auto slice = co_await next(call, response);
    if (!slice || slice->size() > cap - text.size()) {
      Failure failure(slice ? Error(ErrorCode::upstream, "the answer is too long", Side::upstream)
                            : slice.error());
      failure.asked = std::move(asked);
      co_return fail(std::move(failure));
    }
    if (slice->empty()) co_return text;
    text += as_text(slice->bytes());
  }
}

Task<Result<Buffer>> Transport::next(Call call, http::ClientResponse& response) {
  return response.next(call.within(options_.stall));
}

}  // namespace cairn::client
