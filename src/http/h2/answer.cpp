// The requests of an HTTP/2 connection and their answers.
#include <algorithm>
#include <array>

#include "http/h1/framing.h"
#include "http/h2/connection.h"

namespace cairn::http::h2 {
namespace {

// Fields whose values differ in nearly every answer: in the table they would push out those that do not. The
// date is not among them, because it is the same for a second.
bool is_fickle(FieldName name) noexcept {
  switch (name) {
    case FieldName::x_corr_id:
    case FieldName::content_range:
    case FieldName::last_modified:
    case FieldName::traceparent:
      return true;
    default:
      return false;
  }
}

// Fields that HTTP/1.1 answers with and HTTP/2 has no use for.
bool is_dropped(FieldName name) noexcept {
  return is_framing(name) || name == FieldName::sec_websocket_accept;
}

bool has_body(const Exchange& exchange) noexcept {
  const int status = exchange.response.status;
  return exchange.request().method != Method::head && status != 204 && status != 304;
}

}  // namespace

bool Connection::may_begin() const noexcept {
  return !over_ && running_ < server_.options_.max_running && text_bytes_ < texts_max;  // H2-3, H2-4
}

// False: the connection ends.
Task<bool> Connection::begin_waiting(Call call) {
  while (!waiting_.empty() && may_begin()) {
    Stream& stream = waiting_.front();
    if (admission_ == Gate::Admission::extra && !co_await find_place(call, stream, !stream.fault))
      co_return false;
    stream.unlink();
    live_.push_back(stream);
    begin(stream);
  }
  co_return true;
}

void Connection::begin(Stream& stream) {
  stream.reserved = admission_ != Gate::Admission::welcome;
  stream.without_place = admission_ == Gate::Admission::refused;
  stream.attends = attends_ && !health_only_;
  stream.started = server_.machine_.shard.now();
  stream.is_begun = true;
  fresh_ = false;
  if (stream.fault) {
    server_.answerer_.refuse(stream, *stream.fault);
    return submit(stream);
  }
  const Answerer::Next next = ask(stream);
  if ((stream.stays_open && !take_place(stream)) || next == Answerer::Next::answered) return submit(stream);
  stream.runs = true;
  if (!stream.stays_open) ++running_;
  (void)stop_of(stream);  // it may be stopped before it has begun
  tasks_->spawn("h2 handler", run_handler(tasks_->call(), &stream), Waits::bounded);
}

// An exception is a bug of the handler: it costs this stream and nothing else.
Answerer::Next Connection::ask(Stream& stream) {
  try {
    return server_.answerer_.begin(stream);
  } catch (...) {  // the stream's boundary
    answer_failure(stream);
    return Answerer::Next::answered;
  }
}

void Connection::answer_failure(Stream& stream) {
  stream.response.clear();
  server_.answerer_.refuse(stream, {ErrorCode::internal, "a handler failed"});
}

// The first open stream stands on the connection's own place.
bool Connection::take_place(Stream& stream) {
  if (open_ > 0 && admission_ == Gate::Admission::welcome) {
    stream.has_place = server_.gate_.admit_stream(stream.peer);
    if (!stream.has_place) {
      stream.stays_open = false;
      stream.response.clear();
      server_.answerer_.refuse(stream, {ErrorCode::busy, "too many connections", Side::client});
      return false;
    }
  }
  ++open_;
  return true;
}

CancelSource& Connection::stop_of(Stream& stream) {
  if (!stream.stop)
    stream.stop.emplace(server_.machine_.shard, stream.stays_open ? server_.idle_.get() : &tasks_->source());
  return *stream.stop;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): streams outlive their tasks
Task<> Connection::run_handler(Call call, Stream* stream) {
  bool threw = false;
  try {
    co_await server_.answerer_.handle(call.under(stop_of(*stream)), *stream);
  } catch (...) {  // the stream's boundary
    threw = true;
  }
  stream->runs = false;
  if (!stream->stays_open) --running_;
  try {
    if (threw && stream->is_open) answer_failure(*stream);
    submit(*stream);
  } catch (...) {
    failure_ = std::current_exception();
  }
  poke();
}

void Connection::add_field(std::string_view name, std::string_view value, std::uint8_t flags) {
  fields_.push_back({reinterpret_cast<std::uint8_t*>(const_cast<char*>(name.data())),
                     reinterpret_cast<std::uint8_t*>(const_cast<char*>(value.data())), name.size(),
                     value.size(), flags});
}

// The answer's fields besides its status and length.
void Connection::add_fields(const Stream& stream) {
  constexpr std::size_t date_at = std::string_view("Date: ").size();
  const Response& response = stream.response;
  add_field("date", server_.date_line().substr(date_at, http_date_size));
  add_field("x-content-type-options", "nosniff");
  if (const std::string_view line = server_.options_.strict_transport; !line.empty() && stream.encrypted) {
    const std::size_t colon = line.find(": ");
    add_field("strict-transport-security", line.substr(colon + 2, line.size() - colon - 4));
  }
  response.fields.each([&](std::string_view name, std::string_view value) {
    const FieldName known = find_field_name(name);
    if (!is_dropped(known)) add_field(name, value, is_fickle(known) ? NGHTTP2_NV_FLAG_NO_INDEX : 0);
  });
  if (!response.content_type.empty()) add_field("content-type", response.content_type);
}

// Hands the answer over to nghttp2.
void Connection::submit(Stream& stream) {
  if (!stream.is_open) return break_stream(stream);
  Response& response = stream.response;
  // A conversation lasts, whatever the answerer has said of its request.
  if (response.switches && !stream.upgrade.empty() && !std::exchange(stream.stays_open, true))
    (void)take_place(stream);
  const bool fits = response.is_sound() && !(response.switches && stream.upgrade.empty());
  if (!response.abandoned && !fits) answer_failure(stream);
  // To a CONNECT, any 2xx says that the protocol is spoken from here on (RFC 8441).
  if (!stream.upgrade.empty() && !response.switches && !response.abandoned && response.status / 100 == 2) {
    response.clear();
    server_.answerer_.refuse(stream, {ErrorCode::not_implemented, "this path speaks no such protocol"});
  }
  if (response.abandoned) return reset_stream(stream, NGHTTP2_CANCEL);
  // An error in one request is no reason to end the others'.
  if (response.close && (attends_ || admission_ != Gate::Admission::welcome)) closes_ = true;
  if (response.switches) agree(stream);
  const int status = response.status;
  const std::array<char, 3> digits{static_cast<char>('0' + status / 100),
                                   static_cast<char>('0' + status / 10 % 10),
                                   static_cast<char>('0' + status % 10)};
  char length[decimal_size_max];
  fields_.clear();
  add_field(":status", {digits.data(), digits.size()});
  add_fields(stream);
  if (response.has_length() && status != 204 && status != 304)
    add_field("content-length", {length, format_decimal_to(response.size(), length)});
  stream.flow.start(response, has_body(stream), stream.carried ? &stream.carried->conversing : nullptr);
  stream.answered = true;
  if (response.kind == Response::Body::text) text_bytes_ += response.text.size();
  nghttp2_data_provider provider{};
  provider.source.ptr = &stream;
  provider.read_callback = [](nghttp2_session*, std::int32_t, std::uint8_t*, std::size_t room,
                              std::uint32_t* flags, nghttp2_data_source* source, void* self) -> ssize_t {
    try {
      return static_cast<Connection*>(self)->read_body(*static_cast<Stream*>(source->ptr), room, flags);
    } catch (...) {  // the source failed: a part must not be taken for the whole
      return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
  };
  const int submitted = nghttp2_submit_response(session_.get(), stream.id, fields_.data(), fields_.size(),
                                                stream.flow.is_spent() ? nullptr : &provider);
  if (submitted != 0) reset_stream(stream, NGHTTP2_INTERNAL_ERROR);
}

// From here on the stream's stop only tells that draining has begun (CV-4).
void Connection::agree(Stream& stream) {
  const ServerTimeouts& timeouts = server_.options_.timeouts;
  stream.response.status = 200;
  stream.wire_body.open();
  stream.stop.emplace(server_.machine_.shard, server_.idle_.get());
  stream.carried.emplace(server_.machine_.shard, *tasks_, *stream.stop, stream,
                         Conversing::Times{.piece = timeouts.source, .goodbye = timeouts.linger});
}

// What the sources keep and may soon give is bounded (H2-3). No room is held for a source that lets a fetch
// wait, as long as there are few: two answers that stall upstream would else hold up all the others.
void Connection::start_fetches() {
  fetch_at_ = Instant::never();
  if (hungry_ == 0 || over_) return;
  const Instant now = server_.machine_.shard.now();
  Instant lapses = Instant::never();
  std::size_t kept = 0;
  unsigned slow = 0;  // fetches that no room is held for
  live_.for_each([&](const Stream& stream) {
    if (stream.stays_open) return;
    kept += stream.flow.held();
    slow += stream.fetches && stream.is_slow ? 1 : 0;
  });
  live_.for_each([&](Stream& stream) {
    if (stream.stays_open || !stream.fetches || stream.is_slow) return;
    const bool has_lapsed = now - stream.fetches_since >= prompt;
    if (has_lapsed && slow < slow_max) {
      stream.is_slow = true;
      ++slow;
      return;
    }
    kept += Slab::large;
    if (!has_lapsed) lapses = std::min(lapses, stream.fetches_since + prompt);
  });
  live_.for_each([&](Stream& stream) {
    if (!stream.hungry || !stream.is_open) return;
    if (!stream.stays_open) {
      if (blocked_) return;  // what was fetched already is more than the socket takes
      const std::size_t room = stream.is_slow ? 0 : Slab::large;
      if (kept + room > pieces_max || (stream.is_slow && slow >= slow_max)) {
        fetch_at_ = lapses;
        return;
      }
      kept += room;
      slow += stream.is_slow ? 1 : 0;
      stream.fetches_since = now;
      lapses = std::min(lapses, now + prompt);
    }
    stream.hungry = false;
    --hungry_;
    stream.fetches = true;
    (void)stop_of(stream);
    tasks_->spawn("h2 answer", fetch(tasks_->call(), &stream), Waits::bounded);
  });
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): streams outlive their tasks
Task<> Connection::fetch(Call call, Stream* stream) {
  CancelSource& stop = stop_of(*stream);
  bool more = false;
  try {
    const Call wait = call.under(stop).within(server_.options_.timeouts.source);
    more = co_await stream->flow.fetch(wait, server_.machine_.slab);
  } catch (...) {  // NOLINT(bugprone-empty-catch): the stream is reset
  }
  // What it says has ended, and so does the listener, before the peer is told of the end (CV-2).
  const bool over = !more || stream->flow.is_spent() || !stream->is_open;
  if (stream->carried && over) co_await end_conversation(stream);
  // Only draining ends the stream properly. If the peer has left, the error stands.
  if (!more && stream->stays_open && !stream->response.switches && stop.reason() == StopReason::draining) {
    stream->flow.end();
    more = true;
  }
  stream->fetches = false;
  stream->is_slow = server_.machine_.shard.now() - stream->fetches_since >= prompt;
  if (stream->is_open) {  // next time it is the others' turn first
    stream->unlink();
    live_.push_back(*stream);
  }
  try {
    if (!stream->is_open)
      break_stream(*stream);
    else if (more)
      (void)nghttp2_session_resume_data(session_.get(), stream->id);
    else
      reset_stream(*stream, NGHTTP2_INTERNAL_ERROR);
  } catch (...) {
    failure_ = std::current_exception();
  }
  poke();
}

// A listener that failed may have made the conversation say so: the end of what it said stands.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): streams outlive their tasks
Task<> Connection::end_conversation(Stream* stream) {
  try {
    co_await stream->carried->conversing.end();
  } catch (const std::exception& problem) {  // the stream's boundary
    server_.gate_.broke(problem.what());
  } catch (...) {
    server_.gate_.broke("not a std::exception");
  }
  stream->carried.reset();
}

// The stream has ended while nobody waited for what its conversation says.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): streams outlive their tasks
Task<> Connection::hang_up(Stream* stream) {
  co_await end_conversation(stream);
  stream->fetches = false;
  try {
    break_stream(*stream);
  } catch (...) {
    failure_ = std::current_exception();
  }
  poke();
}

void Connection::reset_stream(Stream& stream, std::uint32_t code) noexcept {
  (void)nghttp2_submit_rst_stream(session_.get(), NGHTTP2_FLAG_NONE, stream.id, code);
  poke();
}

// Called by nghttp2: the last frame of the answer is written down.
void Connection::note_sent(Stream& stream) {
  if (!stream.answered || stream.sent_all) return;
  stream.sent_all = true;
  if (stream.response.kind == Response::Body::text) text_bytes_ -= stream.response.text.size();
  stream.unlink();
  written_.push_back(stream);
}

// The whole answer has left, and the peer still sends its request. As in HTTP/1.1 the rest is thrown away for
// a while: some clients, curl among them, take a reset that comes with the answer for a failure of both.
void Connection::decline_body(Stream& stream) noexcept {
  grant(stream);
  (void)nghttp2_session_consume(session_.get(), stream.id, stream.wire_body.drop_unread());
  poke();
  stream.declined_at = server_.machine_.shard.now() + server_.options_.timeouts.linger;
  decline_at_ = std::min(decline_at_, stream.declined_at);
}

void Connection::throw_away(Stream& stream, std::size_t count) noexcept {
  stream.thrown_away += count;
  if (stream.thrown_away <= server_.options_.linger_bytes) return;
  decline_at_ = stream.declined_at = server_.machine_.shard.now();
}

// The rest of these requests is not wanted; their answers are whole.
void Connection::decline_bodies(Instant now) noexcept {
  decline_at_ = Instant::never();
  live_.for_each([&](Stream& stream) {
    if (!stream.sent_all || !stream.is_open) return;
    if (stream.declined_at <= now)
      reset_stream(stream, NGHTTP2_NO_ERROR);
    else
      decline_at_ = std::min(decline_at_, stream.declined_at);
  });
}

void Connection::finish(Stream& stream, bool complete) {
  constexpr std::int64_t earned = 8;
  if (!std::exchange(stream.is_begun, false)) return;
  if (complete) controls_.earn(earned);
  server_.answerer_.finished(stream, complete);
}

// The stream is closed before its answer was sent.
void Connection::break_stream(Stream& stream) {
  if (stream.stop) stream.stop->cancel(StopReason::client_gone);
  if (stream.carried) stream.carried->stop.cancel(StopReason::client_gone);
  if (stream.runs || stream.fetches) return;  // the task comes here again
  if (stream.carried) {
    stream.fetches = true;
    tasks_->spawn("h2 answer", hang_up(&stream), Waits::bounded);
    return;
  }
  finish(stream, false);
  release_if_done(stream);
}

void Connection::release_if_done(Stream& stream) {
  if (stream.is_open || stream.is_begun || stream.runs || stream.fetches) return;
  stream.unlink();
  if (stream.has_head) head_bytes_ -= stream.head.kept();
  if (stream.hungry) --hungry_;
  if (stream.answered && !stream.sent_all && stream.response.kind == Response::Body::text)
    text_bytes_ -= stream.response.text.size();
  if (stream.stays_open) --open_;
  if (stream.has_place) server_.gate_.stream_left(stream.peer);
  --streams_;
  if (streams_ == 0) idle_since_ = server_.machine_.shard.now();
  server_.give_back(&stream);
}

}  // namespace cairn::http::h2
