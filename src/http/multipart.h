// Multipart: the texts of a `multipart/byteranges` answer (RFC 9110 section 14.6): what stands before each
// range, what ends the body, and how long it is as a whole. Ranges are neither merged nor reordered.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "http/range.h"

namespace cairn::http {

class Multipart {
 public:
  // `random` makes the boundary unpredictable, so that stored bytes cannot contain it on purpose. `size` is
  // the object's.
  Multipart(std::uint64_t random, std::string_view media_type, std::uint64_t size,
            std::span<const ByteRange> ranges);

  const std::string& content_type() const noexcept { return content_type_; }
  // Before the bytes of range `index`.
  const std::string& head(std::size_t index) const noexcept { return heads_[index]; }
  const std::string& end() const noexcept { return end_; }
  std::uint64_t content_length() const noexcept { return length_; }

 private:
  std::string content_type_;
  std::vector<std::string> heads_;
  std::string end_;
  std::uint64_t length_ = 0;
};

}  // namespace cairn::http
