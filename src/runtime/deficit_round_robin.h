// DeficitRoundRobin: which tenant's waiting request is the next to get a slot. A pure order: it knows no
// time, no shard and no request, and one task at a time uses it.
//   [DR-1] A tenant at the head of the ring gets `quantum` units for each unit of its weight, and is served
//         while its deficit covers the next cost. Then it goes to the end of the ring and keeps the rest. So
//         over any busy span the units of waiting tenants are in proportion to their weights, within a round.
//   [DR-2] A tenant without a waiting request keeps no credit. It keeps its debt until the order runs empty.
//   [DR-3] A tenant holds at most 3/4 of the slots. While another tenant waits it gets a slot only below its
//         weight's share of them among those that wait: rounded up, so that no slot stays empty by rounding,
//         and at least one. A tenant at that bound steps aside and keeps its place and its deficit. It is
//         given the rounds that it missed meanwhile, at most `credit_rounds`: otherwise a bound would cost a
//         tenant the more, the nearer it is to its share.
//   [DR-4] A decision costs the same however many tenants are known or wait. The exceptions are paid for
//         beforehand: a round of a tenant in debt by the debit that made the debt, a look at a tenant that
//         stepped aside by the slot it holds, or by the request that is added.
//   [DR-5] What is charged afterwards may make the deficit negative, by at most `debt_rounds` quanta: a
//         tenant with a backlog is served again after so many rounds, whatever it has used.
//
// Atomics of a tenant: its slots are taken and given back on every shard, and units are charged there. Each
// is a number that publishes no other memory; `held` is sequentially consistent, because the one who gives a
// slot back and the one who looks for a free one must not miss each other (see FairScheduler).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

#include "base/check.h"
#include "runtime/list.h"

namespace cairn {

class DrrTenant;

// One waiting request.
struct DrrEntry : Link {
  std::uint32_t cost = 1;  // units
  DrrTenant* tenant = nullptr;
};

// What an order knows of one tenant. It may be destroyed while it holds no slot and has no uses.
class DrrTenant : public Link {
 public:
  explicit DrrTenant(std::uint32_t of_weight = 1) noexcept : weight_(of_weight) { CHECK(of_weight > 0); }
  ~DrrTenant() { CHECK(held() == 0 && uses.load(std::memory_order_acquire) == 0); }

  // --- from any thread
  std::uint32_t held() const noexcept { return held_.load(std::memory_order_seq_cst); }
  bool try_hold(std::uint64_t most) noexcept {
    std::uint32_t held = held_.load(std::memory_order_seq_cst);
    do {
      if (held >= most) return false;
    } while (!held_.compare_exchange_weak(held, held + 1, std::memory_order_seq_cst));
    return true;
  }
  void give_back() noexcept { CHECK(held_.fetch_sub(1, std::memory_order_seq_cst) != 0); }
  // Units that were used beyond what the order charged.
  void charge(std::uint64_t units) noexcept {
    owed_.fetch_add(units, std::memory_order_relaxed);
    count_served(units);
  }
  void count_served(std::uint64_t units) noexcept { served_.fetch_add(units, std::memory_order_relaxed); }
  std::uint64_t served() const noexcept { return served_.load(std::memory_order_relaxed); }
  std::int64_t deficit() const noexcept { return shown_deficit_.load(std::memory_order_relaxed); }
  std::uint64_t depth() const noexcept { return shown_depth_.load(std::memory_order_relaxed); }
  std::uint32_t weight() const noexcept { return weight_.load(std::memory_order_relaxed); }

  // --- of FairScheduler
  std::atomic<std::uint32_t> uses{0};    // what refers to it besides the slots it holds
  std::atomic<std::uint64_t> places{0};  // it has of the queue's
  std::atomic<bool> noted{false};        // it is on the stack of those that gave a slot back
  DrrTenant* next_noted = nullptr;
  bool is_bounded = true;  // DR-3 holds for it

 private:
  friend class DeficitRoundRobin;
  enum class Where : std::uint8_t { idle, ring, aside };

