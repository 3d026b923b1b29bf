// FairTurns: turns for a whole process in the order of DeficitRoundRobin, whatever the number of shards. One
// task, the scheduler, decides; each shard has a FairTurns, through which its requests ask.
//   [FT-1] A turn is granted only while fewer are out than there are slots. A worker that dies takes its
//         slots with it: turns already granted are kept.
//   [FT-2] While a slot is free and nobody waits, a request takes it on its own shard. While somebody waits,
//         only the scheduler grants.
//   [FT-3] Whoever asks is told exactly once: a turn; `busy`; `closed` after close(); `degraded` when its
//   grant
//         was dropped from `sched`; or its call's own error, as when a drain's deadline ends it.
//   [FT-4] At most places.limit() requests wait, and an eighth more of tenants below their share. A request
//         that stops waiting gives its place back at once. Once half of the places are taken, a tenant has no
//         more of them than its weight's share among those that wait.
//   [FT-5] The scheduler makes a grant only for a free slot. So at most as many grants wait in `sched`, for a
//         worker of their shard to start them, as there are slots. A full `sched` drops its oldest grant.
//
// An entry travels to the scheduler by mail, waits there, and travels back with its grant. When its asker
// leaves first, a second letter follows it, and the entry ends when that has come back: mail keeps its order,
// so a grant that was under way has arrived by then, and its slot was given back.
//
// Atomics: `slots_`, `out_` and `waiting_` are sequentially consistent. An asker counts itself in `waiting_`
// before the scheduler looks for a slot for it; who gives a slot back lowers `out_` before it looks at
// `waiting_`. So either the scheduler sees the slot, or the giver sees that somebody waits, and rings.
// `noted` of a tenant and `bell_under_way_` say that the scheduler will look anyway: who finds such a flag
// set does no more. So the scheduler has to see all that was done before that. It clears a flag by an
// exchange, not by a store, and looks after it: an exchange reads the newest value in the flag's own order,
// so it acquires from everybody who found the flag set before, all of whom exchanged it too, and released.
// Whoever comes after it finds the flag clear. A store, were it sequentially consistent, would read nothing:
// what a weaker exchange before it published might not be seen. The stack of those that gave back hands over
// the tenant itself: acquire and release.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "runtime/deficit_round_robin.h"
#include "runtime/mailbox.h"
#include "runtime/mpsc.h"
#include "runtime/permits.h"
#include "runtime/turn.h"

namespace cairn {

class FairTurns;
struct EntryLink : Link {};

// The part that all shards share.
class FairScheduler {
 public:
  // `home` is the shard of the scheduler's task; `places`, which are those of the queue `work`, outlive this.
  FairScheduler(Shard& home, Mailbox& mailbox, Permits& places) noexcept
      : mailbox_(mailbox), places_(places), identity_(home.new_identity()) {
    bell_letter_.of = this;
    everyone_.is_bounded = false;
  }
  ~FairScheduler();
  FairScheduler(const FairScheduler&) = delete;
  FairScheduler& operator=(const FairScheduler&) = delete;

  // --- at home
  // The task `scheduler`: grants until it is stopped. Cancel: clean — what waits goes on waiting.
  Task<> run(Call call);
  void set_weight(DrrTenant& tenant, std::uint32_t weight);

  // --- from any shard
  // Off: one queue for all, first come, first served. What a tenant holds and uses is counted all the same,
  // and bounds nothing. Precondition: nobody has asked yet.
  void set_enabled(bool enabled) noexcept {
    CHECK(out() == 0 && waiting() == 0);
    enabled_.store(enabled, std::memory_order_relaxed);
  }
  std::uint64_t slots() const noexcept { return slots_.load(std::memory_order_seq_cst); }
  std::uint64_t out() const noexcept { return out_.load(std::memory_order_seq_cst); }
  std::uint64_t waiting() const noexcept { return waiting_.load(std::memory_order_seq_cst); }

 private:
  friend class FairTurns;
  struct Entry;
  struct Letter : MailItem, Link {
    FairScheduler* of = nullptr;
    Entry* entry = nullptr;
  };
  class Rung;

