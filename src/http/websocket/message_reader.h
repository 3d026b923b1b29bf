// MessageReader: strict, incremental reader of what a WebSocket's client sends. Pure: bytes in, messages out.
//
// The verdict depends on the bytes alone, not on how they were split. It is reached at the byte that decides
// it, except that a control frame's content is judged as a whole.
//   * protocol_error: no mask, a reserved bit, an unknown opcode, a length that is not in its shortest form,
//     a control frame that is long or in parts, a message inside another, a part without a beginning, a close
//     with one byte or with a code that may not be sent
//   * bad_data: a text, or the reason of a close, that is not UTF-8
//   * too_big: a message of more than message_max bytes, all its parts together
//   [MR-1] It keeps at most message_max bytes of a message, whatever a frame announces.
//   [MR-2] A message is given out whole, once, and only if every byte of it was allowed.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/utf8.h"
#include "http/websocket/frame.h"

namespace cairn::http::websocket {

class MessageReader {
 public:
  static constexpr std::size_t default_message_max = std::size_t{64} << 10;
  enum class Kind : std::uint8_t { need_more, text, binary, ping, pong, close, failed };

  explicit MessageReader(std::size_t message_max = default_message_max) noexcept
      : message_max_(message_max) {}

  // Takes bytes off the front of `bytes`, up to the end of the next message; need_more has taken all of them.
  // Control messages come out between the parts of others. After `close` or `failed` the rest is taken and
  // ignored.
  Kind next(std::string_view& bytes);
  // Of text, binary, ping and pong, until next(). Of a close, its reason.
  std::string_view payload() const noexcept;
  Opcode given() const noexcept { return given_; }  // of the message that was given out last
  // Of `close`: the peer's code, `none` without one. Of `failed`: the code to close with.
  CloseCode code() const noexcept { return code_; }
  const char* fault() const noexcept { return fault_; }  // of `failed`

 private:
  enum class State : std::uint8_t { first, second, length, mask, payload, over };
  Kind fail(CloseCode code, const char* fault) noexcept;
  // Each takes one byte of a frame's head.
  Kind take_first(std::uint8_t byte) noexcept;
  Kind take_second(std::uint8_t byte) noexcept;
  Kind take_length(std::uint8_t byte) noexcept;
  Kind begin_payload() noexcept;
  Kind take_payload(std::string_view& bytes);
  Kind finish_frame() noexcept;
  Kind finish_close() noexcept;
  void forget_message() noexcept;

  std::size_t message_max_;
  State state_ = State::first;
  bool last_ = false;              // the present frame is the last of its message
  Opcode frame_ = Opcode::text;    // of the present frame
  Opcode message_ = Opcode::more;  // of the message that has begun; `more`: none has
  Opcode given_ = Opcode::more;    // of the message that was given out last
  std::uint8_t length_form_ = 0;   // how many bytes the present frame's length has: 0, 2 or 8
  std::uint8_t head_left_ = 0;     // bytes of the length or of the mask
  std::uint64_t left_ = 0;         // of the payload
  std::array<std::uint8_t, 4> mask_{};
  unsigned mask_at_ = 0;
  std::string text_;  // of the message that has begun
  Utf8Check utf8_;
  std::array<char, control_max> control_{};
  std::size_t control_size_ = 0;
  CloseCode code_ = CloseCode::none;
  const char* fault_ = "";
};

}  // namespace cairn::http::websocket
