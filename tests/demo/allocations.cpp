#include "demo/allocations.h"

#include <atomic>
#include <cstddef>

// glibc's own names for its allocator. Under a sanitizer the allocator is not ours to wrap.
#if !defined(__has_feature) || !(__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
}

namespace {
std::atomic<std::uint64_t> count{0};
void counted() noexcept { count.fetch_add(1, std::memory_order_relaxed); }
}  // namespace

extern "C" void* malloc(std::size_t size) noexcept {
  counted();
  return __libc_malloc(size);
}
extern "C" void* calloc(std::size_t items, std::size_t size) noexcept {
  counted();
  return __libc_calloc(items, size);
}
extern "C" void* realloc(void* block, std::size_t size) noexcept {
  counted();
  return __libc_realloc(block, size);
}

std::uint64_t cairn::demo::allocation_count() noexcept { return count.load(std::memory_order_relaxed); }
#else
std::uint64_t cairn::demo::allocation_count() noexcept { return 0; }
#endif
