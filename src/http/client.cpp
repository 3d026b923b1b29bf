#include "http/client.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "http/chunked.h"
#include "http/framing.h"
#include "runtime/cancel.h"
#include "runtime/wait.h"

namespace cairn::http {
namespace {

// What a peer may send before its answer without making us read for ever.
constexpr unsigned interim_heads_max = 16;
constexpr std::size_t spare_max = 64;

iovec part(std::string_view text) noexcept { return {const_cast<char*>(text.data()), text.size()}; }

std::unexpected<Error> lost(const char* context) noexcept {
  return fail(ErrorCode::connection_lost, context, Side::upstream);
}
std::unexpected<Error> not_understood(const char* context) noexcept {
  return fail(ErrorCode::upstream, context, Side::upstream);
}

// Time that ran out while a peer was asked is the peer's.
Error blame_upstream(Error error) noexcept {
  if (error.code == ErrorCode::timeout) error.side = Side::upstream;
  return error;
}
Result<> blame_upstream(Result<> waited) noexcept {
  if (waited) return waited;
  return fail(blame_upstream(waited.error()));
}

// For steps that find their stream ready and would not notice otherwise.
Result<> still_wanted(const Call& call) noexcept {
  if (call.stopped())
    return fail(Error(ErrorCode::cancelled, "request to a peer", Side::self, call.cancel().reason()));
  if (call.expired())
    return fail(Error(ErrorCode::timeout, "request to a peer", Side::self, StopReason::deadline));
  return {};
}

bool same(const io::Endpoint& a, const io::Endpoint& b) noexcept {
  return a.port == b.port && a.host == b.host && a.path == b.path;
}

bool is_framing(FieldName name) noexcept {
  switch (name) {
    case FieldName::connection:
    case FieldName::content_length:
    case FieldName::expect:
    case FieldName::host:
    case FieldName::keep_alive:
    case FieldName::te:
    case FieldName::trailer:
    case FieldName::transfer_encoding:
    case FieldName::upgrade:
      return true;
    default:
      return false;
  }
}

// A slice that fills little of its block moves to a smaller one: whoever gathers slices of a slow peer must
// not hold sixteen times their size.
Buffer fit(Slab& slab, Buffer slice) {
  if (slice.capacity() <= Slab::small || slice.size() * 4 >= slice.capacity()) return slice;
  Buffer smaller = slab.take(slice.size());
  std::memcpy(smaller.room().data(), slice.bytes().data(), slice.size());
  smaller.fill(slice.size());
  return smaller;
}

}  // namespace

void ClientRequest::add_field(std::string_view name, std::string_view value) {
  const std::size_t before = lines_.size();
  lines_.resize(before + name.size() + value.size() + 4);
  HeadWriter writer({lines_.data() + before, lines_.size() - before});
  if (!is_framing(find_field_name(name)) && !writer.append_field(name, value).failed()) return;
  lines_.resize(before);
  broken_ = true;
}

bool ClientRequest::may_repeat() const noexcept {
  constexpr MethodSet idempotent = Method::get | Method::head | Method::put | Method::del | Method::options;
  return (repeatable || idempotent.has(method)) && !source_used_;
}

struct Client::Connection {
  Connection(Client& owner, const io::Endpoint& to) : client(owner), endpoint(to) { ++client.open_; }
  ~Connection() {
    if (stream) {
      stream->on_peer_gone(nullptr, nullptr);
      stream->close();
    }
    --client.open_;
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void attach(std::unique_ptr<io::Stream> connected) noexcept {
    stream = std::move(connected);
    stream->on_peer_gone([](void* self) noexcept { static_cast<Connection*>(self)->peer_gone(); }, this);
  }
  // The end may come together with the last bytes; no other edge tells of it once these were read. And who
  // waits for room to send must come and see whether an answer was the reason.
  void peer_gone() noexcept {
    gone = true;
    stream->writable.signal();
  }
  // Nothing has come since the last answer, no end either.
  bool is_quiet() noexcept {
    if (gone) return false;
    if (!stream->readable.ready()) return true;
    std::byte unasked;
    return stream->try_read({&unasked, 1}).status == io::IoStatus::would_block;
  }

  Client& client;
  io::Endpoint endpoint;
  std::unique_ptr<io::Stream> stream;
  Instant idle_since{};
  bool gone = false;
};

// One request and its answer on one connection at a time. Comes from the client's spares; outlives the
// connection's part in it, so that the head can still be read.
class ClientExchange {
 public:
  explicit ClientExchange(Client& client) : client_(client), parser_(client.options_.head) {}

