#include "http/h1/client_exchange.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "http/h1/framing.h"
#include "http/h1/head_writer.h"
#include "runtime/cancel.h"
#include "runtime/wait.h"

namespace cairn::http {
namespace {

// How many interim heads a peer may send before its answer, so that it cannot keep us reading for ever.
constexpr unsigned interim_heads_max = 16;

// Stops a wait for something else when bytes of an answer come.
class AnswerWatch {
 public:
  AnswerWatch(io::Direction& readable, CancelSource& stop) noexcept : readable_(readable) {
    readable_.watch([](void* of) noexcept { static_cast<CancelSource*>(of)->cancel(StopReason::superseded); },
                    &stop);
  }
  ~AnswerWatch() { readable_.watch(nullptr, nullptr); }
  AnswerWatch(const AnswerWatch&) = delete;
  AnswerWatch& operator=(const AnswerWatch&) = delete;

 private:
  io::Direction& readable_;
};

iovec part(std::string_view text) noexcept { return {const_cast<char*>(text.data()), text.size()}; }

// For steps that find their stream ready: they do not wait, so they would not notice a stop or a deadline.
Result<> still_wanted(const Call& call) noexcept {
  if (call.stopped())
    return fail(Error(ErrorCode::cancelled, "request to a peer", Side::self, call.cancel().reason()));
  if (call.expired())
    return fail(Error(ErrorCode::timeout, "request to a peer", Side::self, StopReason::deadline));
  return {};
}

// Moves a slice that fills little of its block to a smaller block: a caller that gathers slices of a slow
// peer must not hold sixteen times their size.
Buffer fit(Slab& slab, Buffer slice) {
  if (slice.capacity() <= Slab::small || slice.size() * 4 >= slice.capacity()) return slice;
  Buffer smaller = slab.take(slice.size());
  std::memcpy(smaller.room().data(), slice.bytes().data(), slice.size());
  smaller.fill(slice.size());
  return smaller;
}

}  // namespace

void ClientExchange::clear() noexcept {
  drop();
  permit_ = Permit();
  out_.reset();
  input_.reset();
  raw_.reset();
  answered_ = reusable_ = done_ = switched_ = false;
  upgrade_ = {};
  chunks_.reset();
  failure_.reset();
}

Result<> ClientExchange::write_head(const ClientRequest& request) {
  const auto invalid = [] { return fail(ErrorCode::invalid, "request head"); };
  // The answer to CONNECT is framed by other rules.
  if (request.broken_ || request.method == Method::connect || request.method == Method::trace)
    return invalid();
  if (!request.target.starts_with('/') && request.target != "*") return invalid();
  upgrade_ = request.upgrade;
  if (!upgrade_.empty() && (request.method != Method::get || request.kind != ClientRequest::Body::none))
    return invalid();
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
  if (!upgrade_.empty())
    head.append_lines("Connection: Upgrade\r\n").append_field(FieldName::upgrade, upgrade_);
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

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller waits
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
  switched_ = head().status == 101;
  if (switched_ && (upgrade_.empty() || find_upgrade(head().fields) != upgrade_))
    co_return not_understood("protocol switched unasked");
  // If part of the request was not sent, the peer would read the next request as that part.
  reusable_ = sent && head().keep_alive && !switched_;
  out_.reset();
  start_body();
  co_return Result<>{};
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller waits
Task<Result<bool>> ClientExchange::send_body(Call call, ClientRequest& request) {
  std::array<iovec, 3> parts{part(as_text(out_.bytes()))};
  if (request.kind != ClientRequest::Body::stream) {
    parts[1] = part(request.kind == ClientRequest::Body::text   ? std::string_view(request.text)
                    : request.kind == ClientRequest::Body::view ? request.view
                                                                : std::string_view{});
    co_return co_await write(call, {parts.data(), parts[1].iov_len == 0 ? 1u : 2u});
  }
  // The head is sent first: a refusal, or a connection found dead, then uses up nothing of the source.
  CO_TRY(bool going, co_await write(call, {parts.data(), 1}));
  std::uint64_t left = request.length.value_or(0);
  for (bool last = false; going && !last;) {
    request.source_used_ = true;
    std::optional<io::Piece> ready = request.source->try_next();
    if (!ready) {
      CO_TRY(ready, co_await pull(call, request.source.get()));
      if (!ready) co_return false;
    }
    io::Piece& piece = *ready;
    last = piece.empty();
    const bool file = !last && piece.is_file();
    std::size_t count = 0;
    std::array<char, 20> size;
    if (!request.length) {
      char* at = std::to_chars(size.data(), size.data() + 16, piece.size(), 16).ptr;
      std::memcpy(at, "\r\n", 2);
      parts[count++] = part({size.data(), static_cast<std::size_t>(at + 2 - size.data())});
    } else {
      if (last ? left != 0 : piece.size() > left)
        co_return fail(ErrorCode::invalid, "body is not of its length");
      if (last) break;
      left -= piece.size();
    }
    if (!last && !file) parts[count++] = part(as_text(piece.bytes));
    if (!request.length && !file) parts[count++] = part("\r\n");
    CO_TRY(going, co_await write(call, {parts.data(), count}));
    if (going && file) {
      CO_TRY(going, co_await write_file(call, &piece));
    }
    if (going && file && !request.length) {
      parts[0] = part("\r\n");
      CO_TRY(going, co_await write(call, {parts.data(), 1}));
    }
  }
  co_return going;
}

// The next piece of a source that makes us wait; nothing when an answer came first.
Task<Result<std::optional<io::Piece>>> ClientExchange::pull(Call call, io::BodySource* source) {
  for (;;) {
    CO_TRY(const bool early, poll_head());
    if (early) co_return std::nullopt;
    CancelSource stop(client_.shard(), &call.cancel());
    const AnswerWatch watch(stream().readable, stop);
    auto piece = co_await source->next(call.under(stop));
    if (piece) co_return std::move(*piece);
    if (piece.error().stop != StopReason::superseded) co_return fail(piece.error());
  }
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
    if (sent.status != io::IoStatus::done) co_return stopped_taking();
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

Task<Result<bool>> ClientExchange::write_file(Call call, io::Piece* piece) {
  while (piece->count > 0) {
    CO_TRY_VOID(still_wanted(call));
    CO_TRY(const bool early, poll_head());
    if (early) co_return false;
    // One call at a time stays short enough not to hold up the shard.
    const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(piece->count, 1u << 20));
    if (!piece->file->is_warm(piece->offset, size))
      CO_TRY_VOID(co_await piece->file->warm(call, piece->offset, size));
    const io::Io sent = stream().try_send_file(*piece->file, piece->offset, size);
    if (sent.status != io::IoStatus::done && sent.status != io::IoStatus::would_block)
      co_return stopped_taking();
    piece->offset += sent.count;
    piece->count -= sent.count;
    // Awaited even when ready: now and then it gives the turn to others.
    if (piece->count > 0) CO_TRY_VOID(blame_upstream(co_await stream().writable.wait(call)));
  }
  co_return true;
}

Result<bool> ClientExchange::stopped_taking() {
  // The peer stopped reading. Its answer may say why, and may have arrived.
  connection_->gone = true;
  TRY(const bool explained, poll_head());
  if (explained) return false;
  return lost("the request could not be sent");
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
      return answered_ ? not_understood(head_cut_off) : lost("closed before an answer");
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
  if (switched_) return;
  if (head().body == BodyKind::none || (head().body == BodyKind::length && left_ == 0)) finish();
}

// The body has ended. Bytes left in raw_ do not belong to it.
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
  if (switched_) co_return co_await next_said(call);
  auto slice = co_await (head().body == BodyKind::chunked ? next_chunk(call) : next_plain(call));
  if (!slice) {
    failure_ = slice.error();
    drop();
    permit_ = Permit();
  }
  co_return slice;
}

std::optional<Buffer> ClientExchange::take_whole() noexcept {
  const bool is_whole = head().body == BodyKind::length && raw_.size() == left_;
  if (failure_ || done_ || switched_ || !is_whole) return std::nullopt;
  Buffer whole = std::exchange(raw_, Buffer());
  left_ = 0;
  finish();
  return whole;
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
  // If the peer is gone, the bytes it left are read without a wait. Otherwise this wait, when the stream is
  // ready, only gives way to other tasks now and then.
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

}  // namespace cairn::http
