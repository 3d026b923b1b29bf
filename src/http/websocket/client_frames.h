// For tests: frames as a client writes them, and a plain reading of a server's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "http/websocket/frame.h"

namespace cairn::http::websocket {

// The first two bytes, the length, the mask and the masked payload.
inline std::string client_frame(Opcode opcode, std::string_view payload, bool last = true,
                                std::string_view mask = "\x11\xf2\x03\x84") {
  std::string frame;
  frame += static_cast<char>((last ? 0x80 : 0) | static_cast<unsigned>(opcode));
  const std::size_t size = payload.size();
  const unsigned bytes = size < 126 ? 0 : size <= 0xffff ? 2 : 8;
  frame += static_cast<char>(0x80 | (bytes == 0 ? size : bytes == 2 ? 126 : 127));
  for (unsigned i = bytes; i-- > 0;) frame += static_cast<char>(size >> (8 * i) & 0xff);
  frame += mask;
  for (std::size_t i = 0; i < size; ++i) frame += static_cast<char>(payload[i] ^ mask[i % 4]);
  return frame;
}
inline std::string client_close(std::uint16_t code, std::string_view reason = "") {
  std::string payload{static_cast<char>(code >> 8), static_cast<char>(code & 0xff)};
  return client_frame(Opcode::close, payload.append(reason));
}

struct ServerFrame {
  Opcode opcode;
  std::string payload;
  // Of a close.
  std::uint16_t code() const {
    if (payload.size() < 2) return 1005;
    return static_cast<std::uint16_t>(static_cast<unsigned char>(payload[0]) << 8 |
                                      static_cast<unsigned char>(payload[1]));
  }
  friend bool operator==(const ServerFrame&, const ServerFrame&) = default;
};

// The whole frames at the front of `bytes`; nothing if one is not as a server sends it.
inline std::optional<std::vector<ServerFrame>> read_server_frames(std::string_view bytes) {
  std::vector<ServerFrame> frames;
  while (bytes.size() >= 2) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
    if ((byte(0) & 0xf0) != 0x80 || (byte(1) & 0x80) != 0) return std::nullopt;
    std::size_t size = byte(1), head = 2;
    if (size >= 126) {
      head = size == 126 ? 4 : 10;
      if (bytes.size() < head) break;
      size = 0;
      for (std::size_t i = 2; i < head; ++i) size = size << 8 | byte(i);
    }
    if (bytes.size() - head < size) break;
    frames.push_back({static_cast<Opcode>(byte(0) & 0x0f), std::string(bytes.substr(head, size))});
    bytes.remove_prefix(head + size);
  }
  return frames;
}

}  // namespace cairn::http::websocket
