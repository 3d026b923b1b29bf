// Little-endian fields of the store's formats: written to a string, read back strictly.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace cairn::store {

class FieldWriter {
 public:
  FieldWriter() { out_.reserve(usual_size); }
  template <std::unsigned_integral T>
  FieldWriter& number(T value) {
    std::array<char, sizeof(T)> bytes{};
    for (std::size_t i = 0; i < sizeof(T); ++i) bytes[i] = static_cast<char>(value >> (8 * i));
    out_.append(bytes.data(), bytes.size());
    return *this;
  }
  FieldWriter& bytes(ByteView bytes) {
    out_.append(as_text(bytes));
    return *this;
  }
  // Up to 255 bytes, behind their length.
  FieldWriter& text(std::string_view text) {
    number(static_cast<std::uint8_t>(text.size()));
    out_.append(text);
    return *this;
  }
  std::string take() { return std::move(out_); }

 private:
  // Most records and entries are smaller: one allocation.
  static constexpr std::size_t usual_size = 112;
  std::string out_;
};

// Every read says whether there were enough bytes. A record is good only if all reads succeeded and no byte
// is left.
class FieldReader {
 public:
  explicit FieldReader(ByteView bytes) noexcept : rest_(bytes) {}

  template <std::unsigned_integral T>
  FieldReader& number(T& out) noexcept {
    out = 0;
    if (!has(sizeof(T))) return *this;
    for (std::size_t i = 0; i < sizeof(T); ++i)
      out = static_cast<T>(out | static_cast<T>(static_cast<T>(rest_[i]) << (8 * i)));
    rest_ = rest_.subspan(sizeof(T));
    return *this;
  }
  FieldReader& bytes(MutableByteView out) noexcept {
    if (!has(out.size())) return *this;
    if (!out.empty()) std::memcpy(out.data(), rest_.data(), out.size());
    rest_ = rest_.subspan(out.size());
    return *this;
  }
  FieldReader& text(std::string& out) {
    std::uint8_t size = 0;
    number(size);
    if (!has(size)) return *this;
    out.assign(as_text(rest_.first(size)));
    rest_ = rest_.subspan(size);
    return *this;
  }
  bool complete() const noexcept { return good_ && rest_.empty(); }
  bool good() const noexcept { return good_; }
  std::size_t left() const noexcept { return rest_.size(); }

 private:
  bool has(std::size_t count) noexcept {
    if (count > rest_.size()) good_ = false;
    return good_;
  }
  ByteView rest_;
  bool good_ = true;
};

}  // namespace cairn::store
