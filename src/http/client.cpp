#include "http/client.h"

#include <algorithm>

#include "http/h1/client_exchange.h"
#include "http/h1/framing.h"
#include "http/h1/head_writer.h"
#include "io/tls_stream.h"
#include "runtime/cancel.h"
#include "runtime/wait.h"

namespace cairn::http {
namespace {

constexpr std::size_t spare_max = 64;

// For steps that find their stream ready: they do not wait, so they would not notice a stop or a deadline.
Result<> still_wanted(const Call& call) noexcept {
  if (call.stopped())
    return fail(Error(ErrorCode::cancelled, "request to a peer", Side::self, call.cancel().reason()));
  if (call.expired())
    return fail(Error(ErrorCode::timeout, "request to a peer", Side::self, StopReason::deadline));
  return {};
}

bool same(const io::Endpoint& a, const io::Endpoint& b) noexcept {
  return a.port == b.port && a.host == b.host && a.path == b.path && a.tls == b.tls;
}

}  // namespace

void ClientRequest::add_field(std::string_view name, std::string_view value) {
  const std::size_t before = lines_.size();
  lines_.resize(before + name.size() + value.size() + 4);
  HeadWriter writer({lines_.data() + before, lines_.size() - before});
  const FieldName known = find_field_name(name);
  if (known != FieldName::host && !is_framing(known) && !writer.append_field(name, value).failed()) return;
  lines_.resize(before);
  broken_ = true;
}

void ClientRequest::clear() noexcept {
  method = Method::get;
  target.assign("/");
  host.clear();
  repeatable = false;
  upgrade = {};
  kind = Body::none;
  view = {};
  text.clear();
  source.reset();
  length.reset();
  lines_.clear();
  broken_ = source_used_ = false;
}

bool ClientRequest::may_repeat() const noexcept {
  constexpr MethodSet idempotent = Method::get | Method::head | Method::put | Method::del | Method::options;
  return (repeatable || idempotent.has(method)) && !source_used_;
}

void ClientResponse::GiveBack::operator()(ClientExchange* exchange) const noexcept {
  exchange->client().give_back(exchange);
}

const ResponseHead& ClientResponse::head() const noexcept { return exchange_->head(); }
bool ClientResponse::done() const noexcept { return exchange_->done(); }
Task<Result<Buffer>> ClientResponse::next(Call call) { return exchange_->next(call); }
std::optional<Buffer> ClientResponse::take_whole() noexcept { return exchange_->take_whole(); }

Task<Result<>> ClientResponse::say(Call call, ByteView bytes) { return exchange_->say(call, bytes); }
void ClientResponse::end_saying() noexcept { exchange_->end_saying(); }

Task<Result<std::string>> ClientResponse::read_text(Call call, std::size_t cap) {
  std::string text;
  if (head().body == BodyKind::length && head().content_length > cap)
    co_return not_understood("answer over its cap");
  for (;;) {
    CO_TRY(const Buffer slice, co_await exchange_->next(call));
    if (slice.empty()) co_return text;
    if (slice.size() > cap - text.size()) co_return not_understood("answer over its cap");
    text += as_text(slice.bytes());
  }
}

Client::Client(io::Machine& machine, ClientOptions options)
    : machine_(machine),
      options_(std::move(options)),
      identity_(machine.shard.new_identity()),
      slots_(machine.shard, options_.connections_max) {
  CHECK(options_.connections_max > 0);
  idle_.reserve(options_.connections_max);
  spare_.reserve(spare_max);
}

// A process that crashes has not called close(): its kept connections end here.
Client::~Client() {
  idle_.clear();
  CHECK(live_ == 0 && open_ == 0 && closers_.empty());
}

void Client::raise_limit(std::size_t connections_max) {
  touch();
  if (connections_max <= options_.connections_max) return;
  idle_.reserve(connections_max);
  slots_.grow(connections_max - options_.connections_max);
  options_.connections_max = connections_max;
}

Client::Exchanging Client::borrow() {
  if (spare_.empty()) spare_.push_back(std::make_unique<ClientExchange>(*this));
  Exchanging exchange(spare_.back().release());
  spare_.pop_back();
  ++live_;
  return exchange;
}

void Client::give_back(ClientExchange* exchange) noexcept {
  touch();
  exchange->clear();
  std::unique_ptr<ClientExchange> owned(exchange);
  if (spare_.size() < spare_max) spare_.push_back(std::move(owned));
  if (--live_ != 0) return;
  while (!closers_.empty()) wake(closers_.front());
}

Task<Result<Permit>> Client::wait_for_slot(Call call) {
  if (waiting_ >= options_.waiting_max)
    co_return fail(ErrorCode::busy, "every connection is in use, and too many requests wait for one");
  ++waiting_;
  auto permit = co_await slots_.acquire(call);
  --waiting_;
  co_return permit;
}

Task<Result<ClientResponse>> Client::send(Call call, ClientRequest request) {
  co_return co_await attempt(call, request);
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller waits
Task<Result<ClientResponse>> Client::attempt(Call call, ClientRequest& request) {
  touch();
  if (closed_) co_return fail(ErrorCode::closed, "client");
  CO_TRY_VOID(still_wanted(call));
  sweep();
  Exchanging exchange = borrow();
  CO_TRY_VOID(exchange->write_head(request));
  Result<Permit> permit = slots_.try_acquire();
  if (!permit) {
    permit = co_await wait_for_slot(call);
    if (!permit) co_return fail(permit.error());
    if (closed_) co_return fail(ErrorCode::closed, "client");
    CO_TRY_VOID(still_wanted(call));
  }
  exchange->use(std::move(*permit));
  for (bool again = false;; again = true) {
    std::unique_ptr<Connection> connection = again ? nullptr : take_idle(request.endpoint);
    const bool kept = connection != nullptr;
    if (!kept) {
      CO_TRY(connection, co_await open(call, request.endpoint));
    }
    exchange->use(std::move(connection));
    const auto answered = co_await exchange->run(call, request);
    if (answered) co_return ClientResponse(std::move(exchange));
    exchange->drop();
    const bool stale = kept && !exchange->answered() && answered.error().code == ErrorCode::connection_lost;
    if (!stale || !request.may_repeat()) co_return fail(answered.error());
  }
}

std::unique_ptr<Client::Connection> Client::take_idle(const io::Endpoint& endpoint) noexcept {
  touch();
  // The connection used last is the most likely to be alive. The others may age and be swept.
  for (std::size_t i = idle_.size(); i-- > 0;) {
    if (!same(idle_[i]->endpoint, endpoint)) continue;
    std::unique_ptr<Connection> connection = std::move(idle_[i]);
    idle_.erase(idle_.begin() + static_cast<std::ptrdiff_t>(i));
    if (connection->is_quiet()) return connection;
  }
  return nullptr;
}

Task<Result<std::unique_ptr<Client::Connection>>> Client::open(Call call, io::Endpoint endpoint) {
  touch();
  // Every connection in use has a slot, and so has this one. So above the bound at least one is idle.
  if (open_ >= options_.connections_max) {
    CHECK(!idle_.empty());
    idle_.erase(idle_.begin());
  }
  CHECK(open_ < options_.connections_max);
  auto connection = std::make_unique<Connection>(*this, endpoint);
  auto stream = co_await connect(call, endpoint);
  if (!stream) co_return fail(blame_upstream(stream.error()).as_undone());
  connection->attach(std::move(*stream));
  co_return connection;
}

Task<Result<std::unique_ptr<io::Stream>>> Client::connect(Call call, io::Endpoint endpoint) {
  if (!endpoint.tls) co_return co_await machine_.network.connect(call, std::move(endpoint));
  if (options_.tls == nullptr) co_return fail(ErrorCode::invalid, "a client without TLS");
  CO_TRY(auto below, co_await machine_.network.connect(call, endpoint));
  co_return co_await io::connect_tls(call, options_.tls, &machine_.shard, &machine_.slab, std::move(below),
                                     endpoint.host);
}

void Client::keep(std::unique_ptr<Connection> connection) noexcept {
  touch();
  if (closed_) return;
  const auto is_beside = [&](const auto& other) { return same(other->endpoint, connection->endpoint); };
  if (idle_.size() >= options_.idle_per_host_max &&  // else they need not be counted
      static_cast<std::size_t>(std::ranges::count_if(idle_, is_beside)) >= options_.idle_per_host_max)
    return;
  connection->idle_since = machine_.shard.now();
  idle_.push_back(std::move(connection));
}

std::size_t Client::sweep() noexcept {
  touch();
  const Instant now = machine_.shard.now();
  const auto fresh = std::ranges::find_if(
      idle_, [&](const auto& one) { return one->idle_since + options_.idle_timeout > now; });
  const auto count = static_cast<std::size_t>(fresh - idle_.begin());
  idle_.erase(idle_.begin(), fresh);
  return count;
}

Task<> Client::close(Call call) {
  touch();
  closed_ = true;
  idle_.clear();
  while (live_ != 0) {
    if (!co_await ListWait(call, closers_, "close")) co_return;
  }
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): a client outlives its calls
Task<Result<ClientResponse>> send_with_retries(Call call, Client& client, ClientRequest request,
                                               RetryPolicy policy) {
  co_return co_await attempt_with_retries(call, client, request, policy);
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): both outlive the call
Task<Result<ClientResponse>> attempt_with_retries(Call call, Client& client, ClientRequest& request,
                                                  RetryPolicy policy) {
  const Call bounded = call.within(policy.total);
  Backoff backoff(policy.backoff);
  for (;;) {
    auto answer = co_await client.attempt(bounded, request);
    if (answer || answer.error().retry() == Retry::no || !request.may_repeat()) co_return answer;
    const auto wait = backoff.next(client.shard().random());
    if (!wait || client.shard().now() + *wait >= bounded.deadline()) co_return answer;
    CO_TRY_VOID(co_await sleep_for(bounded, *wait));
  }
}

}  // namespace cairn::http
