// Frames of RFC 6455: what they are, and how a server writes them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace cairn::http::websocket {

enum class Opcode : std::uint8_t { more = 0, text = 1, binary = 2, close = 8, ping = 9, pong = 10 };
constexpr bool is_control(Opcode opcode) noexcept { return opcode >= Opcode::close; }
inline constexpr std::size_t control_max = 125;  // bytes that a control frame carries

enum class CloseCode : std::uint16_t {
  normal = 1000,
  going_away = 1001,
  protocol_error = 1002,
  none = 1005,  // never on the wire: a close frame without a code
  bad_data = 1007,
  policy = 1008,
  too_big = 1009,
  internal = 1011
};
// Whether a close frame may carry this code: those that are registered, and those for libraries and
// applications. 1004 to 1006 and 1015 exist, but are never sent.
constexpr bool may_be_sent(std::uint16_t code) noexcept {
  return (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) || (code >= 3000 && code <= 4999);
}

// Append one whole message as one frame, without a mask: a server's frames have none.
void append_frame(std::string& out, Opcode opcode, std::string_view payload);
inline void append_text(std::string& out, std::string_view message) {
  append_frame(out, Opcode::text, message);
}
// `reason` is UTF-8; what does not fit is left out. With CloseCode::none the frame is empty.
void append_close(std::string& out, CloseCode code, std::string_view reason = {});

}  // namespace cairn::http::websocket
