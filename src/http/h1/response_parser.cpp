#include "http/h1/response_parser.h"

#include <algorithm>

#include "base/check.h"
#include "http/h1/framing.h"
#include "http/scan.h"

namespace cairn::http {
namespace {

Parsed failed(const char* context) noexcept {
  return {Progress::failed, 0, Error(ErrorCode::upstream, context, Side::upstream)};
}

// '0' stands for any digit.
constexpr std::string_view status_pattern = "HTTP/1.0 000";

const char* apply_fields(ResponseHead& head, Method request_method) noexcept {
  if (const char* fault = find_framing_fault(head.fields, head.minor, head.body, head.content_length))
    return fault;
  head.announced = head.body == BodyKind::length;
  head.keep_alive = is_persistent(head.fields, head.minor);
  const bool never_has_body = head.status < 200 || head.status == 204;
  if (never_has_body) {
    if (head.body == BodyKind::chunked) return "transfer coding where no body can be";
    // A peer that announces a body here may also send one: do not use the connection again.
    if (head.announced && head.content_length != 0) head.keep_alive = false;
    head.body = BodyKind::none;
  } else if (head.status == 304 || request_method == Method::head) {
    head.body = BodyKind::none;
  } else if (head.body == BodyKind::none) {
    head.body = BodyKind::until_close;
    head.keep_alive = false;
  }
  return nullptr;
}

}  // namespace

ResponseParser::ResponseParser(HeadLimits limits) noexcept : limits_(limits) {
  CHECK(limits.head_bytes <= 65535);
}

void ResponseParser::reset(Method request_method) noexcept {
  head.fields.clear();
  head.status = 0;
  head.minor = 1;
  head.body = BodyKind::none;
  head.keep_alive = true;
  head.content_length = 0;
  head.announced = false;
  head.reason_size = 0;
  request_method_ = request_method;
  state_ = State::status_line;
  position_ = 0;
}

Parsed ResponseParser::status_line(std::string_view bytes) noexcept {
  const char* const base = bytes.data();
  const char* const end = base + bytes.size();
  if (state_ == State::status_line) {
    const std::size_t available = std::min(bytes.size(), status_pattern.size());
    for (std::size_t i = 0; i < available; ++i)
      if (status_pattern[i] == '0' ? !is_digit(base[i]) : base[i] != status_pattern[i])
        return failed("not a status line of HTTP/1.1");
    if (available < status_pattern.size()) return {};
    if (base[7] > '1') return failed("not a status line of HTTP/1.1");
    head.minor = static_cast<std::uint8_t>(base[7] - '0');
    head.status = (base[9] - '0') * 100 + (base[10] - '0') * 10 + (base[11] - '0');
    if (head.status < 100 || head.status > 599) return failed("status out of range");
    state_ = State::reason;
    position_ = static_cast<std::uint32_t>(status_pattern.size());
  }
  const std::size_t behind_status = status_pattern.size();
  const char* p = base + position_;
  for (;;) {
    p = find_control(p, end);
    // Some servers drop the blank before an empty reason; nothing else may follow the digits.
    if (p > base + behind_status && base[behind_status] != ' ') return failed("status is not three digits");
    if (p == end || *p != '\t') break;
    ++p;
  }
  position_ = static_cast<std::uint32_t>(p - base);
  if (p == end) return {};
  if (*p != '\r') return failed("control character in a reason");
  if (p + 1 == end) return {};
  if (p[1] != '\n') return failed("bare CR in a reason");
  head.reason_at = static_cast<std::uint16_t>(std::min<std::size_t>(behind_status + 1, position_));
  head.reason_size = static_cast<std::uint16_t>(position_ - head.reason_at);
  state_ = State::fields;
  scanner_.start(position_ + 2);
  return {};
}

Parsed ResponseParser::parse(std::string_view bytes) noexcept {
  const std::string_view visible = bytes.substr(0, limits_.head_bytes);
  Parsed parsed;
  if (state_ != State::fields) parsed = status_line(visible);
  if (state_ == State::fields) {
    parsed = scanner_.scan(visible, head.fields);
    if (parsed.progress == Progress::failed) return failed(parsed.error.context);
    if (parsed.progress == Progress::complete) {
      head.rebase(bytes.data());
      if (const char* fault = apply_fields(head, request_method_)) return failed(fault);
      return parsed;
    }
  }
  if (parsed.progress == Progress::need_more && bytes.size() >= limits_.head_bytes)
    return failed("head over its limit");
  return parsed;
}

}  // namespace cairn::http
