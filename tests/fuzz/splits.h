// What the fuzz targets of src/http share: sizes of pieces from a seed, and memory that ends where the
// piece ends, so that the sanitizer sees every read behind it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>

namespace cairn::fuzz {

// Seed 0 gives everything at once, 1 single bytes, the rest mixed sizes.
class Splits {
 public:
  explicit Splits(std::uint32_t seed) : seed_(seed), state_(seed * 2654435761u | 1u) {}
  std::size_t next(std::size_t left) {
    if (seed_ == 0 || left == 0) return left;
    if (seed_ == 1) return 1;
    state_ ^= state_ << 13;
    state_ ^= state_ >> 17;
    state_ ^= state_ << 5;
    const std::size_t size = (state_ & 3) != 0 ? 1 + (state_ >> 8) % 24 : 1 + (state_ >> 8) % 2;
    return size < left ? size : left;
  }

 private:
  std::uint32_t seed_, state_;
};

class Exact {
 public:
  explicit Exact(std::string_view text) : size_(text.size()), bytes_(new char[text.size()]) {
    text.copy(bytes_.get(), size_);
  }
  std::string_view view() const { return {bytes_.get(), size_}; }

 private:
  std::size_t size_;
  std::unique_ptr<char[]> bytes_;
};

inline void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "differs: %s\n", what);
  std::abort();
}

}  // namespace cairn::fuzz