  void touch() const noexcept {
    if (Shard* shard = current_shard()) shard->trace(identity_, Access::write);
  }
  // --- from any shard; `from` is its mailbox
  DrrTenant& queue_of(DrrTenant& tenant) noexcept {
    return enabled_.load(std::memory_order_relaxed) ? tenant : everyone_;
  }
  bool try_take_slot() noexcept;
  void free_slot(Mailbox& from) noexcept;
  void give_back(DrrTenant& tenant, Mailbox& from) noexcept;
  bool try_take_place(DrrTenant& owner) noexcept;
  static void count(DrrTenant& owner, std::uint32_t cost) noexcept;
  void leave_place(Entry& entry) noexcept;
  void lend(std::uint64_t slots, Mailbox& from) noexcept;
  void take_away(std::uint64_t slots) noexcept;
  void ring_home(Mailbox& from) noexcept;
  void send_home(MailItem& item, Mailbox& from) noexcept;
  // --- at home
  static void arrive(MailItem& item) noexcept;
  static void leave(MailItem& item) noexcept;
  void ring() noexcept;
  void collect() noexcept;
  void dispatch() noexcept;
  void answer(Entry& entry, const Error& outcome) noexcept;
  void send_back(MailItem& item, Entry& entry) noexcept;
  void forget(Entry& entry) noexcept;

  Mailbox& mailbox_;
  Permits& places_;
  std::uint64_t identity_;
  DrrTenant everyone_;  // while it is off

  std::atomic<bool> enabled_{true};
  alignas(64) std::atomic<std::uint64_t> out_{0};
  std::atomic<std::uint64_t> slots_{0}, waiting_{0};
  std::atomic<std::uint64_t> weights_{0};  // of the tenants that wait, as last shown
  std::atomic<DrrTenant*> noted_{nullptr};
  std::atomic<bool> bell_under_way_{false};
  Letter bell_letter_;

  // --- of the task at home
  DeficitRoundRobin order_;
  List<DrrEntry> arrived_;
  List<Letter> leaving_;
  WaitList bell_;
  bool rung_ = false;
};

// One shard's part.
class FairTurns final : public Turnstile {
 public:
  struct Told {
    std::function<void(std::size_t depth)> work = {};   // requests of this shard that wait
    std::function<void(std::size_t depth)> sched = {};  // grants that wait to be started
    std::function<void()> dropped = {};                 // the oldest grant was dropped
    std::function<void()> slots = {};                   // this shard lends more, or fewer
  };
  // What this shard brings along.
  struct Size {
    std::size_t sched = 512;  // places in `sched`
    std::size_t workers = 1;
    std::uint64_t slots_each = 16;  // that a worker lends
  };
  // `mailbox` is this shard's.
  FairTurns(FairScheduler& scheduler, Shard& shard, Mailbox& mailbox, Size size, Told told);
  ~FairTurns() override;

  // seeking.tenant outlives the turn. Cancel: clean — no turn was taken.
  Task<Result<Turn>> ask(Call call, Seeking seeking) override;
  // A turn, if one is free and nobody waits. For what is done without a wait.
  std::optional<Turn> try_take(Seeking seeking) noexcept;
  // For workers: starts what was granted, and lends slots, until close(). Cancel: clean — the slots are taken
  // away.
  Task<> work(Call call) override;
  void close() noexcept override;
  std::size_t workers(std::size_t) const noexcept override { return size_.workers; }
  std::size_t depth() const noexcept override { return depth_; }
  const FairScheduler& scheduler() const noexcept { return scheduler_; }
  // After close(): waits until no entry of this shard is under way. Cancel: clean.
  Task<Result<>> settle(Call call);

 private:
  friend class FairScheduler;
  using Entry = FairScheduler::Entry;
  // Its place in `sched`. A grant that is dropped before a worker has started it is answered so.
  class Grant {
   public:
    explicit Grant(Entry& entry) noexcept : entry_(&entry) {}
    Grant(Grant&& other) noexcept : entry_(std::exchange(other.entry_, nullptr)) {}
    Grant& operator=(Grant&&) = delete;
    ~Grant();
    Entry& take() noexcept { return *std::exchange(entry_, nullptr); }

   private:
    Entry* entry_;
  };
  struct Lent;

  void touch() const noexcept { shard_.trace(identity_, Access::write); }
  void give_back(DrrTenant* tenant) noexcept override;
  static void come_back(MailItem& item) noexcept;
  static void come_to_rest(MailItem& item) noexcept;
  void start(Entry& entry) noexcept;
  void drop(Entry& entry) noexcept;
  void tell(Entry& entry, const Error& outcome) noexcept;
  void leave(Entry& entry) noexcept;
  void end(Entry& entry) noexcept;
  void set_depth(std::size_t depth);
  void show_sched();

  FairScheduler& scheduler_;
  Shard& shard_;
  Mailbox& mailbox_;
  std::uint64_t identity_;
  Size size_;
  Told told_;
  Mpsc<Grant> sched_;
  List<Entry, EntryLink> entries_;  // those that have not ended
  std::size_t depth_ = 0;
  bool closed_ = false;
  WaitList settled_;
};

}  // namespace cairn
