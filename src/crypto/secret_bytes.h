// SecretBytes, SecretText: key material that does not outlive its owner in memory.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <utility>

#include "base/bytes.h"

namespace cairn::crypto {

// Overwrites in a way that the compiler may not leave out.
void wipe(MutableByteView bytes) noexcept;
void wipe(std::string& text) noexcept;  // with what it held behind its present end

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

// The same for a text of any length, as a key in PEM. A text that is moved away is wiped as well, because a
// short one lies within its string.
class SecretText {
 public:
  SecretText() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): a text becomes a secret wherever one is wanted
  SecretText(std::string text) noexcept : text_(std::move(text)) { wipe(text); }
  SecretText(const SecretText&) = default;
  SecretText(SecretText&& other) noexcept : text_(std::move(other.text_)) { wipe(other.text_); }
  SecretText& operator=(const SecretText& other) {
    if (this == &other) return *this;
    wipe(text_);
    text_ = other.text_;
    return *this;
  }
  SecretText& operator=(SecretText&& other) noexcept {
    if (this == &other) return *this;
    wipe(text_);
    text_ = std::move(other.text_);
    wipe(other.text_);
    return *this;
  }
  ~SecretText() { wipe(text_); }

  const std::string& reveal() const noexcept { return text_; }

 private:
  std::string text_;
};

}  // namespace cairn::crypto
