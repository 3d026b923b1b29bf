#include "crypto/group_hasher.h"

#include <algorithm>

#include "base/check.h"

namespace cairn::crypto {

void GroupHasher::advance(std::size_t groups) noexcept {
  index_ += groups;
  chunks_ = 0;
  buffered_ = 0;
}

void GroupHasher::close(const std::byte* bytes, std::size_t chunks) noexcept {
  CHECK(chunks_ + chunks <= chunks_per_group);
  hash_chunks(bytes, chunks, index_ * chunks_per_group + chunks_, hashes_.data() + chunks_);
  chunks_ += chunks;
}

std::size_t GroupHasher::take(ByteView bytes) noexcept {
  const std::size_t taken = std::min(bytes.size(), group_size - size());
  bytes = bytes.first(taken);
  if (buffered_ != 0) {
    const std::size_t filling = std::min(bytes.size(), run_size - buffered_);
    std::copy_n(bytes.begin(), filling, buffer_.begin() + static_cast<std::ptrdiff_t>(buffered_));
    buffered_ += filling;
    bytes = bytes.subspan(filling);
    if (buffered_ < run_size) return taken;
    close(buffer_.data(), run_size / chunk_size);
    buffered_ = 0;
  }
  const std::size_t runs = bytes.size() / run_size;
  close(bytes.data(), runs * run_size / chunk_size);
  bytes = bytes.subspan(runs * run_size);
  std::copy(bytes.begin(), bytes.end(), buffer_.begin());
  buffered_ = bytes.size();
  return taken;
}

Hash GroupHasher::hash(bool root) noexcept {
  return hash_group_of(hashes_, chunks_, ByteView(buffer_).first(buffered_), index_, root);
}

}  // namespace cairn::crypto
