#include "http/h1/chunked.h"

#include <algorithm>

#include "http/scan.h"

namespace cairn::http {

// Takes one byte of framing. Returns why the byte is refused, or nullptr.
const char* ChunkedDecoder::advance(char c) noexcept {
  switch (state_) {
    case State::size_first:
      left_ = 0;
      digits_ = 0;
      extension_ = 0;
      if (hex_value(c) < 0) return "chunk without a size";
      state_ = State::size;
      [[fallthrough]];
    case State::size:
      if (const int digit = hex_value(c); digit >= 0) {
        if (++digits_ > 16 || left_ >> 59 != 0) return "chunk size overflows";
        left_ = left_ << 4 | static_cast<std::uint64_t>(digit);
        return nullptr;
      }
      if (c != ';' && c != '\r') return "chunk size is not hex";
      state_ = State::extension;
      [[fallthrough]];
    case State::extension:
      if (c == '\r') {
        state_ = State::size_line_feed;
        return nullptr;
      }
      if (++extension_ > extension_max || ++extensions_ > extensions_max) return "chunk extension too long";
      return (c < 0x20 && c != '\t') || c == 0x7f ? "character not allowed in a chunk extension" : nullptr;
    case State::size_line_feed:
      if (c != '\n') return "bare CR behind a chunk size";
      state_ = left_ != 0 ? State::data : State::trailer_line;
      return nullptr;
    case State::data:
      break;
    case State::data_return:
      if (c != '\r') return "chunk longer than its size";
      state_ = State::data_line_feed;
      return nullptr;
    case State::data_line_feed:
      if (c != '\n') return "bare CR behind a chunk";
      state_ = State::size_first;
      return nullptr;
    case State::trailer_line:
      if (c == '\r') {
        state_ = State::last_line_feed;
        return nullptr;
      }
      if (++trailer_fields_ > trailer_fields_max) return "more than 100 trailer fields";
      if (!is_token_character(c)) return "trailer name is not a token";
      state_ = State::trailer_name;
      return nullptr;
    case State::trailer_name:
      if (c == ':')
        state_ = State::trailer_value;
      else if (!is_token_character(c))
        return "trailer name is not a token";
      return nullptr;
    case State::trailer_value:
      if (c == '\r')
        state_ = State::trailer_line_feed;
      else if (is_control(c) && c != '\t')
        return "control character in a trailer";
      return nullptr;
    case State::trailer_line_feed:
      if (c != '\n') return "bare CR in a trailer";
      state_ = State::trailer_line;
      return nullptr;
    case State::last_line_feed:
      return c != '\n' ? "bare CR behind the trailers" : nullptr;
  }
  return nullptr;
}

ChunkedDecoder::Step ChunkedDecoder::next(std::string_view input) noexcept {
  std::size_t at = 0;
  for (; at < input.size(); ++at) {
    if (state_ == State::data) {
      const auto size = static_cast<std::size_t>(std::min<std::uint64_t>(left_, input.size() - at));
      left_ -= size;
      if (left_ == 0) state_ = State::data_return;
      return {Kind::data, at + size, input.substr(at, size), {}};
    }
    const char* fault = nullptr;
    if (state_ >= State::trailer_line && ++trailers_ > trailers_max) fault = "trailers over 8 KiB";
    const bool last = state_ == State::last_line_feed;
    if (fault == nullptr) fault = advance(input[at]);
    if (fault != nullptr) return {Kind::failed, at, {}, Error(ErrorCode::malformed, fault, Side::client)};
    if (last) return {Kind::done, at + 1, {}, {}};
  }
  return {Kind::need_more, at, {}, {}};
}

}  // namespace cairn::http
