// Recycles coroutine frames by size: the second request of a connection allocates nothing.
//
// Off under sanitizers, where reuse would hide a use after free.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace cairn {

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
inline constexpr bool recycle_frames = false;
#else
inline constexpr bool recycle_frames = true;
#endif
#else
inline constexpr bool recycle_frames = true;
#endif

class FramePool {
 public:
  FramePool() = default;
  FramePool(const FramePool&) = delete;
  FramePool& operator=(const FramePool&) = delete;
  ~FramePool() {
    for (Bin& bin : bins_)
      while (bin.head != nullptr) {
        Free* block = bin.head;
        bin.head = block->next;
        std::free(block);
      }
  }

  void* take(std::size_t size) {
    const std::size_t bin = bin_of(size);
    if (recycle_frames && bin < bins_.size() && bins_[bin].head != nullptr) {
      Free* block = bins_[bin].head;
      bins_[bin].head = block->next;
      --bins_[bin].count;
      return block;
    }
    void* block = std::malloc(recycle_frames ? (bin + 1) * step : size);
    if (block == nullptr) throw std::bad_alloc();
    return block;
  }
  void give(void* block, std::size_t size) noexcept {
    const std::size_t bin = bin_of(size);
    if (!recycle_frames || bin >= bins_.size() || bins_[bin].count >= kept_per_bin) {
      std::free(block);
      return;
    }
    auto* free = static_cast<Free*>(block);
    free->next = bins_[bin].head;
    bins_[bin].head = free;
    ++bins_[bin].count;
  }

 private:
  static constexpr std::size_t step = 64;
  static constexpr std::size_t kept_per_bin = 512;
  static std::size_t bin_of(std::size_t size) noexcept { return (size + step - 1) / step - 1; }

  struct Free {
    Free* next;
  };
  struct Bin {
    Free* head = nullptr;
    std::size_t count = 0;
  };
  std::array<Bin, 64> bins_{};  // up to 4 KiB
};

}  // namespace cairn