  std::atomic<std::uint32_t> held_{0};
  std::atomic<std::uint64_t> owed_{0}, served_{0}, shown_depth_{0};
  std::atomic<std::int64_t> shown_deficit_{0};
  std::atomic<std::uint32_t> weight_;
  // --- of the order
  List<DrrEntry> waiting_;
  std::uint64_t depth_ = 0;
  std::int64_t deficit_ = 0;
  std::uint64_t period_ = 0;
  std::uint64_t round_ = 0;           // of its last visit
  std::uint32_t counted_weight_ = 0;  // its part of the order's sum while it waits
  Where where_ = Where::idle;
  bool visited_ = false;  // it has had its quantum, and is served until that is used up
};

class DeficitRoundRobin {
 public:
  static constexpr std::int64_t quantum = 64;
  static constexpr std::uint32_t cost_max = 64;
  static constexpr std::int64_t debt_rounds = 16;
  static constexpr std::int64_t credit_rounds = 4;

  DeficitRoundRobin() = default;
  DeficitRoundRobin(const DeficitRoundRobin&) = delete;
  DeficitRoundRobin& operator=(const DeficitRoundRobin&) = delete;

  // What one tenant may hold of `slots` while no other waits.
  static constexpr std::uint64_t most_of(std::uint64_t slots) noexcept {
    return std::max<std::uint64_t>(1, slots * 3 / 4);
  }
  std::uint64_t bound_of(const DrrTenant& tenant, std::uint64_t slots) const noexcept {
    if (!tenant.is_bounded) return slots;
    const std::uint64_t most = most_of(slots);
    if (tenants_ <= 1) return most;
    const std::uint64_t share = (slots * tenant.counted_weight_ + weights_ - 1) / weights_;
    return std::clamp<std::uint64_t>(share, 1, most);
  }

  std::uint64_t depth() const noexcept { return depth_; }
  std::uint64_t tenants() const noexcept { return tenants_; }  // that wait
  std::uint64_t weights() const noexcept { return weights_; }  // of those
  // How many tenants decisions have looked at, for tests of their cost.
  std::uint64_t looks() const noexcept { return looks_; }

  // Precondition: the entry's tenant and cost are set, and it does not wait.
  void add(DrrEntry& entry) noexcept {
    CHECK(entry.cost >= 1 && entry.cost <= cost_max);
    DrrTenant& tenant = *entry.tenant;
    if (tenant.where_ == Where::idle) wake(tenant);
    // What gave its slots back while nobody seemed to wait has not said so (FairScheduler::give_back).
    if (tenant.where_ == Where::aside && tenant.held() < bound_of(tenant, slots_)) come_back(tenant);
    tenant.waiting_.push_back(entry);
    set_depth(tenant, tenant.depth_ + 1);
    ++depth_;
  }

  void remove(DrrEntry& entry) noexcept {
    entry.unlink();
    DrrTenant& tenant = *entry.tenant;
    set_depth(tenant, tenant.depth_ - 1);
    --depth_;
    if (tenant.depth_ == 0) rest(tenant);
  }

  // The next request, whose tenant holds a slot from then on. Null: no tenant that waits may hold another.
  // Precondition: one of the `slots` is free.
  DrrEntry* take_next(std::uint64_t slots) noexcept {
    if (std::exchange(slots_, slots) != slots) bounds_grew_ = true;
    for (;;) {
      if (ring_.empty() && !look_again()) return nullptr;
      DrrTenant& tenant = ring_.front();
      ++looks_;
      settle(tenant);
      if (!std::exchange(tenant.visited_, true)) begin_visit(tenant);
      if (tenant.deficit_ < tenant.waiting_.front().cost) {
        end_visit(tenant);
        continue;
      }
      if (tenant.try_hold(bound_of(tenant, slots))) return &serve(tenant);
      step_aside(tenant);
    }
  }

  // The tenant gave a slot back: if it stepped aside, it is next.
  void returned(DrrTenant& tenant) noexcept {
    if (tenant.where_ == DrrTenant::Where::aside) come_back(tenant);
  }

  // Takes effect with its next visit.
  void set_weight(DrrTenant& tenant, std::uint32_t weight) noexcept {
    CHECK(weight > 0);
    tenant.weight_.store(weight, std::memory_order_relaxed);
    if (tenant.where_ == DrrTenant::Where::idle) return;
    weights_ += weight;
    weights_ -= std::exchange(tenant.counted_weight_, weight);
    bounds_grew_ = true;
  }

 private:
  using Where = DrrTenant::Where;

  static void set_depth(DrrTenant& tenant, std::uint64_t depth) noexcept {
    tenant.depth_ = depth;
    tenant.shown_depth_.store(depth, std::memory_order_relaxed);
  }
  static void show(DrrTenant& tenant) noexcept {
    tenant.shown_deficit_.store(tenant.deficit_, std::memory_order_relaxed);
  }