  Client& client() noexcept { return client_; }
  const ResponseHead& head() const noexcept { return parser_.head; }
  bool done() const noexcept { return done_; }
  bool answered() const noexcept { return answered_; }

  Result<> write_head(const ClientRequest& request);
  void use(Permit permit) noexcept { permit_ = std::move(permit); }
  void use(std::unique_ptr<Client::Connection> connection) noexcept { connection_ = std::move(connection); }
  // Sends the request and reads the head of the answer. Cancel: partial — drop() must follow an error.
  Task<Result<>> run(Call call, ClientRequest& request);
  Task<Result<Buffer>> next(Call call);
  void drop() noexcept { connection_.reset(); }
  void clear() noexcept;

 private:
  // False when the sending ended because the answer is here.
  Task<Result<bool>> send_body(Call call, ClientRequest& request);
  Task<Result<bool>> write(Call call, std::span<iovec> parts);
  // Takes in what has arrived without waiting; true when the answer's head is complete.
  Result<bool> poll_head();
  Result<bool> parse_head();
  void make_room();
  void start_body() noexcept;
  void finish() noexcept;

  Task<Result<Buffer>> next_plain(Call call);
  Task<Result<Buffer>> next_chunk(Call call);
  // A block with at least one byte and at most `most`; empty at the end of the stream.
  Task<Result<Buffer>> receive(Call call, std::uint64_t most);

  io::Stream& stream() noexcept { return *connection_->stream; }
  Slab& slab() noexcept { return client_.machine_.slab; }

