#include "http/h1/body.h"

#include <algorithm>
#include <cstring>

#include "http/h1/connection.h"

namespace cairn::http {
namespace {

// A peer that only ended its sending side may still read the answer to its half body. A peer that broke the
// connection may not.
Error cut_off(io::IoStatus status) noexcept {
  return status == io::IoStatus::eof
             ? Error{ErrorCode::malformed, "the body ended before its length", Side::client}
             : Error{ErrorCode::connection_lost, "the body was cut off", Side::client};
}

}  // namespace

void WireBody::start(Connection& connection, const RequestParser& parsed) noexcept {
  connection_ = &connection;
  kind_ = parsed.head.body;
  left_ = parsed.head.content_length;
  expects_continue_ = parsed.framing.expect_continue;
  reset(kind_ == BodyKind::none || (kind_ == BodyKind::length && left_ == 0));
}

void WireBody::clear() noexcept {
  connection_ = nullptr;
  kind_ = BodyKind::none;
  expects_continue_ = false;
  left_ = 0;
  chunks_.reset();
  pace_.clear();
  reset(true);
}

void WireBody::open() noexcept {
  kind_ = BodyKind::until_close;
  expects_continue_ = false;
  reset(false);
}

Task<Result<Buffer>> WireBody::pull(Call call) {
  return expects_continue_ ? continue_and_pull(call) : pull_slice(call);
}

Task<Result<Buffer>> WireBody::pull_slice(Call call) {
  if (kind_ == BodyKind::until_close) return connection_->next_raw(call);
  return kind_ == BodyKind::chunked ? connection_->next_chunked(call, *this)
                                    : connection_->next_length(call, *this);
}

Task<Result<Buffer>> WireBody::continue_and_pull(Call call) {
  expects_continue_ = false;
  CO_TRY_VOID(co_await connection_->send_continue(call));
  co_return co_await pull_slice(call);
}

// Waits for more of the body: no longer than the read timeout without progress, and no slower than the
// lowest rate over a window of that length.
Task<Result<>> Connection::wait_body(Call call, WireBody& body) {
  const ServerOptions& options = server_.options_;
  const Shard& shard = server_.machine_.shard;
  const auto until = body.pace_.wait_until(shard.now(), options, body.received());
  if (!until) {
    server_.gate_.timed_out(Gate::Slow::read);
    co_return fail(ErrorCode::timeout_read, "body too slow", Side::client);
  }
  auto waited = co_await stream_->readable.wait(call.by(*until));
  if (!waited && waited.error().code == ErrorCode::timeout &&
      body.pace_.blames_client(shard.now(), call.deadline(), options, body.received())) {
    server_.gate_.timed_out(Gate::Slow::read);
    co_return fail(ErrorCode::timeout_read, "body did not arrive in time", Side::client);
  }
  co_return waited;
}

Task<Result<Buffer>> Connection::next_length(Call call, WireBody& body) {
  Slab& slab = server_.machine_.slab;
  const std::size_t head = exchange_->head_bytes;
  const std::size_t here = std::min<std::uint64_t>(input_.size() - head, body.left_);
  if (here > 0) {
    Buffer slice = slab.take(std::min(here, Slab::large));
    const std::size_t size = std::min(here, slice.room().size());
    std::memcpy(slice.room().data(), input_.bytes().data() + head, size);
    slice.fill(size);
    drop_behind_head(size);
    body.left_ -= size;
    if (body.left_ == 0) body.finish();
    co_return slice;
  }
  Buffer slice;
  for (;;) {
    if (stream_->readable.ready()) {
      CO_TRY_VOID(co_await stream_->readable.wait(call));  // now and then gives the turn to others
      if (!slice) slice = slab.take(std::min<std::uint64_t>(body.left_, Slab::large));
      MutableByteView room = slice.room();
      if (room.size() > body.left_) room = room.first(static_cast<std::size_t>(body.left_));
      const io::Io got = stream_->try_read(room);
      if (got.status == io::IoStatus::done) {
        slice.fill(got.count);
        body.left_ -= got.count;
        if (body.left_ == 0) body.finish();
        co_return slice;
      }
      if (got.status != io::IoStatus::would_block) co_return fail(cut_off(got.status));
    }
    slice.reset();  // a slow client holds no buffer
    CO_TRY_VOID(co_await wait_body(call, body));
  }
}

Task<Result<Buffer>> Connection::next_chunked(Call call, WireBody& body) {
  Slab& slab = server_.machine_.slab;
  if (!chunks_) {
    chunks_ = slab.take(Slab::large);
    const ByteView behind = input_.bytes().subspan(exchange_->head_bytes);
    std::memcpy(chunks_.room().data(), behind.data(), behind.size());
    chunks_.fill(behind.size());
    input_.truncate(exchange_->head_bytes);
  }
  for (;;) {
    if (!chunks_.empty()) {
      const ChunkedDecoder::Step step = body.chunks_.next(as_text(chunks_.bytes()));
      Buffer slice;
      if (step.kind == ChunkedDecoder::Kind::data) {
        slice = slab.take(step.data.size());
        std::memcpy(slice.room().data(), step.data.data(), step.data.size());
        slice.fill(step.data.size());
      }
      chunks_.consume(step.consumed);
      switch (step.kind) {
        case ChunkedDecoder::Kind::failed:
          co_return fail(step.error);
        case ChunkedDecoder::Kind::data:
          co_return slice;
        case ChunkedDecoder::Kind::done:
          body.finish();
          co_return Buffer();
        case ChunkedDecoder::Kind::need_more:
          break;
      }
    }
    chunks_.clear();
    while (!stream_->readable.ready()) CO_TRY_VOID(co_await wait_body(call, body));
    CO_TRY_VOID(co_await stream_->readable.wait(call));
    const io::Io got = stream_->try_read(chunks_.room());
    if (got.status == io::IoStatus::done)
      chunks_.fill(got.count);
    else if (got.status != io::IoStatus::would_block)
      co_return fail(cut_off(got.status));
  }
}

}  // namespace cairn::http
