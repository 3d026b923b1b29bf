// SseParser: server-sent events as a client reads them, from bytes in any pieces.
//
// Lines end with LF, CR LF or CR; fields other than event, data, id and retry, and comments, are skipped, as
// the format's standard has it. Stricter than it: what is not UTF-8, or an id with NUL, is malformed. What is
// kept is bounded: an event is handed out before the bytes behind it are looked at.
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

  // Takes bytes off the front until an event is complete: true, event() is it until the next call; or until
  // none are left: false. `malformed`, or `body_cap` for one that is too large; an error is final.
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
  std::string line_;  // what has come of it
  std::optional<std::uint64_t> retry_ms_;
  std::optional<Error> failed_;
  bool first_line_ = true;
  bool after_cr_ = false;  // an LF that comes next belongs to it
  bool has_data_ = false;
  bool handed_out_ = false;  // event_ is to be begun anew
};

}  // namespace cairn::http
