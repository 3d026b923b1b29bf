// How the bodies of an HTTP/2 connection's requests are pulled.
#include <algorithm>
#include <cstring>

#include "http/h2/connection.h"
#include "runtime/wait.h"

namespace cairn::http::h2 {

// A body that is read may use the whole window of the connection.
void Connection::grant(Stream& stream) noexcept {
  StreamBody& body = stream.wire_body;
  if (std::exchange(body.granted_, true) || body.ended_ || !stream.is_open) return;
  if (stream.head.expects_continue() && body.arrived_ == 0 && !stream.sent_all) {
    constexpr std::string_view name = ":status", value = "100";
    const nghttp2_nv line{reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data())),
                          reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data())), name.size(),
                          value.size(), NGHTTP2_NV_FLAG_NONE};
    (void)nghttp2_submit_headers(session_.get(), NGHTTP2_FLAG_NONE, stream.id, nullptr, &line, 1, nullptr);
  }
  widen(stream);
}

void Connection::widen(const Stream& stream) noexcept {
  (void)nghttp2_session_set_local_window_size(session_.get(), NGHTTP2_FLAG_NONE, stream.id, window);
  poke();
}

// Streams that the peer began before it knew the settings had the protocol's own window until now. Those that
// are read already would keep the small one for good.
void Connection::on_settings_known() noexcept {
  for (List<Stream>* list : {&live_, &written_})
    list->for_each([&](const Stream& stream) {
      if (stream.wire_body.granted_ && !stream.wire_body.ended_ && stream.is_open) widen(stream);
    });
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): its stream outlives its readers
Task<Result<Buffer>> Connection::next_of_body(Call call, StreamBody& body) {
  Stream& stream = *body.stream_;
  grant(stream);
  while (body.unread_.empty()) {
    if (body.broken_) co_return fail(*body.broken_);
    if (body.ended_) {
      body.finish();
      co_return Buffer();
    }
    CO_TRY_VOID(co_await wait_body(call, body));
  }
  Buffer slice = server_.machine_.slab.take(std::min(body.unread_.size(), Slab::large));
  const std::size_t size = std::min(body.unread_.size(), slice.room().size());
  std::memcpy(slice.room().data(), body.unread_.data(), size);
  slice.fill(size);
  body.unread_.erase(0, size);
  constexpr std::size_t kept_max = 1024;
  if (body.unread_.empty() && body.unread_.capacity() > kept_max) std::string().swap(body.unread_);
  if (body.ended_ && body.unread_.empty()) body.finish();
  if (stream.is_open) {  // H2-2
    (void)nghttp2_session_consume(session_.get(), stream.id, size);
    if (nghttp2_session_want_write(session_.get()) != 0) poke();
  }
  co_return slice;
}

bool Connection::window_is_used_up() const noexcept {
  return nghttp2_session_get_local_window_size(session_.get()) <= 0;
}

// As in HTTP/1.1, the rate is demanded only while a reader waits, and only while the peer may send: bodies
// that nobody reads may have used up the window. What another protocol sends has no rate.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): its stream outlives its readers
Task<Result<>> Connection::wait_body(Call call, StreamBody& body) {
  const Shard& shard = server_.machine_.shard;
  const ServerOptions& options = server_.options_;
  if (window_is_used_up()) body.pace_.clear();
  if (body.stream_->response.switches || window_is_used_up())
    co_return co_await ListWait(call, body.reader_, "the peer's bytes");
  const auto until = body.pace_.wait_until(shard.now(), options, body.received());
  if (!until) {
    server_.gate_.timed_out(Gate::Slow::read);
    co_return fail(ErrorCode::timeout_read, "body too slow", Side::client);
  }
  auto waited = co_await ListWait(call.by(*until), body.reader_, "the body");
  if (!waited && waited.error().code == ErrorCode::timeout && window_is_used_up() && !call.expired())
    co_return Result<>{};  // the reader waits again, as above
  if (!waited && waited.error().code == ErrorCode::timeout &&
      body.pace_.blames_client(shard.now(), call.deadline(), options, body.received())) {
    server_.gate_.timed_out(Gate::Slow::read);
    co_return fail(ErrorCode::timeout_read, "body did not arrive in time", Side::client);
  }
  co_return waited;
}

}  // namespace cairn::http::h2
