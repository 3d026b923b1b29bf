#include "http/sse.h"

#include <charconv>

namespace cairn::http {
namespace {

void append_line(std::string& out, std::string_view name, std::string_view value) {
  out.append(name).append(": ");
  for (const char c : value)
    if (c != '\r' && c != '\n' && c != '\0') out += c;
  out += '\n';
}

}  // namespace

void append_event(std::string& out, std::string_view event, std::string_view id, std::string_view data) {
  if (!event.empty()) append_line(out, "event", event);
  if (!id.empty()) append_line(out, "id", id);
  for (;;) {
    const std::size_t end = data.find_first_of("\r\n");
    out.append("data: ").append(data.substr(0, end)).append("\n");
    if (end == std::string_view::npos) break;
    data.remove_prefix(end + (data.substr(end).starts_with("\r\n") ? 2 : 1));
  }
  out += '\n';
}

void append_comment(std::string& out, std::string_view text) {
  append_line(out, {}, text);
  out += '\n';
}

Result<std::uint64_t> parse_event_id(std::string_view text) noexcept {
  std::uint64_t number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  const bool padded = text.size() > 1 && text.front() == '0';
  if (error != std::errc() || stop != end || padded)
    return fail(ErrorCode::malformed, "the last event's id is not one number", Side::client);
  return number;
}

Result<std::optional<std::uint64_t>> read_last_event_id(const Fields& fields) noexcept {
  const auto text = fields.find(FieldName::last_event_id);
  if (!text) return std::optional<std::uint64_t>();
  if (fields.repeated(FieldName::last_event_id))
    return fail(ErrorCode::malformed, "Last-Event-ID is there twice", Side::client);
  TRY(const std::uint64_t number, parse_event_id(*text));
  return std::optional(number);
}

Task<Result<io::Piece>> EventStream::next(Call call) {
  if (!more_) co_return io::Piece();
  // A large event must not keep its room for as long as the stream lasts.
  if (chunk_.capacity() > event_chunk_max) chunk_ = std::string();
  chunk_.clear();
  const Call beat = call.within(heartbeat_);
  while (chunk_.empty() && more_) {
    auto more = co_await feed_->next(beat, chunk_);
    if (more) {
      more_ = *more == EventFeed::More::yes;
    } else if (more.error().stop == StopReason::deadline && beat.expired() && !call.expired()) {
      append_comment(chunk_);
    } else {
      co_return fail(more.error());
    }
  }
  co_return io::Piece::memory(as_bytes(chunk_));
}

void answer_events(Response& response, std::unique_ptr<EventFeed> feed, Duration heartbeat) {
  response.add_lines("Cache-Control: no-store\r\nX-Accel-Buffering: no\r\n");
  response.answer_stream("text/event-stream", std::make_unique<EventStream>(std::move(feed), heartbeat));
}

}  // namespace cairn::http
