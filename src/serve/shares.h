// Shares: how much of the process's rate and places one address may take while another address asks too.
//   [SH-1] While another address has asked within `contest`, an address has half of the rate and half of the
//         places; alone it has all of them. Places and rate that it took before are not taken back.
//   [SH-2] An address within its half may go an eighth beyond the whole, so that a flood that has filled
//         everything does not lock a newcomer out. Over time the rate stays the rate.
// Shares is asked for every request, from every shard, so it takes no lock and no memory but its own table.
// Addresses are hashed into slots. The few addresses that share a slot count as one; a seed changes at each
// start which addresses those are.
//
// Atomics: each is a number that publishes no other memory, so the order is relaxed. Shards that ask at the
// same moment may each let one request too many pass.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

#include "base/units.h"
#include "runtime/permits.h"
#include "runtime/rate.h"

namespace cairn::serve {

class Shares {
 public:
  static constexpr std::size_t slots = 1024;
  static constexpr Duration contest = Duration::seconds(1);
  static constexpr std::uint64_t beyond_part = 8;

  // The slot of one address at this moment. `none`: it has no share, and no bound of its own.
  struct Asker {
    std::uint32_t slot = none;
    bool contested = false;
    static constexpr std::uint32_t none = ~std::uint32_t{0};
    explicit operator bool() const noexcept { return slot != none; }
  };

  Shares() : slots_(std::make_unique<std::array<Slot, slots>>()) {}
  // Before the first ask().
  void set_seed(std::uint64_t seed) noexcept { seed_ = seed; }

  // This address asks now.
  using Address = std::array<std::uint64_t, 2>;
  Asker ask(const Address& address, Instant now) noexcept;
  // Takes a place of `all`, until leave(). False: there is none, or none for this address.
  bool try_enter(const Asker& asker, Permits& all) noexcept;
  void leave(std::uint32_t slot, Permits& all) noexcept;
  std::uint32_t slot_of(const Address& address) const noexcept;
  // Takes one request of the rate of `all`.
  RateVerdict try_take(const Asker& asker, RateLimiter& all, Instant now) noexcept;

 private:
  struct alignas(64) Slot {
    std::atomic<std::int64_t> paid_until{0};  // of its half, as RateLimiter counts
    std::atomic<std::uint64_t> inside{0};
  };
  Slot& of(std::uint32_t slot) noexcept { return (*slots_)[slot]; }

  std::unique_ptr<std::array<Slot, slots>> slots_;
  std::uint64_t seed_ = 0;
  // The address that asked last, and the last one before it that differs: slot + 1 and the millisecond; 0 is
  // none.
  alignas(64) std::atomic<std::uint64_t> last_{0};
  std::atomic<std::uint64_t> other_{0};
};

}  // namespace cairn::serve
