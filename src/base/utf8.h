// UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace cairn {

// Length (1..4) of the well-formed sequence that `text` starts with; 0 if it starts with none.
std::size_t utf8_sequence_size(std::string_view text) noexcept;
bool is_utf8(std::string_view text) noexcept;
// The longest prefix of at most `size` bytes that does not cut a sequence in two.
std::string_view utf8_prefix(std::string_view text, std::size_t size) noexcept;

// The same check for a text that comes in pieces.
class Utf8Check {
 public:
  // False at the first byte with which no well-formed text goes on. Not to be called after that.
  bool add(std::string_view piece) noexcept;
  // Whether the text may end here: no sequence is half read.
  bool may_end() const noexcept { return left_ == 0; }

 private:
  std::uint8_t left_ = 0;  // bytes of the present sequence
  // The bounds of its next byte.
  std::uint8_t low_ = 0x80, high_ = 0xBF;
};

}  // namespace cairn
