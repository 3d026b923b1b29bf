#include "http/h2/connection.h"

#include <algorithm>

#include "runtime/select.h"
#include "runtime/wait.h"

namespace cairn::http::h2 {
namespace {

// Between the two steps of a graceful end: requests that were on their way arrive.
constexpr Duration drain_grace = Duration::millis(250);

}  // namespace

Connection::Connection(ServedConnection&& before) noexcept
    : ServedConnection(std::move(before)),
      pace_(stream_->peer().local),
      body_pace_(false),
      idle_since_(server_.machine_.shard.now()) {}

Connection::~Connection() { CHECK(streams_ == 0); }

Task<> Connection::turn_away(Call) { co_return; }  // there is no stream to say it on

// The session lives as long as its streams' tasks, which use it.
Task<> Connection::serve(Call call) {
  if (!session_) start_session();
  Scope tasks(server_.machine_.shard, call);
  tasks_ = &tasks;
  std::exception_ptr failure;
  try {
    co_await run_session(call);
    if (is_cut_) co_await say_last(call);
  } catch (...) {
    failure = std::current_exception();
  }
  if ((streams_ > 0 && !is_cut_) || failure) stream_->close(true);
  try {
    abandon();
  } catch (...) {
    failure = std::current_exception();
  }
  tasks.cancel(StopReason::client_gone);
  co_await tasks.join_all(call);
  abandon();
  tasks_ = nullptr;
  if (failure) std::rethrow_exception(failure);
}

// The end of the drain has stopped the handlers together with this task. What they still say is sent, as far
// as the socket takes it at once, and whoever has waited for a handler is told too: no wait is left for more.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the connection's own
Task<> Connection::say_last(Call call) {
  constexpr int turns = 16;
  co_await tasks_->join_all(call);
  while (!waiting_.empty()) {
    Stream& stream = waiting_.front();
    if (!stream.fault) stream.fault.emplace(ErrorCode::draining, "shutting down");
    stream.unlink();
    live_.push_back(stream);
    begin(stream);
  }
  for (int i = 0; i < turns && try_send() == Sent::turn; ++i) turn_bytes_ = 0;
  // Bytes that nobody has read would make the kernel end the connection with a reset.
  (void)stream_->try_discard(Slab::large);
}

// Every stream ends now; those with a task end with it.
void Connection::abandon() {
  for (List<Stream>* list : {&heads_, &waiting_, &live_, &written_})
    list->for_each([&](Stream& stream) {
      stream.is_open = false;
      (void)stream.wire_body.drop_unread();
      stream.wire_body.break_off({ErrorCode::connection_lost, "the connection broke", Side::client});
      break_stream(stream);
    });
}

bool Connection::is_idle() const noexcept {
  return streams_ == 0 && head_since_ == Instant{} && (!out_ || out_.empty());
}

bool Connection::may_read() const noexcept {
  return !over_ && !goaway_waits_ && nghttp2_session_get_outbound_queue_size(session_.get()) < outbound_max;
}

// Wakes this connection's task.
void Connection::poke() noexcept {
  work_ = true;
  if (!poked_.empty()) wake(poked_.front());
}

// The session ends with an error, or because nobody uses it; open streams are given up.
void Connection::end_session(std::uint32_t code) noexcept {
  (void)nghttp2_session_terminate_session(session_.get(), code);
  over_ = true;
  over_until_ = server_.machine_.shard.now() + server_.options_.timeouts.linger;
  poke();
}

Task<> Connection::run_session(Call call) {
  for (;;) {
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
    work_ = false;
    if (may_read() && stream_->readable.ready() && !read_some()) co_return;
    if (!co_await begin_waiting(call)) {
      stream_->close(true);
      co_return;
    }
    const Sent sent = try_send();
    if (sent == Sent::broken || !keep_time()) {
      stream_->close(true);
      co_return;
    }
    start_fetches();  // of the streams that have just run out of bytes, too
    if (is_kept_ = drain_step(); is_kept_) co_return;
    if (has_ended()) break;
    if (sent == Sent::turn || server_.machine_.shard.turn_used_up()) {
      turn_bytes_ = 0;
      co_await yield(call);
    } else if (stream_->readable.take_pause()) {
      (void)co_await next_turn(call);
    } else if (!work_ && !(sent == Sent::all && !waiting_.empty() && may_begin())) {
      if (!co_await wait(call)) {
        is_cut_ = call.stopped();
        co_return;
      }
    }
    if (is_cut_ = call.stopped(); is_cut_) co_return;
  }
  out_.reset();
  if (over_) abandon();  // nobody waits for what the handlers still do
  co_await drop_arriving(call);
}

// All that was to be sent has been sent, and nothing more will come.
bool Connection::has_ended() const noexcept {
  if (work_ || (out_ && !out_.empty()) || !leftover_.empty()) return false;
  if (nghttp2_session_want_write(session_.get()) != 0) return false;
  return over_ || (drain_ == Drain::told && streams_ == 0) || nghttp2_session_want_read(session_.get()) == 0;
}

// False: the connection ends without another word.
Task<bool> Connection::wait(Call call) {
  const bool idle = is_idle();
  if (idle || !out_ || out_.empty()) out_.reset();
  turn_bytes_ = 0;
  if (judge_at_ == Instant::never() && (blocked_ || streams_ > 0))
    judge_at_ = server_.machine_.shard.now() + server_.options_.timeouts.write / 2;
  if (admission_ == Gate::Admission::extra || idle) start_waiting(idle, idle_since_);
  const bool told = drain_ != Drain::no || server_.is_over(attends_);
  const Call under = told ? call : call.under(attends_ ? *server_.attended_ : *server_.idle_);
  if (running_ == 0) stream_->readable.tell_wait();
  WaitList never;
  const SelectArm work{&poked_, this,
                       [](const void* self) { return static_cast<const Connection*>(self)->work_; }};
  const SelectArm nothing{&never, nullptr, [](const void*) { return false; }};
  const auto woken = co_await select(head_wait(under.by(next_deadline())), work,
                                     may_read() ? stream_->readable.arm() : nothing,
                                     blocked_ ? stream_->writable.arm() : nothing);
  const Result<> waited = woken ? Result<>() : fail(woken.error());
  if (!stop_waiting(waited)) co_return false;
  co_return !call.stopped();
}

Instant Connection::next_deadline() const noexcept {
  const ServerTimeouts& timeouts = server_.options_.timeouts;
  Instant next = std::min({judge_at_, decline_at_, fetch_at_});
  if (head_since_ != Instant{}) next = std::min(next, head_since_ + timeouts.head);
  if (is_idle()) next = std::min(next, idle_since_ + timeouts.idle);
  if (drain_ == Drain::noticed) next = std::min(next, told_at_);
  if (over_) next = std::min(next, over_until_);
  return std::min(next, server_.machine_.shard.now() + timeouts.idle);
}

// Acts on the deadlines that have passed. False: the connection ends without another word.
bool Connection::keep_time() noexcept {
  const Instant now = server_.machine_.shard.now();
  const ServerTimeouts& timeouts = server_.options_.timeouts;
  if (over_) return now < over_until_;
  if (head_since_ != Instant{} && now - head_since_ >= timeouts.head) {
    server_.gate_.timed_out(Gate::Slow::read);
    end_session(NGHTTP2_ENHANCE_YOUR_CALM);
  } else if (is_idle() && now - idle_since_ >= timeouts.idle) {
    end_session(NGHTTP2_NO_ERROR);
  } else if (calm_) {
    end_session(NGHTTP2_ENHANCE_YOUR_CALM);
  }
  if (now >= decline_at_) decline_bodies(now);
  return now < judge_at_ || judge_peer(now);
}

// Whether the peer takes what is sent to it. False: it has stopped, or is too slow.
bool Connection::judge_peer(Instant now) noexcept {
  const Duration window_of_time = server_.options_.timeouts.write;
  const std::uint64_t least = server_.options_.least_bytes(window_of_time);
  judge_at_ = Instant::never();
  bool sending = false;
  live_.for_each([&](Stream& stream) {
    const bool has_more =
        stream.answered && !stream.sent_all && stream.is_open && !stream.hungry && !stream.fetches;
    sending = sending || has_more;
    const bool shut =
        has_more && nghttp2_session_get_stream_remote_window_size(session_.get(), stream.id) <= 0;
    if (!shut) stream.shut_since = {};
    if (!shut || !is_due(stream.shut_since, now)) return;
    if (!stream.pace.too_slow(0, least)) return;
    server_.gate_.timed_out(Gate::Slow::write);
    reset_stream(stream, NGHTTP2_ENHANCE_YOUR_CALM);
  });
  const bool shut = sending && nghttp2_session_get_remote_window_size(session_.get()) <= 0;
  if (!blocked_ && !shut) shut_since_ = {};
  if ((blocked_ || shut) && is_due(shut_since_, now)) {
    // Whoever keeps the window shut may still take acknowledgements of pings.
    if (blocked_ ? pace_.too_slow(stream_->unacknowledged(), least) : body_pace_.too_slow(0, least)) {
      server_.gate_.timed_out(Gate::Slow::write);
      return false;
    }
  }
  if (open_ == 0 || stream_->peer().local) return true;
  if (!pace_.vanished(now, stream_->unacknowledged(), server_.options_.timeouts.idle)) return true;
  server_.gate_.timed_out(Gate::Slow::write);
  return false;
}

// Something has been shut since then; true once in each window of time.
bool Connection::is_due(Instant& since, Instant now) const noexcept {
  if (since == Instant{}) since = now;
  if (now - since < server_.options_.timeouts.write) return false;
  since = now;
  return true;
}

// Draining: the peer is told to begin no more requests, and after a moment, which was the last one that will
// be answered. True: the connection is idle, and is kept to attend.
bool Connection::drain_step() noexcept {
  const Instant now = server_.machine_.shard.now();
  const bool goes = server_.is_over(attends_);
  if (over_ || drain_ == Drain::told || !(goes || closes_)) return false;
  if (!closes_ && drain_ == Drain::no) {
    if (!fresh_ && is_idle() && may_be_kept() && !work_ && !stream_->readable.ready()) {
      out_.reset();
      return true;
    }
    (void)nghttp2_submit_shutdown_notice(session_.get());
    drain_ = Drain::noticed;
    goaway_waits_ = true;
    poke();
  } else if (closes_ || now >= told_at_) {
    (void)nghttp2_submit_goaway(session_.get(), NGHTTP2_FLAG_NONE,
                                nghttp2_session_get_last_proc_stream_id(session_.get()), NGHTTP2_NO_ERROR,
                                nullptr, 0);
    drain_ = Drain::told;
    goaway_waits_ = true;
    poke();
  }
  return false;
}

// Called by nghttp2: what drain_step() has to say is written down.
void Connection::note_goaway() noexcept {
  goaway_waits_ = false;
  if (drain_ == Drain::noticed) told_at_ = server_.machine_.shard.now() + drain_grace;
}

}  // namespace cairn::http::h2
