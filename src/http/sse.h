// Server-sent events as a server writes them: `event:`, `id:`, `data:` lines, an empty line behind each
// event.
//
// A stream is pulled: the next event is asked for once the kernel has taken the one before. So a subscriber
// costs one rendered chunk beside its socket's buffers, however fast events come. A subscriber that does not
// read is cut by the write timeout like any other. For routes that stay open (serve's Run::open).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "http/exchange.h"

namespace cairn::http {

// Appends one event. `event` and `id` may be empty: the line is left out. Line ends in `data` (LF, CR LF or
// CR) are kept as line ends. `event` and `id` are one line whatever they hold: CR, LF and NUL are left out.
void append_event(std::string& out, std::string_view event, std::string_view id, std::string_view data);
// Appends a line that readers skip; without a text, the heartbeat.
void append_comment(std::string& out, std::string_view text = {});

// The id of the last event that the client has seen; nothing if it sends none; `malformed` if it sends
// several, or one that parse_event_id() refuses.
Result<std::optional<std::uint64_t>> read_last_event_id(const Fields& fields) noexcept;

// One decimal number below 2^64 without leading zeros, or `malformed`.
Result<std::uint64_t> parse_event_id(std::string_view text) noexcept;

// Where a stream gets its events.
class EventFeed {
 public:
  enum class More : std::uint8_t { yes, no };

  virtual ~EventFeed() = default;
  // Waits for the next event and appends it to `out` with append_event(), with further events that are at
  // hand, up to about event_chunk_max. `no`: that was the last event. An error breaks the connection. The
  // call's deadline is the time of the next heartbeat. Cancel: clean — nothing was appended, and the next
  // call goes on from there.
  virtual Task<Result<More>> next(Call call, std::string& out) = 0;
};

inline constexpr std::size_t event_chunk_max = std::size_t{16} << 10;
inline constexpr Duration event_heartbeat = Duration::seconds(15);

// Sends a feed as the body of an answer, with a heartbeat when nothing else was sent for that long.
class EventStream final : public io::BodySource {
 public:
  explicit EventStream(std::unique_ptr<EventFeed> feed, Duration heartbeat = event_heartbeat) noexcept
      : feed_(std::move(feed)), heartbeat_(heartbeat) {}
  Task<Result<io::Piece>> next(Call call) override;

 private:
  std::unique_ptr<EventFeed> feed_;
  Duration heartbeat_;
  std::string chunk_;  // the chunk that is being sent
  bool more_ = true;
};

// Fills the response: 200, the type, and the fields that forbid proxies and caches to store or delay the
// stream.
void answer_events(Response& response, std::unique_ptr<EventFeed> feed, Duration heartbeat = event_heartbeat);

}  // namespace cairn::http