  // Takes over what was charged elsewhere.
  static void settle(DrrTenant& tenant) noexcept {
    const std::uint64_t owed = tenant.owed_.exchange(0, std::memory_order_relaxed);
    const std::int64_t least = -debt_rounds * quantum * tenant.counted_weight_;
    const auto debit = static_cast<std::int64_t>(std::min<std::uint64_t>(owed, std::uint64_t{1} << 32));
    if (debit > 0) tenant.deficit_ = std::max(tenant.deficit_ - debit, std::min(tenant.deficit_, least));
    show(tenant);
  }

  void wake(DrrTenant& tenant) noexcept {
    // Nobody waited: what was used before was used at nobody's cost.
    if (tenants_ == 0) ++period_;
    if (std::exchange(tenant.period_, period_) != period_) {
      tenant.deficit_ = 0;
      tenant.owed_.store(0, std::memory_order_relaxed);
    }
    tenant.counted_weight_ = tenant.weight();
    weights_ += tenant.counted_weight_;
    ++tenants_;
    tenant.round_ = round_;
    tenant.where_ = Where::ring;
    ring_.push_back(tenant);
  }

  void rest(DrrTenant& tenant) noexcept {
    tenant.unlink();
    tenant.where_ = Where::idle;
    tenant.visited_ = false;
    tenant.deficit_ = std::min<std::int64_t>(tenant.deficit_, 0);  // DR-2
    show(tenant);
    weights_ -= tenant.counted_weight_;
    --tenants_;
    bounds_grew_ = true;
  }

  DrrEntry& serve(DrrTenant& tenant) noexcept {
    DrrEntry& entry = tenant.waiting_.pop_front();
    tenant.deficit_ -= entry.cost;
    tenant.count_served(entry.cost);
    set_depth(tenant, tenant.depth_ - 1);
    --depth_;
    if (tenant.depth_ == 0)
      rest(tenant);
    else if (tenant.deficit_ < tenant.waiting_.front().cost)
      end_visit(tenant);
    show(tenant);
    return entry;
  }

  void begin_visit(DrrTenant& tenant) noexcept {
    tenant.deficit_ += quantum * tenant.counted_weight_;
    round_ = std::max(round_, ++tenant.round_);
  }
  void end_visit(DrrTenant& tenant) noexcept {
    tenant.visited_ = false;
    tenant.unlink();
    ring_.push_back(tenant);
  }

  void step_aside(DrrTenant& tenant) noexcept {
    tenant.unlink();
    tenant.where_ = Where::aside;
    aside_.push_back(tenant);
  }
  void come_back(DrrTenant& tenant) noexcept {
    tenant.unlink();
    tenant.where_ = Where::ring;
    ring_.push_front(tenant);
    make_up(tenant);
  }
  // Those in the ring are in one round, or in two that follow each other.
  void make_up(DrrTenant& tenant) noexcept {
    if (tenant.round_ + 1 >= round_) return;
    const std::int64_t each = quantum * tenant.counted_weight_;
    const auto missed = static_cast<std::int64_t>(std::min<std::uint64_t>(round_ - 1 - tenant.round_, 64));
    tenant.deficit_ =
        std::max(tenant.deficit_, std::min(tenant.deficit_ + missed * each, credit_rounds * each));
    tenant.round_ = round_ - 1;
  }
  // Bounds grow when a tenant stops waiting, or there are more slots. While others can be served, those that
  // stepped aside have time.
  bool look_again() noexcept {
    if (!std::exchange(bounds_grew_, false)) return false;
    while (!aside_.empty()) {
      DrrTenant& tenant = aside_.pop_front();
      tenant.where_ = Where::ring;
      ring_.push_back(tenant);
      make_up(tenant);
    }
    return !ring_.empty();
  }

  List<DrrTenant> ring_, aside_;
  std::uint64_t tenants_ = 0;
  std::uint64_t weights_ = 0;
  std::uint64_t depth_ = 0;
  std::uint64_t period_ = 0;
  std::uint64_t round_ = 0;  // the latest
  std::uint64_t looks_ = 0;
  std::uint64_t slots_ = 0;  // at the last decision
  bool bounds_grew_ = false;
};

}  // namespace cairn
