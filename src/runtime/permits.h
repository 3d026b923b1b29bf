// Permits: a process-wide count of things that may exist at once (connections, requests in flight).
//   [N-1] taken() rises only while it is below the present limit, plus `beyond` for takes that pass it.
//   [N-2] Each take is given back exactly once; taken() never falls below zero (CHECKed).
// The limit may change at any time. When it is lowered below taken(), no permit is revoked: no take succeeds
// until enough permits were given back.
//
// Atomic: one counter, compare-and-swap; it publishes no other memory, so the order is relaxed.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "base/result.h"
#include "runtime/shard.h"

namespace cairn {

class Permits;

// Gives its permit back when it goes out of scope, on any thread.
class PermitHold {
 public:
  PermitHold() = default;
  PermitHold(PermitHold&& other) noexcept : permits_(std::exchange(other.permits_, nullptr)) {}
  PermitHold& operator=(PermitHold&& other) noexcept {
    std::swap(permits_, other.permits_);
    return *this;
  }
  ~PermitHold();
  explicit operator bool() const noexcept { return permits_ != nullptr; }

 private:
  friend class Permits;
  explicit PermitHold(Permits& permits) noexcept : permits_(&permits) {}
  Permits* permits_ = nullptr;
};

class Permits {
 public:
  explicit Permits(std::uint64_t limit) noexcept : limit_(limit) {
    if (Shard* shard = current_shard()) identity_ = shard->new_identity();
  }
  ~Permits() { CHECK(taken() == 0); }
  Permits(const Permits&) = delete;
  Permits& operator=(const Permits&) = delete;

  bool try_take(std::uint64_t beyond = 0) noexcept {
    touch();
    std::uint64_t taken = taken_.load(std::memory_order_relaxed);
    do {
      if (taken >= limit_.load(std::memory_order_relaxed) + beyond) return false;
    } while (!taken_.compare_exchange_weak(taken, taken + 1, std::memory_order_relaxed));
    return true;
  }
  void give() noexcept {
    touch();
    CHECK(taken_.fetch_sub(1, std::memory_order_relaxed) != 0);
  }
  // `busy` when none is left.
  Result<PermitHold> try_hold() noexcept {
    if (!try_take()) return fail(ErrorCode::busy, "permits");
    return PermitHold(*this);
  }

  void set_limit(std::uint64_t limit) noexcept {
    touch();
    limit_.store(limit, std::memory_order_relaxed);
  }
  std::uint64_t limit() const noexcept { return limit_.load(std::memory_order_relaxed); }
  std::uint64_t taken() const noexcept { return taken_.load(std::memory_order_relaxed); }

 private:
  void touch() const noexcept {
    if (Shard* shard = current_shard()) shard->trace(identity_, Access::write);
  }

  std::uint64_t identity_ = 0;
  std::atomic<std::uint64_t> limit_;
  std::atomic<std::uint64_t> taken_{0};
};

inline PermitHold::~PermitHold() {
  if (permits_ != nullptr) permits_->give();
}

}  // namespace cairn
