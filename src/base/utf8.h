// UTF-8 as RFC 3629 has it: no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <string_view>

namespace cairn {

// Length (1..4) of the well-formed sequence that `text` starts with; 0 if it starts with none.
std::size_t utf8_sequence_size(std::string_view text) noexcept;
bool is_utf8(std::string_view text) noexcept;
// The longest prefix of at most `size` bytes that does not cut a sequence in two.
std::string_view utf8_prefix(std::string_view text, std::size_t size) noexcept;

}  // namespace cairn
