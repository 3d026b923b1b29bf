// ByteBudget: how many bytes the whole process may have on their way in at once.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace cairn::store {

// Atomic: one counter; it publishes no other memory, so the order is relaxed.
class ByteBudget {
 public:
  explicit ByteBudget(std::uint64_t bytes) noexcept : left_(static_cast<std::int64_t>(bytes)) {}
  bool try_take(std::size_t bytes) noexcept {
    const auto count = static_cast<std::int64_t>(bytes);
    if (left_.fetch_sub(count, std::memory_order_relaxed) >= count) return true;
    give(bytes);
    return false;
  }
  void give(std::size_t bytes) noexcept {
    left_.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
  }
  std::int64_t left() const noexcept { return left_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> left_;
};

// Gives its bytes back when it goes, on any thread.
class BudgetHold {
 public:
  BudgetHold() = default;
  BudgetHold(ByteBudget& budget, std::size_t bytes) noexcept : budget_(&budget), bytes_(bytes) {}
  BudgetHold(BudgetHold&& other) noexcept
      : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  BudgetHold& operator=(BudgetHold&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~BudgetHold() {
    if (budget_ != nullptr) budget_->give(bytes_);
  }

 private:
  ByteBudget* budget_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace cairn::store
