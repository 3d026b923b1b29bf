// How a request is passed on: to the upstream, and its answer back, block by block.
#include <algorithm>

#include "codec/decode_guard.h"
#include "http/peer_call.h"
#include "runtime/backoff.h"
#include "runtime/wait.h"
#include "services/gateway/passing.h"
#include "services/gateway/request_source.h"
#include "services/gateway/shard.h"

namespace cairn::gateway {
namespace {

// Only if no byte of an answer has come.
bool may_try_again(const serve::Request& request, const Error& why) noexcept {
  constexpr http::MethodSet idempotent =
      http::Method::get | http::Method::head | http::Method::put | http::Method::del | http::Method::options;
  return idempotent.has(request.head().method) && why.code == ErrorCode::connection_lost;
}

// The service behind does not see whether HTTP/1.1 has brought the request, which alone needs the key.
bool has_its_key(const serve::Request& request) noexcept {
  const http::Fields& fields = request.fields();
  return request.exchange.upgrade.empty() || !fields.has(http::FieldName::upgrade) ||
         fields.has(http::FieldName::sec_websocket_key);
}

// A call inside the process that has begun, and is not answered yet.
struct Begun final : serve::RequestState, PooledFrame {
  explicit Begun(serve::Peer::Handle of) noexcept : call(std::move(of)) {}
  serve::Peer::Handle call;
};

}  // namespace

bool GatewayShard::may_last(const serve::Request& request) noexcept {
  return request.head().path().ends_with("/stream") ||
         request.head().query().find("wait=") != std::string_view::npos;
}

Task<Result<Way::Try>> GatewayShard::ask(Call call, serve::Request* request, Way* way, http::PeerCall* passed,
                                         RequestSource* body, Asking asking) {
  Shard& shard = context_.machine.shard;
  Backoff backoff({});
  for (;;) {
    const Instant begun_at = shard.now();
    CO_TRY(Way::Try one, way->try_begin(begun_at));
    if (asking.lasting == Lasting::yes) one.give_place_back();
    if (!std::exchange(asking.has_begun, false)) {
      passed->start(asking.method, asking.target, request->peer());
      pass_fields(*request, *passed, !way->peer()->is_inside(), asking.choosing);
      if (!asking.range.empty()) passed->add_field(name_of(http::FieldName::range), asking.range);
      if (!asking.upgrade.empty()) passed->ask_to_switch(asking.upgrade);
      if (body != nullptr) passed->set_body(*body, body->length());
    }
    const Result<> answered = co_await passed->ask(call);
    if (body != nullptr && body->failure()) co_return fail(*body->failure());
    if (answered) co_return std::move(one);
    const Error& why = answered.error();
    if (why.code == ErrorCode::timeout && why.side == Side::upstream)
      context_.metrics.io_timeouts.at(why.undone ? serve::IoOp::connect : serve::IoOp::rpc)
          .add(context_.slot);
    const Instant heard = body == nullptr ? begun_at : std::max(begun_at, body->last_given());
    const Breaker::Verdict verdict = judge(call, *request, asking.lasting, why, heard);
    one.end(verdict, shard.now());
    if (verdict == Breaker::Verdict::failed || why.code == ErrorCode::degraded)
      way->tell_failure(why, shard.now());
    const bool begun = body != nullptr && body->is_begun();
    if (begun || !may_try_again(*request, why)) co_return fail(told_of(why));
    const auto wait = backoff.next(shard.random());
    if (!wait || shard.now() + *wait >= call.deadline()) co_return fail(told_of(why));
    CO_TRY_VOID(co_await sleep_for(call, *wait));
    way->count_retry();
    context_.metrics.backoff_retries.at(serve::Repeated::upstream).add(context_.slot);
  }
}

// A turn is taken for this moment alone, or kept for forward().
Result<bool> GatewayShard::try_forward(serve::Request& request, Upstream upstream) {
  serve::Peer* const peer = ways_[static_cast<std::size_t>(upstream)].peer();
  const http::RequestHead& head = request.head();
  const bool reads = head.method == http::Method::get || head.method == http::Method::head;
  if (peer == nullptr || !peer->is_inside() || !reads || head.body != http::BodyKind::none ||
      !request.exchange.upgrade.empty() || has_token(head.query()))
    return false;
  auto turn = turns_->try_take(reception_.seek(request));
  if (!turn) return false;
  request.take_context(context_.machine.shard.random());
  serve::Peer::Handle passed = peer->call();
  passed->start(head.method, head.origin_form(), request.peer());
  pass_fields(request, *passed, false);
  auto answered = passed->try_ask(request.context);
  if (!answered) return fail(told_of(answered.error()));
  if (*answered) {
    TRY_VOID(pass_answer(request, std::move(passed)));
    return true;
  }
  request.state = std::make_unique<Begun>(std::move(passed));
  request.turn = std::move(*turn);
  return false;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request outlives its handler
Task<Result<>> GatewayShard::pass_object(Call call, serve::Request& request) {
  Way& way = ways_[static_cast<std::size_t>(Upstream::storage)];
  const auto address = parse_address(request.route.at[0].text);
  const bool is_read = address && request.head().method == http::Method::get;
  if (!verify_ || !is_read || way.peer() == nullptr || way.peer()->is_inside() ||
      has_token(request.head().query()))
    return forward(call, request, Upstream::storage);
  return forward_verified(call, &request, &way, *address);
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request outlives its handler
Task<Result<>> GatewayShard::forward(Call call, serve::Request& request, Upstream upstream, Lasting lasting) {
  Way& way = ways_[static_cast<std::size_t>(upstream)];
  if (way.peer() == nullptr)
    co_return fail(ErrorCode::not_implemented, "the gateway is not told where this service is");
  if (has_token(request.head().query()))
    co_return fail(ErrorCode::malformed, "a capability belongs into Authorization, not into a URL",
                   Side::client);
  RequestSource body(request, context_.machine.slab, context_.settings.decode);
  auto* const begun = static_cast<Begun*>(request.state.get());
  serve::Peer::Handle passed = begun != nullptr ? std::move(begun->call) : way.peer()->call(lasting);
  request.exchange.taking_body = !request.body.done();
  const bool has_body = request.head().body != http::BodyKind::none;
  CO_TRY(Way::Try one, co_await ask(call, &request, &way, passed.get(), has_body ? &body : nullptr,
                                    {.method = request.head().method,
                                     .target = request.head().origin_form(),
                                     .upgrade = request.exchange.upgrade,
                                     .has_begun = begun != nullptr,
                                     .lasting = lasting}));
  one.end(Breaker::Verdict::good, context_.machine.shard.now());
  request.exchange.taking_body = false;
  if (passed->conversation() != nullptr && !has_its_key(request))
    co_return fail(ErrorCode::malformed, "no Sec-WebSocket-Key", Side::client);
  co_return pass_answer(request, std::move(passed));
}

Result<> GatewayShard::pass_answer(serve::Request& request, serve::Peer::Handle passed) {
  if (!pass_head(*passed, request.response))
    return fail(ErrorCode::upstream, "the answer's head cannot be passed on");
  answer_with(request.response, std::move(passed));
  return {};
}

// A timeout is the upstream's fault only if it was waited for, and if it had the whole of the request's time
// for the whole request. What the gateway itself has used up of it, in a queue or for an earlier try, was
// never the upstream's; a sixteenth is what a loaded machine takes in between.
Breaker::Verdict GatewayShard::judge(const Call& call, const serve::Request& request, Lasting lasting,
                                     const Error& why, Instant heard) const noexcept {
  using Verdict = Breaker::Verdict;
  if (call.stopped() || why.side != Side::upstream || why.code == ErrorCode::cancelled) return Verdict::none;
  if (why.code != ErrorCode::timeout) return Verdict::failed;
  const Duration whole = context_.settings.request_timeout;
  const bool shortened = request.deadline < request.started() + whole;
  const bool had_whole = context_.machine.shard.now() - heard >= whole - Duration::nanos(whole.ns / 16);
  const bool counts = had_whole && !shortened && lasting == Lasting::no && request.body.done();
  return counts ? Verdict::failed : Verdict::none;
}

}  // namespace cairn::gateway
