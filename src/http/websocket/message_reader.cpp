#include "http/websocket/message_reader.h"

#include <algorithm>

namespace cairn::http::websocket {

using Kind = MessageReader::Kind;

Kind MessageReader::fail(CloseCode code, const char* fault) noexcept {
  state_ = State::over;
  code_ = code;
  fault_ = fault;
  return Kind::failed;
}

std::string_view MessageReader::payload() const noexcept {
  if (given_ == Opcode::close) return std::string_view(control_.data(), control_size_).substr(2);
  return is_control(given_) ? std::string_view(control_.data(), control_size_) : std::string_view(text_);
}

// A large message must not keep its room for as long as the connection lasts.
void MessageReader::forget_message() noexcept {
  constexpr std::size_t room_kept = 4096;
  if (text_.capacity() > room_kept) text_ = std::string();
  text_.clear();
}

Kind MessageReader::take_first(std::uint8_t byte) noexcept {
  last_ = (byte & 0x80) != 0;
  frame_ = static_cast<Opcode>(byte & 0x0f);
  if ((byte & 0x70) != 0) return fail(CloseCode::protocol_error, "a reserved bit is set");
  if (frame_ > Opcode::pong || (frame_ > Opcode::binary && frame_ < Opcode::close))
    return fail(CloseCode::protocol_error, "unknown opcode");
  if (is_control(frame_)) {
    if (!last_) return fail(CloseCode::protocol_error, "a control frame in parts");
    control_size_ = 0;
  } else if (frame_ == Opcode::more) {
    if (message_ == Opcode::more) return fail(CloseCode::protocol_error, "a part without a beginning");
  } else {
    if (message_ != Opcode::more) return fail(CloseCode::protocol_error, "a message inside another");
    message_ = frame_;
    utf8_ = Utf8Check();
  }
  state_ = State::second;
  return Kind::need_more;
}

Kind MessageReader::take_second(std::uint8_t byte) noexcept {
  if ((byte & 0x80) == 0) return fail(CloseCode::protocol_error, "a frame without a mask");
  const std::uint8_t size = byte & 0x7f;
  if (is_control(frame_) && size > control_max)
    return fail(CloseCode::protocol_error, "a long control frame");
  if (frame_ == Opcode::close && size == 1)
    return fail(CloseCode::protocol_error, "a close code of one byte");
  length_form_ = size == 127 ? 8 : size == 126 ? 2 : 0;
  left_ = length_form_ == 0 ? size : 0;
  head_left_ = length_form_;
  if (length_form_ == 0) return begin_payload();
  state_ = State::length;
  return Kind::need_more;
}

Kind MessageReader::take_length(std::uint8_t byte) noexcept {
  if (length_form_ == 8 && head_left_ == 8 && (byte & 0x80) != 0)
    return fail(CloseCode::protocol_error, "a length of 64 bits");
  left_ = left_ << 8 | byte;
  if (--head_left_ > 0) return Kind::need_more;
  if (left_ < (length_form_ == 2 ? 126u : 0x10000u))
    return fail(CloseCode::protocol_error, "a length that is not in its shortest form");
  return begin_payload();
}

// The length is known; the mask and the payload follow.
Kind MessageReader::begin_payload() noexcept {
  if (!is_control(frame_) && left_ > message_max_ - text_.size())
    return fail(CloseCode::too_big, "the message is too large");
  head_left_ = 4;
  state_ = State::mask;
  return Kind::need_more;
}

Kind MessageReader::take_payload(std::string_view& bytes) {
  const std::string_view masked =
      bytes.substr(0, static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), left_)));
  bytes.remove_prefix(masked.size());
  left_ -= masked.size();
  const auto unmask = [&](char* to) {
    for (const char c : masked)
      *to++ = static_cast<char>(static_cast<std::uint8_t>(c) ^ mask_[mask_at_++ & 3]);
  };
  if (is_control(frame_)) {
    unmask(control_.data() + control_size_);
    control_size_ += masked.size();
  } else {
    const std::size_t before = text_.size();
    text_.resize(before + masked.size());
    unmask(text_.data() + before);
    if (message_ == Opcode::text && !utf8_.add(std::string_view(text_).substr(before)))
      return fail(CloseCode::bad_data, "a text that is not UTF-8");
  }
  return left_ > 0 ? Kind::need_more : finish_frame();
}

Kind MessageReader::finish_frame() noexcept {
  state_ = State::first;
  if (frame_ == Opcode::close) return finish_close();
  if (is_control(frame_)) {
    given_ = frame_;
    return frame_ == Opcode::ping ? Kind::ping : Kind::pong;
  }
  if (!last_) return Kind::need_more;
  if (message_ == Opcode::text && !utf8_.may_end())
    return fail(CloseCode::bad_data, "a text that ends inside a character");
  given_ = message_;
  message_ = Opcode::more;
  return given_ == Opcode::text ? Kind::text : Kind::binary;
}

Kind MessageReader::finish_close() noexcept {
  const std::string_view content(control_.data(), control_size_);
  std::uint16_t code = static_cast<std::uint16_t>(CloseCode::none);
  if (!content.empty()) {
    code = static_cast<std::uint16_t>(static_cast<unsigned char>(content[0]) << 8 |
                                      static_cast<unsigned char>(content[1]));
    if (!may_be_sent(code)) return fail(CloseCode::protocol_error, "a close code that is never sent");
    if (!is_utf8(content.substr(2))) return fail(CloseCode::bad_data, "a reason that is not UTF-8");
  } else {
    control_size_ = 2;  // no reason
  }
  state_ = State::over;
  given_ = Opcode::close;
  code_ = static_cast<CloseCode>(code);
  return Kind::close;
}

Kind MessageReader::next(std::string_view& bytes) {
  if (given_ == Opcode::text || given_ == Opcode::binary) forget_message();
  given_ = given_ == Opcode::close ? Opcode::close : Opcode::more;
  while (!bytes.empty() || (state_ == State::payload && left_ == 0)) {
    Kind kind = Kind::need_more;
    if (state_ == State::payload) {
      kind = take_payload(bytes);
    } else if (state_ == State::over) {
      bytes = {};
    } else {
      const auto byte = static_cast<std::uint8_t>(bytes.front());
      bytes.remove_prefix(1);
      if (state_ == State::first) {
        kind = take_first(byte);
      } else if (state_ == State::second) {
        kind = take_second(byte);
      } else if (state_ == State::length) {
        kind = take_length(byte);
      } else {
        mask_[4 - head_left_] = byte;
        mask_at_ = 0;
        if (--head_left_ == 0) state_ = State::payload;
      }
    }
    if (kind != Kind::need_more) return kind;
  }
  return Kind::need_more;
}

}  // namespace cairn::http::websocket
