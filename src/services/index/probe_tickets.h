// ProbeTickets: the requests that may test a target while its breaker is half open. One object for each time
// that a breaker becomes half open; every shard takes from it.
//   [PK-1] At most `count` tickets are out or used up together. A ticket is used up by a probe that ended
//         with a verdict; otherwise it is given back.
//   [PK-2] After close() no ticket is taken.
//
// Atomic: one word, the tickets that are left and whether it is closed. It publishes no other memory, so the
// order is relaxed.
#pragma once

#include <atomic>
#include <cstdint>

#include "runtime/shard.h"

namespace cairn::index {

class ProbeTickets {
 public:
  explicit ProbeTickets(std::uint32_t count) noexcept : left_(count) {
    if (Shard* shard = current_shard()) identity_ = shard->new_identity();
  }
  ProbeTickets(const ProbeTickets&) = delete;
  ProbeTickets& operator=(const ProbeTickets&) = delete;

  bool try_take() noexcept {
    touch();
    std::uint64_t left = left_.load(std::memory_order_relaxed);
    do {
      if (left == 0 || (left & closed) != 0) return false;
    } while (!left_.compare_exchange_weak(left, left - 1, std::memory_order_relaxed));
    return true;
  }
  // Of one that was taken and not used up.
  void give_back() noexcept {
    touch();
    left_.fetch_add(1, std::memory_order_relaxed);
  }
  void close() noexcept {
    touch();
    left_.fetch_or(closed, std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint64_t closed = std::uint64_t{1} << 63;
  void touch() const noexcept {
    if (Shard* shard = current_shard()) shard->trace(identity_, Access::write);
  }

  std::uint64_t identity_ = 0;
  std::atomic<std::uint64_t> left_;
};

}  // namespace cairn::index
