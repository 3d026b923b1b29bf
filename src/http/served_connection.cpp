#include "http/served_connection.h"

#include <algorithm>

#include "http/h1/server.h"
#include "runtime/wait.h"

namespace cairn::http {

ServedConnection::ServedConnection(Server& server, std::unique_ptr<io::Stream> stream,
                                   io::TlsStream* handshake, Gate::Admission admission, bool health_only,
                                   bool attends)
    : server_(server),
      stream_(std::move(stream)),
      admission_(admission),
      health_only_(health_only),
      attends_(attends),
      handshake_(handshake),
      encrypted_(handshake) {
  if (!attends_ && admission_ != Gate::Admission::refused) inside_ = server_.gate_.enter();
  ++server_.standing_[static_cast<std::size_t>(admission_)];
  if (admission_ == Gate::Admission::extra)
    extra_until_ = server_.machine_.shard.now() + server_.options_.timeouts.extra;
}

ServedConnection::ServedConnection(ServedConnection&& before) noexcept
    : server_(before.server_),
      stream_(std::move(before.stream_)),
      admission_(before.admission_),
      health_only_(before.health_only_),
      attends_(before.attends_),
      inside_(std::move(before.inside_)),
      place_(std::move(before.place_)),
      extra_until_(before.extra_until_),
      encrypted_(before.encrypted_) {
  CHECK(!before.linked());
}

ServedConnection::~ServedConnection() {
  if (stream_ == nullptr) return;  // another one has taken it over
  --server_.standing_[static_cast<std::size_t>(admission_)];
  server_.gate_.left(stream_->peer(), admission_);
}

void ServedConnection::stand(Gate::Admission admission) noexcept {
  --server_.standing_[static_cast<std::size_t>(admission_)];
  admission_ = admission;
  ++server_.standing_[static_cast<std::size_t>(admission_)];
  if (admission_ == Gate::Admission::refused) inside_ = DrainGuard();
}

bool ServedConnection::may_be_kept() const noexcept {
  return !attends_ && server_.attending_ != nullptr && admission_ != Gate::Admission::extra;
}

void ServedConnection::attend() noexcept {
  attends_ = true;
  is_kept_ = false;
  inside_ = DrainGuard();
}

void ServedConnection::give_way() noexcept {
  if (admission_ == Gate::Admission::extra)
    server_.gate_.closed_unread();
  else if (handshake_ != nullptr)
    --server_.handshakes_;
  server_.gate_.left(stream_->peer(), admission_);
  stand(Gate::Admission::refused);
  gave_way_ = true;
  unlink();
  stream_->readable.signal();
  if (handshake_ != nullptr) stream_->writable.signal();
}

void ServedConnection::start_waiting(bool unused, Instant since) noexcept {
  waits_since_ = since;
  if (admission_ == Gate::Admission::extra)
    server_.unread_.push_back(*this);
  else if (admission_ == Gate::Admission::welcome && unused && !attends_)
    server_.idlers_.push_back(*this);
}

bool ServedConnection::stop_waiting(const Result<>& waited) noexcept {
  if (linked()) unlink();
  if (gave_way_) return false;
  if (waited || admission_ != Gate::Admission::extra || waited.error().code != ErrorCode::timeout)
    return true;
  server_.gate_.closed_unread();
  return false;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the connection's own
Task<bool> ServedConnection::find_place(Call call, Exchange& exchange, bool whole) {
  using Place = Gate::Place;
  constexpr Duration longest = Duration::millis(64);
  for (Duration pause = Duration::millis(1); whole; pause = pause * 2) {
    const Place place = server_.gate_.place(exchange, health_only_, place_);
    if (place == Place::welcome) stand(Gate::Admission::welcome);
    if (place == Place::reserved) stand(Gate::Admission::reserved);
    if (place == Place::welcome || place == Place::reserved) co_return true;
    if (place == Place::none || pause > longest || !co_await sleep_for(call, pause)) break;
  }
  const bool told = server_.may_tell();
  if (!told) server_.gate_.closed_unread();
  server_.gate_.left(stream_->peer(), admission_);
  stand(Gate::Admission::refused);
  co_return told;
}

Task<> ServedConnection::run(Call call, std::unique_ptr<ServedConnection> self) {
  try {
    const bool refused = self->admission_ == Gate::Admission::refused;
    if (refused || self->handshake_ == nullptr || co_await self->shake_hands(call)) {
      if (auto other = self->server_.by_protocol(*self)) self = std::move(other);
      co_await (refused ? self->turn_away(call) : self->serve(call));
    }
    if (self->is_kept_) {
      Server& server = self->server_;
      server.keep(std::move(self));
      co_return;
    }
    if (self->encrypted_ != nullptr && self->encrypted_->is_flooded())
      self->server_.gate_.shook_hands(Gate::Hands::flooded);
    if (self->stream_->is_encrypted()) co_await self->say_end(call);
    self->stream_->close();
  } catch (const std::exception& problem) {  // the connection boundary
    self->break_off(problem.what());
  } catch (...) {
    self->break_off("not a std::exception");
  }
}

Task<bool> ServedConnection::shake_hands(Call call) {
  waits_since_ = server_.machine_.shard.now();
  const bool placed = admission_ != Gate::Admission::extra;
  (placed ? server_.shaking_ : server_.unread_).push_back(*this);
  if (placed) ++server_.handshakes_;
  const bool done = co_await shake_hands_here(call);
  if (linked()) {
    unlink();
    if (placed) --server_.handshakes_;
  }
  handshake_ = nullptr;
  co_return done;
}

Task<bool> ServedConnection::shake_hands_here(Call call) {
  using Step = io::TlsStream::Handshake;
  const Call bounded = head_wait(call.within(server_.options_.timeouts.handshake));
  for (;;) {
    const Step step = handshake_->try_handshake();
    if (step == Step::done) {
      server_.gate_.shook_hands(handshake_->is_resumed() ? Gate::Hands::resumed : Gate::Hands::full);
      co_return true;
    }
    if (step == Step::failed) {
      server_.gate_.shook_hands(Gate::Hands::failed);
      co_return false;
    }
    // When draining begins, the peer has as long as one that has not asked yet.
    const bool last_chance = server_.is_over(attends_);
    const Call wait = last_chance ? bounded.within(fresh_grace) : bounded.under(*server_.idle_);
    io::Direction& direction = step == Step::wants_read ? stream_->readable : stream_->writable;
    const auto waited = co_await direction.wait(wait);
    if (gave_way_) {
      server_.gate_.shook_hands(Gate::Hands::gave_way);
      co_return false;
    }
    if (waited || (waited.error().stop == StopReason::draining && !last_chance)) continue;
    server_.gate_.shook_hands(Gate::Hands::timed_out);
    if (admission_ == Gate::Admission::extra) server_.gate_.closed_unread();
    co_return false;
  }
}

Task<> ServedConnection::say_end(Call call) {
  stream_->shutdown_send();
  const Call bounded = call.within(server_.options_.timeouts.linger);
  while (stream_->is_ending() && co_await stream_->writable.wait(bounded)) {
  }
}

void ServedConnection::break_off(const char* what) noexcept {
  if (stream_ != nullptr) stream_->close(true);
  try {
    abandon();
  } catch (...) {  // NOLINT(bugprone-empty-catch): told below
  }
  server_.gate_.broke(what);
}

// The answer is sent and our side is shut. Reading on keeps the kernel from answering late bytes with a
// reset, which could overtake the answer. Over loopback, each piece that is dropped lets the peer's kernel
// hand over the next one at once. So without a pause this loop would reach the end of the available bytes
// only with the last byte of the body.
Task<> ServedConnection::drop_arriving(Call call) {
  constexpr std::size_t piece = Slab::large;
  stream_->shutdown_send();
  const Call bounded = call.within(server_.options_.timeouts.linger);
  std::uint64_t left = server_.options_.linger_bytes;
  while (left > 0) {
    const io::Io got = stream_->try_discard(static_cast<std::size_t>(std::min<std::uint64_t>(left, piece)));
    if (got.status == io::IoStatus::done) {
      left -= got.count;
      (void)co_await next_turn(bounded);
    } else if (got.status == io::IoStatus::would_block) {
      if (!co_await stream_->readable.wait(bounded)) break;
    } else {
      break;
    }
  }
}

}  // namespace cairn::http
