#include "base/ulid.h"

namespace cairn {
namespace {
constexpr std::string_view alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
}

Ulid make_ulid(WallTime time, std::uint64_t random_high, std::uint64_t random_low) noexcept {
  const auto ms = static_cast<std::uint64_t>(time.ms) & 0xffff'ffff'ffffu;
  return {(ms << 16) | (random_high & 0xffffu), random_low};
}

void format_ulid_to(const Ulid& ulid, char* out) noexcept {
  auto value = (static_cast<unsigned __int128>(ulid.high) << 64) | ulid.low;
  for (std::size_t i = ulid_text_size; i-- > 0; value >>= 5)
    out[i] = alphabet[static_cast<std::size_t>(value & 31)];
}

std::string format_ulid(const Ulid& ulid) {
  std::string text(ulid_text_size, '\0');
  format_ulid_to(ulid, text.data());
  return text;
}

std::optional<Ulid> parse_ulid(std::string_view text) noexcept {
  if (text.size() != ulid_text_size || text[0] > '7') return std::nullopt;
  unsigned __int128 value = 0;
  for (char c : text) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    std::size_t digit = alphabet.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    value = (value << 5) | digit;
  }
  return Ulid{static_cast<std::uint64_t>(value >> 64), static_cast<std::uint64_t>(value)};
}

}  // namespace cairn
