#include "http/websocket/socket.h"

#include <algorithm>

#include "runtime/wait.h"

namespace cairn::http::websocket {

Task<Result<>> Talk::hear(Call, Opcode, std::string_view) { co_return Result<>{}; }

WebSocket::WebSocket(std::unique_ptr<Talk> talk, Options options)
    : talk_(std::move(talk)),
      options_(options),
      reader_(options.message_max),
      ping_at_(current_shard()->now() + options.ping) {}

// Stops a wait of the sender, for as long as it lives, when something becomes owed.
class WebSocket::Sleep {
 public:
  Sleep(WebSocket& socket, const Call& call) : socket_(socket), wake_(*current_shard(), &call.cancel()) {
    socket_.asleep_ = &wake_;
  }
  ~Sleep() { socket_.asleep_ = nullptr; }
  Sleep(const Sleep&) = delete;
  Sleep& operator=(const Sleep&) = delete;
  CancelSource& wake() noexcept { return wake_; }

 private:
  WebSocket& socket_;
  CancelSource wake_;
};

void WebSocket::wake_sender() noexcept {
  if (asleep_ != nullptr) asleep_->cancel(StopReason::superseded);
}

void WebSocket::owe_close(CloseCode code, std::string_view reason) {
  if (close_) return;
  close_ = code;
  reason_ = reason;
  wake_sender();
}

void WebSocket::drain() noexcept { owe_close(CloseCode::going_away); }

Instant WebSocket::wakes_at() const noexcept {
  return is_handled_ ? ping_at_ : std::min(ping_at_, answers_by_);
}

void WebSocket::append_owed(Instant now) {
  if (pong_owed_) append_frame(piece_, Opcode::pong, {pinged_.data(), *std::exchange(pong_owed_, {})});
  if (close_) {
    append_close(piece_, *close_, reason_);
    close_sent_ = true;
    close_until_ = now + options_.close;
  } else if (now >= ping_at_) {
    append_frame(piece_, Opcode::ping, {});
    ping_at_ = now + options_.ping;
    if (answers_by_ == Instant::never()) answers_by_ = now + (options_.silence - options_.ping);
  }
}

Task<Result<>> WebSocket::wait_for_close(Call call) {
  while (!has_ended_) {
    Sleep sleep(*this, call);
    const auto waited = co_await sleep_until(call.under(sleep.wake()), close_until_);
    if (waited || call.expired()) break;
    if (call.stopped()) co_return waited;
  }
  co_return Result<>{};
}

// Whatever is owed meanwhile ends the wait.
Task<Result<>> WebSocket::ask_talk(Call call, Instant until) {
  Sleep sleep(*this, call);
  const Call asked = call.under(sleep.wake()).by(until);
  const auto more = co_await talk_->next(asked, piece_);
  if (more) {
    if (*more == Talk::More::no) owe_close(CloseCode::normal);
  } else if (call.stopped() || call.expired()) {
    co_return fail(more.error());
  } else if (!asked.stopped() && !asked.expired()) {
    owe_close(CloseCode::internal);
  }
  co_return Result<>{};
}

Task<Result<io::Piece>> WebSocket::next(Call call) {
  // A large message must not keep its room for as long as the socket lasts.
  if (piece_.capacity() > piece_max) piece_ = std::string();
  piece_.clear();
  while (piece_.empty()) {
    if (close_sent_) {
      CO_TRY_VOID(co_await wait_for_close(call));
      co_return io::Piece();
    }
    const Instant now = current_shard()->now();
    if (!is_handled_ && now >= answers_by_) lost_ = Error{ErrorCode::connection_lost, "the peer is silent"};
    if (lost_) co_return fail(*lost_);
    if (has_ended_ && !close_) co_return io::Piece();  // it left without a close
    append_owed(now);
    // What is owed does not wait for a message, but goes with those that are at hand.
    if (!close_sent_) CO_TRY_VOID(co_await ask_talk(call, piece_.empty() ? wakes_at() : now));
  }
  co_return io::Piece::memory(as_bytes(piece_));
}

Task<bool> WebSocket::take(Call call, std::string_view bytes) {
  while (!bytes.empty()) {
    switch (reader_.next(bytes)) {
      case MessageReader::Kind::need_more:
        break;
      case MessageReader::Kind::text:
      case MessageReader::Kind::binary: {
        if (close_) break;  // a peer may still send what it had begun before it saw our close
        is_handled_ = true;
        const auto heard = co_await talk_->hear(call, reader_.given(), reader_.payload());
        is_handled_ = false;
        answers_by_ = Instant::never();
        if (!heard && call.stopped()) co_return false;
        if (!heard) owe_close(CloseCode::policy);
        break;
      }
      case MessageReader::Kind::ping:
        pong_owed_ = reader_.payload().copy(pinged_.data(), pinged_.size());
        wake_sender();
        break;
      case MessageReader::Kind::pong:
        break;
      case MessageReader::Kind::close:
        owe_close(reader_.code());
        co_return false;
      case MessageReader::Kind::failed:
        owe_close(reader_.code(), reader_.fault());
        co_return false;
    }
  }
  co_return true;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): outlives the listener (CV-3)
Task<> WebSocket::listen(Call call, RequestBody& arriving) {
  for (;;) {
    auto slice = co_await arriving.next(call);
    if (!slice) {
      if (!call.stopped()) lost_ = slice.error();
      break;
    }
    answers_by_ = Instant::never();
    bool reads_on = false;
    try {
      reads_on = !slice->empty() && co_await take(call, as_text(slice->bytes()));
    } catch (...) {  // a bug of the service: the peer is told, and the carrier
      owe_close(CloseCode::internal);
      has_ended_ = true;
      throw;
    }
    if (!reads_on) break;
  }
  has_ended_ = true;
  wake_sender();
}

}  // namespace cairn::http::websocket
