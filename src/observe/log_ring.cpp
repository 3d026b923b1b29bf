#include "observe/log_ring.h"

#include <algorithm>
#include <bit>

namespace cairn::observe {

LogRing::LogRing(std::uint32_t capacity)
    : mask_(std::bit_ceil(std::size_t{std::max(capacity, 1u)}) - 1),
      records_(std::make_unique_for_overwrite<LogRecord[]>(mask_ + 1)) {}

LogRecord* LogRing::try_claim() noexcept {
  const std::uint64_t written = written_.load(std::memory_order_relaxed);
  if (written - read_.load(std::memory_order_acquire) > mask_) {
    dropped_.store(dropped_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return nullptr;
  }
  return &records_[written & mask_];
}

void LogRing::publish() noexcept {
  written_.store(written_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

const LogRecord* LogRing::front() const noexcept {
  const std::uint64_t read = read_.load(std::memory_order_relaxed);
  if (read == written_.load(std::memory_order_acquire)) return nullptr;
  return &records_[read & mask_];
}

void LogRing::release() noexcept {
  read_.store(read_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

}  // namespace cairn::observe
