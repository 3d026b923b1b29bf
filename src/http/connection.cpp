#include "http/connection.h"

#include <array>
#include <cstring>

#include "runtime/wait.h"

namespace cairn::http {
namespace {

iovec part(std::string_view text) noexcept { return {const_cast<char*>(text.data()), text.size()}; }

constexpr std::string_view continue_line = "HTTP/1.1 100 Continue\r\n\r\n";

// Leaves room for any head behind an answer that is already gathered.
constexpr std::size_t head_room = 2048;

// How long a connection that has not yet asked anything may still do so when draining begins.
constexpr Duration fresh_grace = Duration::millis(250);

}  // namespace

Connection::~Connection() {
  if (exchange_ != nullptr) server_.give_back(exchange_);
  --server_.connections_;
  if (admission_ == Handler::Admission::refused) --server_.refusals_;
  server_.handler_.left(stream_->peer(), admission_);
}

Task<> Connection::run(Call call, std::unique_ptr<Connection> self) {
  if (self->admission_ == Handler::Admission::refused)
    co_await self->turn_away(call);
  else
    co_await self->serve(call);
  self->stream_->close();
}

Task<> Connection::turn_away(Call call) {
  exchange_ = server_.borrow();
  server_.handler_.refuse(*exchange_, {ErrorCode::busy, "too many connections", Side::client});
  exchange_->response.close = true;
  if (append_small_answer() && co_await flush(call, {})) co_await linger(call);
}

// One iteration is one request. Answered at once, it runs in this frame alone but for the write.
Task<> Connection::serve(Call call) {
  for (;;) {
    // Wait for the first byte, holding no memory. A fresh connection is served even while draining.
    while (input_.empty()) {
      if (!stream_->readable.ready()) input_.reset();
      // Awaited even when ready: now and then it gives the turn to others.
      const bool last_chance = server_.draining_;
      const Call idle =
          last_chance ? call.within(fresh_ ? fresh_grace : Duration{}) : call.under(*server_.idle_);
      auto waited = co_await stream_->readable.wait(idle.within(server_.options_.timeouts.idle));
      // Draining: what has arrived in this moment is still answered, and who has just come may still ask.
      if (!waited && waited.error().stop != StopReason::draining && !last_chance) co_return;
      if (!input_) input_ = server_.machine_.slab.take(Slab::small - 64);
      input_.clear();
      const io::Io got = stream_->try_read(input_.room());
      if (got.status == io::IoStatus::done)
        input_.fill(got.count);
      else if (got.status != io::IoStatus::would_block || last_chance)
        co_return;
    }
    fresh_ = false;

    exchange_ = server_.borrow();
    Exchange& exchange = *exchange_;
    exchange.peer = stream_->peer();
    exchange.reserved = admission_ == Handler::Admission::reserved;
    const Instant head_deadline = server_.machine_.shard.now() + server_.options_.timeouts.head;
    Parsed parsed = exchange.parser.parse(as_text(input_.bytes()));
    while (parsed.progress == Progress::need_more) {
      if (out_ && !out_.empty() && !co_await flush(call, {})) co_return;
      auto waited = co_await stream_->readable.wait(call.by(head_deadline));
      if (!waited) {
        if (waited.error().code != ErrorCode::timeout || !exchange.parser.started()) co_return;
        server_.handler_.timed_out(Handler::Slow::read);
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
      if (got.status != io::IoStatus::done) co_return;  // half a head, then the end: nobody to answer
      input_.fill(got.count);
      parsed = exchange.parser.parse(as_text(input_.bytes()));
    }

    exchange.started = server_.machine_.shard.now();
    if (parsed.progress == Progress::failed) {
      exchange.response.close = true;
      exchange.parser.head.rebase(as_text(input_.bytes()).data());  // what was read of it may be looked at
      server_.handler_.refuse(exchange, parsed.error);
    } else {
      begin_request(parsed.size);
      if (begin() == Handler::Next::handle) {
        if (out_ && !out_.empty() && !co_await flush(call, {})) {
          server_.handler_.finished(exchange, false);  // begin() has counted it
          co_return;
        }
        co_await run_handler(call);
      }
    }

    Response& response = exchange.response;
    const bool failed = parsed.progress == Progress::failed;
    // The head's bytes must stay until here: the request's views point at them. A handler that pulled the
    // body took it from behind the head.
    if (!failed) input_.consume(exchange.head_bytes);
    if (chunks_) input_ = std::exchange(chunks_, Buffer());
    const bool unread = failed || !skip_body();
    if (unread || server_.draining_ || !exchange.request().keep_alive) response.close = true;

    bool complete = !response.abandoned;
    if (response.abandoned) {
      // Nobody to answer.
    } else if (!append_small_answer()) {
      complete = co_await send_answer(call);
    } else if (response.close || input_.empty() || ++gathered_ >= server_.options_.pipelined ||
               out_.room().size() < head_room) {
      // Nothing gathered waits longer than the requests that are already here.
      complete = co_await flush(call, {});
    }
    const bool close = response.close;
    server_.handler_.finished(exchange, complete);
    server_.give_back(std::exchange(exchange_, nullptr));
    if (!complete) {
      stream_->close(true);
      co_return;
    }
    if (close) {
      // Also behind what was pipelined: closing on bytes that nobody read is a reset.
      if (unread || !input_.empty() || stream_->readable.ready()) co_await linger(call);
      co_return;
    }
  }
}

void Connection::begin_request(std::size_t head_bytes) noexcept {
  exchange_->head_bytes = head_bytes;
  exchange_->body.start(*this, exchange_->request());
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
  const std::size_t limit = server_.options_.head.head_bytes;
  if (input_.size() >= limit) return true;  // the parser says so first; kept as the bound of the buffer
  Buffer larger = server_.machine_.slab.take(input_.capacity() < Slab::medium ? Slab::medium : Slab::large);
  if (larger.capacity() <= input_.size()) return false;
  std::memcpy(larger.room().data(), input_.bytes().data(), input_.size());
  larger.fill(input_.size());
  input_ = std::move(larger);
  return true;
}

// An exception is a bug of the handler: it costs this connection and nothing else.
Handler::Next Connection::begin() {
  try {
    return server_.handler_.begin(*exchange_);
  } catch (...) {  // the connection boundary
    answer_failure();
    return Handler::Next::answered;
  }
}

void Connection::answer_failure() {
  exchange_->response.clear();
  exchange_->response.close = true;
  server_.handler_.refuse(*exchange_, {ErrorCode::internal, "a handler failed"});
}

Task<> Connection::run_handler(Call call) {
  Exchange& exchange = *exchange_;
  CancelSource stop(server_.machine_.shard, &call.cancel());
  // The peer's end of the stream, seen while we work, stops the work. A client that only closes its sending
  // side cannot be told from one that left; by far the most have left.
  struct Watch {
    CancelSource& stop;
    static void peer_gone(void* self) noexcept {
      static_cast<Watch*>(self)->stop.cancel(StopReason::client_gone);
    }
  } watch{stop};
  stream_->on_peer_gone(&Watch::peer_gone, &watch);
  bool threw = false;
  try {
    co_await server_.handler_.handle(call.under(stop).by(exchange.deadline), exchange);
  } catch (...) {  // the connection boundary
    threw = true;
  }
  stream_->on_peer_gone(nullptr, nullptr);
  if (threw) answer_failure();
}

bool Connection::write_head() noexcept {
  Exchange& exchange = *exchange_;
  Response& response = exchange.response;
  MutableByteView room = out_.room();
  HeadWriter head({reinterpret_cast<char*>(room.data()), room.size()});
  head.status(response.status).append_lines(server_.date_line());
  head.append_field(FieldName::x_corr_id, exchange.corr());
  head.append_lines(response.lines());
  if (!response.content_type.empty()) head.append_field(FieldName::content_type, response.content_type);
  const bool has_length =
      response.kind != Response::Body::stream && response.status != 204 && response.status != 304;
  if (has_length)
    head.append_number(FieldName::content_length, response.size());
  else if (response.kind == Response::Body::stream && exchange.request().minor >= 1)
    head.append_lines("Transfer-Encoding: chunked\r\n");
  else if (response.kind == Response::Body::stream)
    response.close = true;
  if (response.close)
    head.append_lines("Connection: close\r\n");
  else if (exchange.request().minor == 0)
    head.append_lines("Connection: keep-alive\r\n");
  auto written = head.finish();
  if (!written) return false;
  out_.fill(written->size());
  return true;
}

// Most answers are one write: head and body side by side in one buffer.
bool Connection::append_small_answer() noexcept {
  const Response& response = exchange_->response;
  if (response.kind == Response::Body::file || response.kind == Response::Body::stream) return false;
  const bool body = exchange_->request().method != Method::head;
  const std::size_t size = body ? static_cast<std::size_t>(response.size()) : 0;
  if (!out_) out_ = server_.machine_.slab.take(Slab::small - 64);
  if (size + head_room > out_.room().size()) return false;
  if (!write_head()) return false;
  const std::string_view text =
      response.kind == Response::Body::text ? std::string_view(response.text) : response.view;
  if (size > 0) std::memcpy(out_.room().data(), text.data(), size);
  out_.fill(size);
  return true;
}

Task<bool> Connection::send_answer(Call call) {
  Response& response = exchange_->response;
  if (!out_) out_ = server_.machine_.slab.take(Slab::small - 64);
  if (out_.room().size() < head_room && !co_await flush(call, {})) co_return false;
  if (!write_head()) co_return false;
  if (exchange_->request().method == Method::head) co_return co_await flush(call, {});
  switch (response.kind) {
    case Response::Body::file:
      co_return co_await send_file(call);
    case Response::Body::stream:
      co_return co_await send_stream(call);
    case Response::Body::none:
      co_return co_await flush(call, {});
    default:
      break;
  }
  const std::string_view text =
      response.kind == Response::Body::text ? std::string_view(response.text) : response.view;
  std::array<iovec, 1> parts{part(text)};
  co_return co_await flush(call, parts);
}

Task<bool> Connection::wait_writable(Call call) {
  auto waited = co_await stream_->writable.wait(call.within(server_.options_.timeouts.write));
  if (!waited && waited.error().code == ErrorCode::timeout) server_.handler_.timed_out(Handler::Slow::write);
  co_return waited.has_value();
}

// Sends out_ and then `parts` (at most three), changing them as it goes.
Task<bool> Connection::flush(Call call, std::span<iovec> parts) {
  std::array<iovec, 4> all;
  std::size_t count = 0;
  if (out_ && !out_.empty()) all[count++] = part(as_text(out_.bytes()));
  for (const iovec& one : parts) all[count++] = one;
  std::size_t at = 0;
  while (at < count) {
    const io::Io sent = stream_->try_writev({all.data() + at, count - at});
    if (sent.status == io::IoStatus::would_block) {
      if (!co_await wait_writable(call)) co_return false;
      continue;
    }
    if (sent.status != io::IoStatus::done) co_return false;
    std::size_t rest = sent.count;
    while (at < count && rest >= all[at].iov_len) rest -= all[at++].iov_len;
    if (rest > 0) {
      all[at].iov_base = static_cast<char*>(all[at].iov_base) + rest;
      all[at].iov_len -= rest;
    }
  }
  out_.clear();
  gathered_ = 0;
  if (input_.empty()) out_.reset();
  co_return true;
}

Task<bool> Connection::send_file(Call call) {
  Response& response = exchange_->response;
  std::uint64_t offset = response.offset;
  std::uint64_t left = response.count;
  stream_->cork(left > 0);
  const bool head_sent = co_await flush(call, {});
  stream_->cork(false);
  if (!head_sent) co_return false;
  while (left > 0) {
    // One call at a time stays short enough not to hold up the shard.
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(left, 1u << 20));
    if (!response.file->is_warm(offset, size) && !co_await response.file->warm(call, offset, size))
      co_return false;
    const io::Io sent = stream_->try_send_file(*response.file, offset, size);
    if (sent.status == io::IoStatus::would_block) {
      if (!co_await wait_writable(call)) co_return false;
      continue;
    }
    if (sent.status != io::IoStatus::done) co_return false;
    offset += sent.count;
    left -= sent.count;
    if (left > 0 && !co_await wait_writable(call)) co_return false;  // a fast reader must not keep the turn
  }
  co_return true;
}

Task<bool> Connection::send_stream(Call call) {
  Response& response = exchange_->response;
  const bool chunked = exchange_->request().minor >= 1;
  if (!co_await flush(call, {})) co_return false;
  for (;;) {
    Result<Buffer> slice;
    try {
      slice = co_await response.source->next(call);
    } catch (...) {  // the connection boundary
      co_return false;
    }
    if (!slice) co_return false;
    std::array<char, 20> size;
    std::array<iovec, 3> parts;
    std::size_t count = 0;
    const bool last = slice->empty();
    if (chunked) {
      std::size_t digits = 0;
      for (std::size_t n = slice->size(), shift = 60; shift != ~std::size_t{3}; shift -= 4) {
        const unsigned digit = static_cast<unsigned>(n >> shift) & 15u;
        if (digit != 0 || digits != 0 || shift == 0) size[digits++] = "0123456789abcdef"[digit];
      }
      std::memcpy(size.data() + digits, "\r\n", 2);
      parts[count++] = part({size.data(), digits + 2});
    }
    if (!last) parts[count++] = part(as_text(slice->bytes()));
    if (chunked) parts[count++] = part("\r\n");
    if (count > 0 && !co_await flush(call, {parts.data(), count})) co_return false;
    if (last) co_return true;
  }
}

bool Connection::skip_body() noexcept {
  RequestBody& body = exchange_->body;
  if (body.done_) return true;
  if (body.kind_ != BodyKind::length || body.left_ > input_.size()) return false;
  input_.consume(static_cast<std::size_t>(body.left_));
  body.done_ = true;
  return true;
}

// The answer is out and our side is shut; reading on keeps the kernel from answering late bytes with a
// reset that could overtake it.
Task<> Connection::linger(Call call) {
  input_.reset();
  stream_->shutdown_send();
  const Call bounded = call.within(server_.options_.timeouts.linger);
  std::uint64_t left = server_.options_.linger_bytes;
  while (left > 0) {
    const io::Io got =
        stream_->try_discard(static_cast<std::size_t>(std::min<std::uint64_t>(left, 1u << 18)));
    if (got.status == io::IoStatus::done) {
      left -= got.count;
    } else if (got.status == io::IoStatus::would_block) {
      if (!co_await stream_->readable.wait(bounded)) break;
    } else {
      break;
    }
  }
}

Task<Result<>> Connection::send_continue(Call call) {
  std::array<iovec, 1> parts{part(continue_line)};
  if (!co_await flush(call, parts)) co_return fail(ErrorCode::connection_lost, "100 Continue", Side::client);
  co_return Result<>{};
}

}  // namespace cairn::http
