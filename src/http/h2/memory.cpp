#include "http/h2/memory.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>

namespace cairn::http::h2 {
namespace {

// In front of each block. What follows is aligned as malloc() aligns.
struct alignas(std::max_align_t) Front {
  std::size_t size;  // with the front
};

Front& front_of(void* block) noexcept { return *(static_cast<Front*>(block) - 1); }

// nghttp2 is C: what it asks for is given or not, and nothing is thrown.
void* allocate(std::size_t size, void* pool) noexcept {
  if (size > std::numeric_limits<std::size_t>::max() - sizeof(Front)) return nullptr;
  size += sizeof(Front);
  try {
    return new (static_cast<FramePool*>(pool)->take(size)) Front{size} + 1;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void release(void* block, void* pool) noexcept {
  if (block == nullptr) return;
  Front& front = front_of(block);
  static_cast<FramePool*>(pool)->give(&front, front.size);
}

void* allocate_zeros(std::size_t count, std::size_t size, void* pool) noexcept {
  if (size != 0 && count > std::numeric_limits<std::size_t>::max() / size) return nullptr;
  void* const block = allocate(count * size, pool);
  if (block != nullptr) std::memset(block, 0, count * size);
  return block;
}

void* reallocate(void* block, std::size_t size, void* pool) noexcept {
  void* const larger = allocate(size, pool);
  if (larger == nullptr || block == nullptr) return larger;
  std::memcpy(larger, block, std::min(size, front_of(block).size - sizeof(Front)));
  release(block, pool);
  return larger;
}

}  // namespace

nghttp2_mem session_memory(FramePool& pool) noexcept {
  return {&pool, allocate, release, allocate_zeros, reallocate};
}

}  // namespace cairn::http::h2