  Client& client_;
  Permit permit_;
  std::unique_ptr<Client::Connection> connection_;
  Method method_ = Method::get;
  Buffer out_;  // the request's head, until it was sent for good
  ResponseParser parser_;
  Buffer input_;  // from the answer's first byte on; its head points in here
  std::size_t head_bytes_ = 0;
  unsigned interim_heads_ = 0;
  bool answered_ = false;  // a byte of an answer has come
  bool reusable_ = false;
  bool done_ = false;
  Buffer raw_;  // of the body: received and not yet given out
  std::uint64_t left_ = 0;
  ChunkedDecoder chunks_;
  std::optional<Error> failure_;
};

void ClientExchange::clear() noexcept {
  drop();
  permit_ = Permit();
  out_.reset();
  input_.reset();
  raw_.reset();
  answered_ = reusable_ = done_ = false;
  chunks_.reset();
  failure_.reset();
}

Result<> ClientExchange::write_head(const ClientRequest& request) {
  const auto invalid = [] { return fail(ErrorCode::invalid, "request head"); };
  // The answer to CONNECT is framed by other rules.
  if (request.broken_ || request.method == Method::connect || request.method == Method::trace)
    return invalid();
  if (!request.target.starts_with('/') && request.target != "*") return invalid();
  method_ = request.method;
  const bool local = !request.endpoint.path.empty();
  const std::string host = !request.host.empty() ? request.host
                           : local               ? "localhost"
                                                 : format_endpoint(request.endpoint);
  if (!is_valid_host(host)) return invalid();
  const std::size_t size = request.target.size() + host.size() + request.lines_.size() + 256;
  if (size > Slab::large) return invalid();
  out_ = slab().take(size);
  HeadWriter head({reinterpret_cast<char*>(out_.room().data()), out_.room().size()});
  head.request(name_of(method_), request.target)
      .append_field(FieldName::host, host)
      .append_lines(request.lines_);
  switch (request.kind) {
    case ClientRequest::Body::view:
      head.append_number(FieldName::content_length, request.view.size());
      break;
    case ClientRequest::Body::text:
      head.append_number(FieldName::content_length, request.text.size());
      break;
    case ClientRequest::Body::stream:
      if (request.length)
        head.append_number(FieldName::content_length, *request.length);
      else
        head.append_field(FieldName::transfer_encoding, "chunked");
      break;
    case ClientRequest::Body::none:
      if ((Method::post | Method::put | Method::patch).has(method_))
        head.append_number(FieldName::content_length, 0);
      break;
  }
  const auto written = head.finish();
  if (!written) return invalid();
  out_.fill(written->size());
  return {};
}

Task<Result<>> ClientExchange::run(Call call, ClientRequest& request) {
  input_.reset();
  parser_.reset(method_);
  interim_heads_ = 0;
  CO_TRY(bool sent, co_await send_body(call, request));
  if (sent) {
    for (;;) {
      CO_TRY(const bool complete, poll_head());
      if (complete) break;
      CO_TRY_VOID(blame_upstream(co_await stream().readable.wait(call)));
    }
  }
  if (head().status == 101) co_return not_understood("protocol switched unasked");
  // What was not sent of the request would be read as the next one.
  reusable_ = sent && head().keep_alive;
  out_.reset();
  start_body();
  co_return Result<>{};
}

Task<Result<bool>> ClientExchange::send_body(Call call, ClientRequest& request) {
  std::array<iovec, 3> parts{part(as_text(out_.bytes()))};
  if (request.kind != ClientRequest::Body::stream) {
    parts[1] = part(request.kind == ClientRequest::Body::text   ? std::string_view(request.text)
                    : request.kind == ClientRequest::Body::view ? request.view
                                                                : std::string_view{});
    co_return co_await write(call, {parts.data(), parts[1].iov_len == 0 ? 1u : 2u});
  }
  // The head goes ahead: a refusal, or a connection found dead, then costs nothing of the source.
  CO_TRY(bool going, co_await write(call, {parts.data(), 1}));
  std::uint64_t left = request.length.value_or(0);
  for (bool last = false; going && !last;) {
    request.source_used_ = true;
    CO_TRY(const Buffer slice, co_await request.source->next(call));
    last = slice.empty();
    if (request.length) {
      if (last ? left != 0 : slice.size() > left)
        co_return fail(ErrorCode::invalid, "body is not of its length");
      if (last) break;
      left -= slice.size();
      parts[0] = part(as_text(slice.bytes()));
      CO_TRY(going, co_await write(call, {parts.data(), 1}));
      continue;
    }
    std::array<char, 20> size;
    char* at = std::to_chars(size.data(), size.data() + 16, slice.size(), 16).ptr;
    std::memcpy(at, "\r\n", 2);
    parts[0] = part({size.data(), static_cast<std::size_t>(at + 2 - size.data())});
    parts[1] = part(as_text(slice.bytes()));
    parts[last ? 1 : 2] = part("\r\n");
    CO_TRY(going, co_await write(call, {parts.data(), last ? 2u : 3u}));
  }
  co_return going;
}

Task<Result<bool>> ClientExchange::write(Call call, std::span<iovec> parts) {
  while (!parts.empty()) {
    CO_TRY_VOID(still_wanted(call));
    CO_TRY(const bool early, poll_head());
    if (early) co_return false;
    const io::Io sent = stream().try_writev(parts);
    if (sent.status == io::IoStatus::would_block) {
      CO_TRY_VOID(blame_upstream(co_await stream().writable.wait(call)));
      continue;
    }
    if (sent.status != io::IoStatus::done) {
      // Why it stopped reading may be waiting to be read.
      connection_->gone = true;
      CO_TRY(const bool explained, poll_head());
      if (explained) co_return false;
      co_return lost("the request could not be sent");
    }
    std::size_t rest = sent.count;
    while (!parts.empty() && rest >= parts[0].iov_len) {
      rest -= parts[0].iov_len;
      parts = parts.subspan(1);
    }
    if (rest > 0) {
      parts[0].iov_base = static_cast<char*>(parts[0].iov_base) + rest;
      parts[0].iov_len -= rest;
    }
  }
  co_return true;
}

void ClientExchange::make_room() {
  if (!input_) input_ = slab().take(Slab::small - 64);
  if (!input_.room().empty()) return;
  input_.compact();
  if (!input_.room().empty()) return;
  // The parser refuses a head before it fills the largest block.
  CHECK(input_.capacity() < Slab::large);
  Buffer larger = slab().take(input_.capacity() < Slab::medium ? Slab::medium : Slab::large);
  std::memcpy(larger.room().data(), input_.bytes().data(), input_.size());
  larger.fill(input_.size());
  input_ = std::move(larger);
}

Result<bool> ClientExchange::poll_head() {
  while (stream().readable.ready() || connection_->gone) {
    make_room();
    const io::Io got = stream().try_read(input_.room());
    if (got.status == io::IoStatus::would_block) break;
    if (got.status != io::IoStatus::done)
      return lost(answered_ ? "the answer was cut off" : "closed before an answer");
    input_.fill(got.count);
    answered_ = true;
    TRY(const bool complete, parse_head());
    if (complete) return true;
  }
  if (input_ && input_.empty()) input_.reset();
  return false;
}

Result<bool> ClientExchange::parse_head() {
  while (!input_.empty()) {
    const Parsed parsed = parser_.parse(as_text(input_.bytes()));
    if (parsed.progress == Progress::need_more) return false;
    if (parsed.progress == Progress::failed) return fail(parsed.error);
    head_bytes_ = parsed.size;
    if (!head().interim()) return true;
    if (++interim_heads_ > interim_heads_max) return not_understood("too many interim answers");
    input_.consume(parsed.size);
    parser_.reset(method_);
  }
  return false;
}

void ClientExchange::start_body() noexcept {
  left_ = head().content_length;
  if (input_.size() > head_bytes_) {
    raw_ = input_.share();
    raw_.consume(head_bytes_);
  }
  if (head().body == BodyKind::none || (head().body == BodyKind::length && left_ == 0)) finish();
}

// The end of the body, of which raw_ holds what should not be there.
void ClientExchange::finish() noexcept {
  done_ = true;
  std::unique_ptr<Client::Connection> connection = std::move(connection_);
  if (reusable_ && raw_.empty() && !connection->gone) client_.keep(std::move(connection));
  connection.reset();
  raw_.reset();
  permit_ = Permit();
}

Task<Result<Buffer>> ClientExchange::next(Call call) {
  if (failure_) co_return fail(*failure_);
  if (done_) co_return Buffer();
  auto slice = co_await (head().body == BodyKind::chunked ? next_chunk(call) : next_plain(call));
  if (!slice) {
    failure_ = slice.error();
    drop();
    permit_ = Permit();
  }
  co_return slice;
}

Task<Result<Buffer>> ClientExchange::next_plain(Call call) {
  const bool bounded = head().body == BodyKind::length;
  Buffer slice = std::exchange(raw_, Buffer());
  if (slice.empty()) {
    CO_TRY(slice, co_await receive(call, bounded ? left_ : Slab::large));
    if (slice.empty() && bounded) co_return lost("the body was cut off");
    if (slice.empty()) finish();
  }
  if (!bounded) co_return slice;
  if (slice.size() > left_) {
    slice.truncate(static_cast<std::size_t>(left_));
    reusable_ = false;
  }
  left_ -= slice.size();
  if (left_ == 0) finish();
  co_return slice;
}

Task<Result<Buffer>> ClientExchange::next_chunk(Call call) {
  for (;;) {
    while (!raw_.empty()) {
      const ChunkedDecoder::Step step = chunks_.next(as_text(raw_.bytes()));
      if (step.kind == ChunkedDecoder::Kind::failed) co_return not_understood(step.error.context);
      Buffer slice;
      if (step.kind == ChunkedDecoder::Kind::data) {
        slice = raw_.share();
        slice.consume(static_cast<std::size_t>(step.data.data() - as_text(raw_.bytes()).data()));
        slice.truncate(step.data.size());
      }
      raw_.consume(step.consumed);
      if (step.kind == ChunkedDecoder::Kind::data) co_return fit(slab(), std::move(slice));
      if (step.kind == ChunkedDecoder::Kind::done) {
        finish();
        co_return Buffer();
      }
    }
    raw_.reset();
    CO_TRY(raw_, co_await receive(call, Slab::large));
    if (raw_.empty()) co_return lost("the body was cut off");
  }
}

Task<Result<Buffer>> ClientExchange::receive(Call call, std::uint64_t most) {
  CO_TRY_VOID(still_wanted(call));
  // What is left of a peer that is gone is read without waiting; for the others this wait, when ready, only
  // gives way to other tasks now and then.
  bool waits = !connection_->gone;
  for (;; waits = true) {
    if (waits) CO_TRY_VOID(blame_upstream(co_await stream().readable.wait(call)));
    // Taken after the wait: a slow peer holds no block.
    Buffer block = slab().take(static_cast<std::size_t>(std::min<std::uint64_t>(most, Slab::large)));
    MutableByteView room = block.room();
    if (room.size() > most) room = room.first(static_cast<std::size_t>(most));
    const io::Io got = stream().try_read(room);
    if (got.status == io::IoStatus::would_block) continue;
    if (got.status == io::IoStatus::eof) co_return Buffer();
    if (got.status == io::IoStatus::failed) co_return lost("the body was cut off");
    block.fill(got.count);
    co_return fit(slab(), std::move(block));
  }
}

void ClientResponse::GiveBack::operator()(ClientExchange* exchange) const noexcept {
  exchange->client().give_back(exchange);
}

const ResponseHead& ClientResponse::head() const noexcept { return exchange_->head(); }
bool ClientResponse::done() const noexcept { return exchange_->done(); }
Task<Result<Buffer>> ClientResponse::next(Call call) { return exchange_->next(call); }

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
      options_(options),
      identity_(machine.shard.new_identity()),
      slots_(machine.shard, options.connections_max) {
  CHECK(options.connections_max > 0);
  idle_.reserve(options.connections_max);
  spare_.reserve(spare_max);
}

Client::~Client() { CHECK(live_ == 0 && open_ == 0 && closers_.empty()); }

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
    co_return fail(ErrorCode::busy, "too many requests wait for a connection");
  ++waiting_;
  auto permit = co_await slots_.acquire(call);
  --waiting_;
  co_return permit;
}

Task<Result<ClientResponse>> Client::send(Call call, ClientRequest request) {
  co_return co_await attempt(call, request);
}

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
  // The one used last is the one most likely to be alive; the others may age and go.
  for (std::size_t i = idle_.size(); i-- > 0;) {
    if (!same(idle_[i]->endpoint, endpoint)) continue;
    std::unique_ptr<Connection> connection = std::move(idle_[i]);
    idle_.erase(idle_.begin() + static_cast<std::ptrdiff_t>(i));
    if (connection->is_quiet()) return connection;
  }
  return nullptr;
}

Task<Result<std::unique_ptr<Client::Connection>>> Client::open(Call call, const io::Endpoint& endpoint) {
  touch();
  // Those in use have a slot each, and this one too: above the bound somebody is idle.
  if (open_ >= options_.connections_max) {
    CHECK(!idle_.empty());
    idle_.erase(idle_.begin());
  }
  CHECK(open_ < options_.connections_max);
  auto connection = std::make_unique<Connection>(*this, endpoint);
  auto stream = co_await machine_.network.connect(call, endpoint);
  if (!stream) co_return fail(blame_upstream(stream.error()));
  connection->attach(std::move(*stream));
  co_return connection;
}

void Client::keep(std::unique_ptr<Connection> connection) noexcept {
  touch();
  if (closed_) return;
  const auto beside = std::ranges::count_if(
      idle_, [&](const auto& other) { return same(other->endpoint, connection->endpoint); });
  if (static_cast<std::size_t>(beside) >= options_.idle_per_host_max) return;
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

Task<Result<ClientResponse>> send_with_retries(Call call, Client& client, ClientRequest request,
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
