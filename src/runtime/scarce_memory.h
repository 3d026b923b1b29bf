// For tests: memory that runs out. It replaces malloc(), so that one file of a test program includes it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define CAIRN_MEMORY_IS_THE_SANITIZERS
#endif
#endif

namespace cairn {

// While it lives, the program gets so many blocks, and then none.
class ScarceMemory {
 public:
#ifdef CAIRN_MEMORY_IS_THE_SANITIZERS
  static constexpr bool works = false;
#else
  static constexpr bool works = true;
#endif

  explicit ScarceMemory(std::size_t blocks) noexcept { left.store(blocks, std::memory_order_relaxed); }
  ~ScarceMemory() { left.store(plenty, std::memory_order_relaxed); }
  ScarceMemory(const ScarceMemory&) = delete;
  ScarceMemory& operator=(const ScarceMemory&) = delete;

  static bool take() noexcept {
    std::size_t blocks = left.load(std::memory_order_relaxed);
    while (blocks != plenty && blocks != 0)
      if (left.compare_exchange_weak(blocks, blocks - 1, std::memory_order_relaxed)) return true;
    return blocks == plenty;
  }

 private:
  static constexpr std::size_t plenty = ~std::size_t{0};
  static inline std::atomic<std::size_t> left{plenty};
};

}  // namespace cairn

#ifndef CAIRN_MEMORY_IS_THE_SANITIZERS
extern "C" {
void* __libc_malloc(std::size_t);
void* malloc(std::size_t size) noexcept {
  return cairn::ScarceMemory::take() ? __libc_malloc(size) : nullptr;
}
}
#endif
