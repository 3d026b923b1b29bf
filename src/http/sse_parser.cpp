#include "http/sse_parser.h"

#include <charconv>

#include "base/utf8.h"

namespace cairn::http {

Result<bool> SseParser::next(std::string_view& bytes) {
  if (failed_) return fail(*failed_);
  if (handed_out_) {
    event_.event.clear();
    event_.data.clear();
    has_data_ = handed_out_ = false;
  }
  while (!bytes.empty()) {
    if (std::exchange(after_cr_, false) && bytes.front() == '\n') {
      bytes.remove_prefix(1);
      continue;
    }
    const std::size_t end = bytes.find_first_of("\r\n");
    const std::string_view part = bytes.substr(0, end);
    if (part.size() + line_.size() + event_.data.size() + event_.event.size() + event_.id.size() > event_max_)
      return fail(failed_.emplace(ErrorCode::body_cap, "an event over its size", Side::upstream));
    line_ += part;
    if (end == std::string_view::npos) {
      bytes = {};
      break;
    }
    after_cr_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    auto complete = take_line();
    line_.clear();
    if (!complete) return fail(failed_.emplace(complete.error()));
    if (*complete) return true;
  }
  return false;
}

Result<bool> SseParser::take_line() {
  std::string_view line = line_;
  if (std::exchange(first_line_, false) && line.starts_with("\xef\xbb\xbf")) line.remove_prefix(3);
  if (line.empty()) {
    handed_out_ = has_data_;
    if (has_data_)
      event_.data.pop_back();  // the end of its last line
    else
      event_.event.clear();  // without data there is no event
    return has_data_;
  }
  if (!is_utf8(line)) return fail(ErrorCode::malformed, "a line that is not UTF-8", Side::upstream);
  const std::size_t colon = line.find(':');
  if (colon == 0) return false;
  std::string_view value = colon == std::string_view::npos ? std::string_view() : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  TRY_VOID(take_field(line.substr(0, colon), value));
  return false;
}

Result<> SseParser::take_field(std::string_view name, std::string_view value) {
  if (name == "data") {
    event_.data.append(value).append("\n");
    has_data_ = true;
  } else if (name == "event") {
    event_.event = value;
  } else if (name == "id") {
    if (value.find('\0') != std::string_view::npos)
      return fail(ErrorCode::malformed, "an id with NUL", Side::upstream);
    event_.id = value;
  } else if (name == "retry") {
    std::uint64_t ms = 0;
    const char* end = value.data() + value.size();
    const auto [stop, error] = std::from_chars(value.data(), end, ms);
    if (error == std::errc() && stop == end) retry_ms_ = ms;
  }
  return {};
}

}  // namespace cairn::http
