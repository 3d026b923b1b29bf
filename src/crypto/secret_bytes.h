// SecretBytes: key material of a fixed size that does not outlive its owner in memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>

#include "base/bytes.h"

namespace cairn::crypto {

// Overwrites in a way that the compiler may not leave out.
void wipe(MutableByteView bytes) noexcept;
void wipe(std::string& text) noexcept;

// Every copy wipes itself; a move is a copy. There is no comparison: secrets are compared by
// equal_constant_time, and no formatter: secrets are not printed.
template <std::size_t N>
class SecretBytes {
 public:
  SecretBytes() = default;
  explicit SecretBytes(std::span<const std::byte, N> bytes) noexcept {
    std::ranges::copy(bytes, bytes_.begin());
  }
  SecretBytes(const SecretBytes&) = default;
  SecretBytes& operator=(const SecretBytes&) = default;
  ~SecretBytes() { wipe(bytes_); }

  // The only ways to the bytes; the names are meant to be found by grep.
  std::span<const std::byte, N> reveal() const noexcept { return bytes_; }
  std::span<std::byte, N> reveal_to_fill() noexcept { return bytes_; }

 private:
  std::array<std::byte, N> bytes_{};
};

}  // namespace cairn::crypto
