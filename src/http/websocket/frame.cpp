#include "http/websocket/frame.h"

#include "base/utf8.h"

namespace cairn::http::websocket {
namespace {

void append_number(std::string& out, std::uint64_t number, unsigned bytes) {
  while (bytes-- > 0) out += static_cast<char>(number >> (8 * bytes) & 0xff);
}

}  // namespace

void append_frame(std::string& out, Opcode opcode, std::string_view payload) {
  out += static_cast<char>(0x80 | static_cast<unsigned>(opcode));
  if (payload.size() < 126) {
    append_number(out, payload.size(), 1);
  } else if (payload.size() <= 0xffff) {
    out += static_cast<char>(126);
    append_number(out, payload.size(), 2);
  } else {
    out += static_cast<char>(127);
    append_number(out, payload.size(), 8);
  }
  out += payload;
}

void append_close(std::string& out, CloseCode code, std::string_view reason) {
  std::string payload;
  if (code != CloseCode::none) {
    append_number(payload, static_cast<std::uint16_t>(code), 2);
    payload += utf8_prefix(reason, control_max - 2);
  }
  append_frame(out, Opcode::close, payload);
}

}  // namespace cairn::http::websocket
