#include "http/h1/connection.h"

#include <array>
#include <cstring>

#include "runtime/wait.h"

namespace cairn::http {
namespace {

constexpr std::string_view continue_line = "HTTP/1.1 100 Continue\r\n\r\n";

}  // namespace

Connection::Connection(Server& server, std::unique_ptr<io::Stream> stream, io::TlsStream* handshake,
                       Gate::Admission admission, bool health_only, bool attends)
    : ServedConnection(server, std::move(stream), handshake, admission, health_only, attends),
      pace_(stream_->peer().local) {}

Connection::~Connection() {
  if (exchange_ != nullptr) server_.give_back(exchange_);
}

void Connection::abandon() {
  if (answering_) server_.answerer_.finished(*exchange_, false);
}

Task<> Connection::turn_away(Call call) {
  exchange_ = server_.borrow();
  server_.answerer_.refuse(*exchange_, server_.gate_.refusal());
  exchange_->response.close = true;
  if (append_small_answer() && co_await flush(call, {})) co_await linger(call);
}

// One iteration serves one request. A request that is answered at once needs no other frame, except to write.
Task<> Connection::serve(Call call) {
  for (;;) {
    // Wait for the first byte, holding no memory. A fresh connection is served even while draining.
    Instant waits_since = server_.machine_.shard.now();
    while (input_.empty()) {
      if (!stream_->readable.ready()) input_.reset();
      // Awaited even when ready: now and then it gives the turn to others.
      const bool last_chance = server_.is_over(attends_);
      const Call idle = last_chance ? call.within(fresh_ && !attends_ ? fresh_grace : Duration{})
                                    : call.under(attends_ ? *server_.attended_ : *server_.idle_);
      start_waiting(input_.empty(), waits_since);
      const Instant idle_until = waits_since + server_.options_.timeouts.idle;
      auto waited = co_await stream_->readable.wait(head_wait(idle.by(idle_until)));
      if (!stop_waiting(waited)) co_return;
      // When draining begins, bytes that have just arrived are still answered, and a fresh connection may
      // still ask.
      if (!waited && waited.error().stop != StopReason::draining && !last_chance) co_return;
      if (!input_) input_ = server_.machine_.slab.take(Slab::small - 64);
      input_.clear();
      const io::Io got = stream_->try_read(input_.room());
      if (got.status == io::IoStatus::done)
        input_.fill(got.count);
      else if (got.status != io::IoStatus::would_block || last_chance) {
        is_kept_ = got.status == io::IoStatus::would_block && may_be_kept();
        co_return;
      }
    }
    fresh_ = false;

    pace_.start_over();
    exchange_ = server_.borrow();
    WireExchange& exchange = *exchange_;
    exchange.peer = stream_->peer();
    exchange.encrypted = stream_->is_encrypted();
    waits_since = server_.machine_.shard.now();
    const Instant head_deadline = waits_since + server_.options_.timeouts.head;
    Parsed parsed = exchange.parser.parse(as_text(input_.bytes()));
    while (parsed.progress == Progress::need_more) {
      if (out_ && !out_.empty() && !co_await flush(call, {})) co_return;
      start_waiting(input_.empty(), waits_since);
      auto waited = co_await stream_->readable.wait(head_wait(call.by(head_deadline)));
      if (!stop_waiting(waited)) co_return;
      if (!waited) {
        if (waited.error().code != ErrorCode::timeout || !exchange.parser.started()) co_return;
        server_.gate_.timed_out(Gate::Slow::read);
        parsed = {
            Progress::failed, 0, {ErrorCode::timeout_read, "the head did not arrive in time", Side::client}};
        break;
      }
      if (!make_room()) {
        parsed = {Progress::failed, 0, {ErrorCode::headers_too_large, "head over its limit", Side::client}};
        break;
      }
      const io::Io got = stream_->try_read(input_.room());
      if (got.status == io::IoStatus::would_block) continue;
      if (got.status != io::IoStatus::done) co_return;  // half a head, then the end: no client to answer
      input_.fill(got.count);
      waits_since = server_.machine_.shard.now();
      parsed = exchange.parser.parse(as_text(input_.bytes()));
    }

    if (admission_ == Gate::Admission::extra &&
        !co_await find_place(call, exchange, parsed.progress != Progress::failed)) {
      stream_->close(true);
      co_return;
    }
    exchange.reserved = admission_ != Gate::Admission::welcome;
    exchange.without_place = admission_ == Gate::Admission::refused;
    exchange.attends = attends_ && !health_only_;
    exchange.health_only = health_only_;
    exchange.started = server_.machine_.shard.now();
    answering_ = true;
    if (parsed.progress == Progress::failed) {
      exchange.response.close = true;
      exchange.parser.head.rebase(as_text(input_.bytes()).data());  // the answerer may look at it
      server_.answerer_.refuse(exchange, parsed.error);
    } else {
      begin_request(parsed.size);
      if (begin() == Answerer::Next::handle) {
        if (out_ && !out_.empty() && !co_await flush(call, {})) {
          finish(false);  // begin() has counted it
          co_return;
        }
        co_await run_handler(call);
      }
    }

    Response& response = exchange.response;
    const bool fits = response.is_sound() && !(response.switches && exchange.upgrade.empty());
    if (!response.abandoned && !fits) answer_failure();
    const bool failed = parsed.progress == Progress::failed;
    // The head's bytes must stay until here: the request's views point at them. A handler that pulled the
    // body took it from behind the head.
    if (!failed) input_.consume(exchange.head_bytes);
    if (response.switches && !response.abandoned) {
      const bool complete = co_await converse(call);
      finish(complete);
      server_.give_back(std::exchange(exchange_, nullptr));
      if (complete)
        co_await linger(call);
      else
        stream_->close(true);
      co_return;
    }
    if (chunks_) input_ = std::exchange(chunks_, Buffer());
    const bool unread = failed || !skip_body();
    const bool last = server_.is_over(attends_) && !(exchange.is_health && may_be_kept());
    if (unread || last || !exchange.parser.framing.keep_alive) response.close = true;

    bool complete = !response.abandoned;
    if (response.abandoned) {
      // No client is left to answer.
    } else if (!append_small_answer()) {
      complete = co_await send_answer(call);
    } else if (response.close || input_.empty() || ++gathered_ >= server_.options_.pipelined ||
               out_.room().size() < head_room) {
      // Gathered answers wait only while requests that have already arrived are read.
      complete = co_await flush(call, {});
    }
    const bool close = response.close;
    finish(complete);
    server_.give_back(std::exchange(exchange_, nullptr));
    if (!complete) {
      stream_->close(true);
      co_return;
    }
    if (close) {
      // This also covers unread pipelined requests: closing a socket with unread bytes sends a reset.
      if (unread || !input_.empty() || stream_->readable.ready()) co_await linger(call);
      co_return;
    }
  }
}

void Connection::finish(bool complete) {
  answering_ = false;
  server_.answerer_.finished(*exchange_, complete);
}

void Connection::begin_request(std::size_t head_bytes) noexcept {
  exchange_->head_bytes = head_bytes;
  exchange_->wire_body.start(*this, exchange_->parser);
  exchange_->upgrade = wanted_protocol();
}

// Views of the head stay valid: only what is behind it moves.
void Connection::drop_behind_head(std::size_t count) noexcept {
  const std::size_t head = exchange_->head_bytes;
  auto* behind = const_cast<std::byte*>(input_.bytes().data()) + head;
  const std::size_t rest = input_.size() - head - count;
  std::memmove(behind, behind + count, rest);
  input_.truncate(head + rest);
}

bool Connection::make_room() {
  if (!input_.room().empty()) return true;
  input_.compact();  // behind answered requests of the same read
  if (!input_.room().empty()) return true;
  // The parser's limit, not the server's: the server's options may have changed since this head began.
  const std::size_t limit = exchange_->parser.limits().head_bytes;
  if (input_.size() >= limit) return true;  // the parser says so first; kept as the bound of the buffer
  Buffer larger = server_.machine_.slab.take(input_.capacity() < Slab::medium ? Slab::medium : Slab::large);
  if (larger.capacity() <= input_.size()) return false;
  std::memcpy(larger.room().data(), input_.bytes().data(), input_.size());
  larger.fill(input_.size());
  input_ = std::move(larger);
  return true;
}

// An exception is a bug of the handler: it costs this connection and nothing else.
Answerer::Next Connection::begin() {
  try {
    return server_.answerer_.begin(*exchange_);
  } catch (...) {  // the connection boundary
    answer_failure();
    return Answerer::Next::answered;
  }
}

void Connection::answer_failure() {
  exchange_->response.clear();
  exchange_->response.close = true;
  server_.answerer_.refuse(*exchange_, {ErrorCode::internal, "a handler failed"});
}

Task<> Connection::run_handler(Call call) {
  Exchange& exchange = *exchange_;
  CancelSource stop(server_.machine_.shard, &parent_of_waits(call));
  // The end of the peer's stream stops the work. A client that only closes its sending side cannot be told
  // from one that has left; by far the most have left. While the request's body is still being read, the
  // reader of the body finds that end, and sees whether the body came whole.
  struct Watch {
    CancelSource& stop;
    const Exchange& exchange;
    static void peer_gone(void* self) noexcept {
      auto& watch = *static_cast<Watch*>(self);
      if (watch.exchange.taking_body && !watch.exchange.body.done()) return;
      if (!watch.exchange.body.is_reading()) watch.stop.cancel(StopReason::client_gone);
    }
  } watch{stop, exchange};
  stream_->on_peer_gone(&Watch::peer_gone, &watch);
  bool threw = false;
  try {
    co_await server_.answerer_.handle(call.under(stop), exchange);
  } catch (...) {  // the connection boundary
    threw = true;
  }
  stream_->on_peer_gone(nullptr, nullptr);
  if (threw) answer_failure();
}

bool Connection::skip_body() noexcept {
  WireBody& body = exchange_->wire_body;
  if (body.done()) return true;
  if (body.kind_ != BodyKind::length || body.left_ > input_.size()) return false;
  input_.consume(static_cast<std::size_t>(body.left_));
  body.finish();
  return true;
}

Task<> Connection::linger(Call call) {
  input_.reset();
  co_await drop_arriving(call);
}

Task<Result<>> Connection::send_continue(Call call) {
  std::array<iovec, 1> parts{iovec{const_cast<char*>(continue_line.data()), continue_line.size()}};
  if (!co_await flush(call, parts)) co_return fail(ErrorCode::connection_lost, "100 Continue", Side::client);
  co_return Result<>{};
}

}  // namespace cairn::http
