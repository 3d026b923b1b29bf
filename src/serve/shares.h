// Shares: what one address may take of the process's rate and places while another asks, too.
//   [SH-1] While another address has asked within `contest`, an address has half of the rate and half of the
//          places; alone it has all of them. What it took before is not taken back.
//   [SH-2] Who is within its half reaches an eighth beyond the whole: what a flood has filled up before
//         is not in a newcomer's way. Over time the rate stays the rate.
// Asked for every request, from every shard: no lock, and no memory but this. Addresses are hashed into
// slots; the few that meet in one count as one address, and who meets whom is drawn anew at each start.
//
// Atomics: each is a number of its own that publishes no other memory, so the order is relaxed. Shards that
// look at the same moment may let one more each pass.
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

  // One address's at this moment. None: it has no share, and no bound of its own.
  struct Asker {
    std::uint32_t slot = none;
    bool contested = false;
    static constexpr std::uint32_t none = ~std::uint32_t{0};
    explicit operator bool() const noexcept { return slot != none; }
  };

  Shares() : slots_(std::make_unique<std::array<Slot, slots>>()) {}
  // Before anybody asks.
  void set_seed(std::uint64_t seed) noexcept { seed_ = seed; }

  // This address asks now.
  using Address = std::array<std::uint64_t, 2>;
  Asker ask(const Address& address, Instant now) noexcept;
  // A place of `all`, until leave(). False: there is none, or none for this address.
  bool try_enter(const Asker& asker, Permits& all) noexcept;
  void leave(std::uint32_t slot, Permits& all) noexcept;
  std::uint32_t slot_of(const Address& address) const noexcept;
  // One of the rate of `all`.
  RateVerdict try_take(const Asker& asker, RateLimiter& all, Instant now) noexcept;

 private:
  struct alignas(64) Slot {
    std::atomic<std::int64_t> paid_until{0};  // of its half, as RateLimiter counts
    std::atomic<std::uint64_t> inside{0};
  };
  Slot& of(std::uint32_t slot) noexcept { return (*slots_)[slot]; }

  std::unique_ptr<std::array<Slot, slots>> slots_;
  std::uint64_t seed_ = 0;
  // Who asked last, and who before it: slot + 1 and the millisecond; 0 is nobody.
  alignas(64) std::atomic<std::uint64_t> last_{0};
  std::atomic<std::uint64_t> other_{0};
};

}  // namespace cairn::serve
