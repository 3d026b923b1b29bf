// Cache: what this node has learned from others: changes of foreign names, providers, and that nobody has
// something. Any shard reads it at once; only the cache janitor writes it.
//   [KC-1] It holds at most `entries` entries and about `bytes` bytes of records.
//   [KC-2] Nothing is found later than its time to live (`ttl`, or `neg_ttl` of "not here") after it was
//         learned, and nothing that was learned before the last forget_all(): neither what was kept then, nor
//         what a lookup that was under way brings later.
//   [KC-3] As long as it is kept, the change of a name with the higher sequence is not replaced by a lower
//         one, nor a provider's record by an older one of its node. "Not here" replaces either: all that were
//         asked said so.
//   [KC-4] What is learned travels through the queue `learned`. A full queue costs a memory, which is
//         counted, and never a wait or an answer.
//   [KC-5] The janitor does a bounded piece of work at a time, also when everything is forgotten.
// When it is full, the oldest "not here" goes first, then the oldest entry of all: it is the next to be over
// anyway. A new "not here" takes the place only of another one: a flood of questions for what does not exist
// costs no entry that is of use.
//
// Atomics: the generation and the counts publish no other memory, so their order is relaxed.
#pragma once

#include <array>
#include <memory>
#include <unordered_map>

#include "runtime/declaration.h"
#include "runtime/errand.h"
#include "runtime/guarded.h"
#include "services/index/target.h"

namespace cairn::index {

inline constexpr LockDeclaration cache_lock{"cache_meta", 14, "what was learned, by question (64 stripes)"};

struct CachePolicy {
  std::size_t entries = 150'000;
  std::uint64_t bytes = 256u << 20;
  Duration ttl = Duration::seconds(15), neg_ttl = Duration::seconds(3);
  Duration purge_interval = Duration::seconds(30);  // of amnesia; zero: nothing is forgotten before its time
};

// One entry. Immutable: a reader keeps it for as long as it likes.
struct Known {
  Question question;
  Answer answer;  // empty: not here
  Instant learned{}, until{};
  std::uint64_t generation = 0;
};
using KnownPtr = std::shared_ptr<const Known>;

class Cache {
 public:
  static constexpr std::size_t learned_capacity = 1024;
  static constexpr Duration look = Duration::seconds(1);

  // `mailbox` is that of the shard on which the janitor runs. `seed` is a secret of the process.
  Cache(Shard& home, Mailbox& mailbox, const CachePolicy& policy, std::uint64_t seed);
  // Precondition: as of an ErrandHome.
  ~Cache();
  Cache(const Cache&) = delete;
  Cache& operator=(const Cache&) = delete;

  // --- from any shard
  // Null: nothing is known at this moment.
  KnownPtr find(const Question& question, Instant now) const;
  // Ask before a lookup; what it finds is learned under this number.
  std::uint64_t generation() const noexcept { return generation_.load(std::memory_order_relaxed); }
  // `from` is the shard's mailbox. An error: it was not kept.
  Result<> learn(Question question, Answer answer, std::uint64_t generation, Mailbox& from);
  // When another one may speak for a name, or another node is a member: all that was learned is in doubt.
  void forget_all() noexcept { generation_.fetch_add(1, std::memory_order_relaxed); }

  std::size_t size() const noexcept { return size_.load(std::memory_order_relaxed); }
  std::uint64_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }
  std::size_t waiting() const noexcept { return places_.taken(); }
  // What was not kept because the queue was full.
  std::uint64_t lost() const noexcept { return lost_.load(std::memory_order_relaxed); }
  std::uint64_t evicted() const noexcept { return evicted_.load(std::memory_order_relaxed); }

  // --- at home
  // The declared task. It takes what is learned as it comes, removes what is over once a second, and forgets
  // everything each purge interval. Cancel: clean — what comes later is dropped.
  Task<> run(Call call);
  void set_policy(const CachePolicy& policy) noexcept { policy_ = policy; }

 private:
  struct Learned : Errand<Learned, bool> {
    explicit Learned(Known what) : known(std::move(what)) {}
    Known known;
  };
  struct AgeLink : Link {};
  // `known` is read under the stripe's lock, and written by the janitor under it. The rest is the janitor's.
  struct Entry : AgeLink {
    KnownPtr known;
    std::uint64_t bytes = 0;
  };
  using Table = std::unordered_map<Question, Entry, QuestionHash>;
  using Stripe = Guarded<Table, cache_lock.rank>;
  using ByAge = List<Entry, AgeLink>;  // the oldest first
  static constexpr std::size_t stripes = 64;

  Stripe& stripe_of(const Question& question) const noexcept { return *stripes_[hash_(question) >> 58]; }
  bool take_one();
  void keep(Known known);
  bool merge(Known& known, const Known& old) const;
  bool is_over(const Known& known) const noexcept;
  bool has_room(std::uint64_t bytes) const noexcept;
  bool make_room(std::uint64_t bytes, bool for_absent) noexcept;
  void remove(Entry& entry) noexcept;
  bool sweep() noexcept;
  ByAge& ages_of(const Known& known) noexcept { return known.answer.is_empty() ? absent_ : present_; }

  Shard& shard_;
  CachePolicy policy_;
  QuestionHash hash_;
  Permits places_{learned_capacity};
  ErrandHome<Learned> arriving_;
  std::atomic<std::uint64_t> generation_{1}, lost_{0}, bytes_{0}, evicted_{0};
  std::atomic<std::size_t> size_{0};
  // --- the janitor's
  ByAge present_, absent_;
  Instant purged_at_;
  // --- everybody's
  std::array<std::unique_ptr<Stripe>, stripes> stripes_;
};

}  // namespace cairn::index
