// RequestParser: strict, incremental parser of an HTTP/1.1 request head. No allocation, no copy.
//
// The connection owns a contiguous buffer and calls parse() with everything from the head's first byte
// each time more has arrived; only new bytes are looked at. The verdict depends on the bytes alone, not
// on how they were split: it is reached at the first byte that decides it.
//   * one CRLF before the request line is skipped
//   * unknown method or TRACE: not_implemented; CONNECT: malformed; HTTP/x.y but 1.0 and 1.1: bad_version
//   * target over its limit: uri_too_long; head over its limit or more than 100 fields: headers_too_large
//   * everything else that is not exactly the grammar, and every framing that two recipients could read
//     differently: malformed
// After `failed` the beginning of the next request is unknown: answer and close.
#pragma once

#include <string_view>

#include "http/head.h"

namespace cairn::http {

// What a head says about its connection, beside the request itself.
struct RequestFraming {
  std::uint8_t minor = 1;  // HTTP/1.minor
  bool keep_alive = true;
  bool expect_continue = false;  // the client waits for 100 before it sends a body that is not empty
};

class RequestParser {
 public:
  explicit RequestParser(HeadLimits limits = {}) noexcept;

  // For the next head. Precondition: reset() was the last call.
  void set_limits(HeadLimits limits) noexcept;
  const HeadLimits& limits() const noexcept { return limits_; }
  // Forgets everything: the next parse() starts a new head.
  void reset() noexcept;
  // Not to be called again after complete or failed without reset(). `head` and `framing` are meaningful when
  // complete.
  Parsed parse(std::string_view bytes) noexcept;
  // Whether any byte of a request line has been seen (an idle connection may close silently, a started
  // one answers 408).
  bool started() const noexcept { return state_ != State::blank_line; }

  RequestHead head;
  RequestFraming framing;

 private:
  enum class State : std::uint8_t { blank_line, blank_line_feed, method, target, version, fields };
  Parsed request_line(std::string_view bytes) noexcept;

  HeadLimits limits_;
  State state_ = State::blank_line;
  std::uint32_t position_ = 0;  // the next byte to look at
  std::uint32_t query_at_ = 0;  // behind the first ?, 0 while there is none
  FieldScanner scanner_;
};

}  // namespace cairn::http
