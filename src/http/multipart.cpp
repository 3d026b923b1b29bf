#include "http/multipart.h"

#include <fmt/format.h>

#include <array>

namespace cairn::http {

Multipart::Multipart(std::uint64_t random, std::string_view media_type, std::uint64_t size,
                     std::span<const ByteRange> ranges) {
  const std::string boundary = fmt::format("cairn-{:016x}", random);
  content_type_ = "multipart/byteranges; boundary=" + boundary;
  std::array<char, content_range_size_max> room;
  for (const ByteRange& range : ranges) {
    std::string head = fmt::format("{}--{}\r\n", heads_.empty() ? "" : "\r\n", boundary);
    if (!media_type.empty()) head += fmt::format("Content-Type: {}\r\n", media_type);
    head += fmt::format("Content-Range: {}\r\n\r\n", format_content_range(range, size, room));
    length_ += head.size() + range.size();
    heads_.push_back(std::move(head));
  }
  end_ = fmt::format("\r\n--{}--\r\n", boundary);
  length_ += end_.size();
}

}  // namespace cairn::http
