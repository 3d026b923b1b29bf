// SseParser: server-sent events as a client reads them, from bytes in any pieces.
//
// Lines end with LF, CR LF or CR. Comments, and fields other than event, data, id and retry, are skipped, as
// the format's standard says. The parser is stricter in this: text that is not UTF-8, and an id with NUL, are
// malformed. Its memory is bounded: it hands out an event before it looks at the bytes behind it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cairn::http {

struct SseEvent {
  std::string event;  // empty: `message`
  std::string id;     // the newest so far, also from an earlier event
  std::string data;   // lines joined by LF
  friend bool operator==(const SseEvent&, const SseEvent&) = default;
};

class SseParser {
 public:
  static constexpr std::size_t default_max = std::size_t{1} << 20;
  // An event, or a line, may not be larger than `event_max` bytes in all.
  explicit SseParser(std::size_t event_max = default_max) noexcept : event_max_(event_max) {}

  // Takes bytes off the front. True: an event is complete, and event() returns it until the next call. False:
  // no bytes are left. `malformed`, or `body_cap` for an event that is too large; an error is final.
  Result<bool> next(std::string_view& bytes);
  const SseEvent& event() const noexcept { return event_; }
  // How long the server asks to wait before coming back, in milliseconds.
  std::optional<std::uint64_t> retry_ms() const noexcept { return retry_ms_; }

 private:
  // True when the line completed an event.
  Result<bool> take_line();
  Result<> take_field(std::string_view name, std::string_view value);

  std::size_t event_max_;
  SseEvent event_;
  std::string line_;  // the part of the line that has arrived
  std::optional<std::uint64_t> retry_ms_;
  std::optional<Error> failed_;
  bool first_line_ = true;
  bool after_cr_ = false;  // a CR ended the line; an LF right behind it belongs to the same line end
  bool has_data_ = false;
  bool handed_out_ = false;  // the next call begins a new event_
};

}  // namespace cairn::http
