// ByteBudget: how many bytes may be on their way into the whole process at once, and how many of them for one
// address.
//   [BG-1] At most `bytes` are taken, plus an eighth of them that is kept for addresses that have little.
//   [BG-2] While another address asks too, an address has at most half. It may always begin one body.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace cairn::store {

// The address that takes bytes: the slot that it is hashed into, and whether another address asks too.
// `none`: the bytes count for no address.
struct Taker {
  std::uint32_t slot = none;
  bool contested = false;
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  explicit operator bool() const noexcept { return slot != none; }
};

// Atomic: counters that publish no other memory, so the order is relaxed.
class ByteBudget {
 public:
  static constexpr std::size_t slots = 1024;
  static constexpr std::int64_t beyond_part = 8;

  explicit ByteBudget(std::uint64_t bytes)
      : all_(static_cast<std::int64_t>(bytes)),
        left_(all_),
        taken_(std::make_unique<std::array<std::atomic<std::int64_t>, slots>>()) {}

  // False: too few bytes are left, or the address has its share.
  bool try_take(std::size_t bytes, Taker taker = {}) noexcept {
    const auto count = static_cast<std::int64_t>(bytes);
    std::int64_t beyond = 0;
    if (taker) {
      const std::int64_t before = of(taker.slot).fetch_add(count, std::memory_order_relaxed);
      const bool within = before == 0 || before + count <= all_ / 2;
      if (!within && taker.contested) {
        of(taker.slot).fetch_sub(count, std::memory_order_relaxed);
        return false;
      }
      if (within) beyond = all_ / beyond_part;
    }
    if (left_.fetch_sub(count, std::memory_order_relaxed) + beyond >= count) return true;
    give(bytes, taker.slot);
    return false;
  }
  void give(std::size_t bytes, std::uint32_t slot = Taker::none) noexcept {
    const auto count = static_cast<std::int64_t>(bytes);
    left_.fetch_add(count, std::memory_order_relaxed);
    if (slot != Taker::none) of(slot).fetch_sub(count, std::memory_order_relaxed);
  }
  // Below 0 when some of the eighth beyond `bytes` is taken.
  std::int64_t left() const noexcept { return left_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t>& of(std::uint32_t slot) noexcept { return (*taken_)[slot]; }

  std::int64_t all_;
  std::atomic<std::int64_t> left_;
  std::unique_ptr<std::array<std::atomic<std::int64_t>, slots>> taken_;  // by slot
};

// Gives its bytes back when it goes, on any thread.
class BudgetHold {
 public:
  BudgetHold() = default;
  BudgetHold(ByteBudget& budget, std::size_t bytes, std::uint32_t slot = Taker::none) noexcept
      : budget_(&budget), bytes_(bytes), slot_(slot) {}
  BudgetHold(BudgetHold&& other) noexcept
      : budget_(std::exchange(other.budget_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)),
        slot_(other.slot_) {}
  BudgetHold& operator=(BudgetHold&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(bytes_, other.bytes_);
    std::swap(slot_, other.slot_);
    return *this;
  }
  ~BudgetHold() {
    if (budget_ != nullptr) budget_->give(bytes_, slot_);
  }

 private:
  ByteBudget* budget_ = nullptr;
  std::size_t bytes_ = 0;
  std::uint32_t slot_ = Taker::none;
};

}  // namespace cairn::store
