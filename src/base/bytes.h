// Views of bytes, and hex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace cairn {

using ByteView = std::span<const std::byte>;
using MutableByteView = std::span<std::byte>;

inline ByteView as_bytes(std::string_view text) noexcept {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}
inline std::string_view as_text(ByteView bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string format_hex(ByteView bytes);
// Writes bytes.size()*2 lowercase digits to `out`.
void format_hex_to(ByteView bytes, char* out) noexcept;
// Exactly out.size()*2 digits of either case, else false (and `out` is unspecified).
bool parse_hex_to(std::string_view text, MutableByteView out) noexcept;

}  // namespace cairn
