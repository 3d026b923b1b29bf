// ResponseParser: strict, incremental parser of an HTTP/1.1 response head, for the client.
//
// Same contract as RequestParser; shares its field-line code. Every failure is `upstream`.
#pragma once

#include <cstdint>
#include <string_view>

#include "http/head.h"

namespace cairn::http {

struct ResponseHead {
  int status = 0;  // 100..599
  std::uint8_t minor = 1;
  BodyKind body = BodyKind::none;
  bool keep_alive = true;
  // For BodyKind::length; also what a HEAD or 304 answer announces, when `announced`.
  std::uint64_t content_length = 0;
  bool announced = false;
  Fields fields;

  // 1xx but 101: another head follows; reset the parser and go on behind this one.
  bool interim() const noexcept { return status < 200 && status != 101; }
  std::string_view reason() const noexcept {
    return base == nullptr ? std::string_view{} : std::string_view{base + reason_at, reason_size};
  }
  void rebase(const char* new_base) noexcept {
    base = new_base;
    fields.rebase(new_base);
  }

  const char* base = nullptr;
  std::uint16_t reason_at = 0, reason_size = 0;
};

class ResponseParser {
 public:
  explicit ResponseParser(HeadLimits limits = {}) noexcept;

  // `request_method` decides whether a body follows (HEAD has none).
  void reset(Method request_method) noexcept;
  Parsed parse(std::string_view bytes) noexcept;

  ResponseHead head;

 private:
  enum class State : std::uint8_t { status_line, reason, fields };
  Parsed status_line(std::string_view bytes) noexcept;

  HeadLimits limits_;
  Method request_method_ = Method::get;
  State state_ = State::status_line;
  std::uint32_t position_ = 0;
  FieldScanner scanner_;
};

}  // namespace cairn::http
