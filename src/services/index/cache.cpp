#include "services/index/cache.h"

#include <utility>

#include "services/index/provider_set.h"
#include "services/index/tally.h"

namespace cairn::index {
namespace {

// In one step of the janitor.
constexpr std::size_t learned_at_once = 32, removed_at_once = 64;

std::uint64_t bytes_of(const Known& known) noexcept {
  std::uint64_t bytes = 512;  // of the tables and of what every entry has
  if (const auto* name = std::get_if<std::string>(&known.question)) bytes += 2 * name->size();
  for (const SignedProvider& provider : known.answer.providers)
    bytes += sizeof(provider) + provider.bytes.capacity() +
             provider.record.endpoints.capacity() * sizeof(format::Endpoint);
  for (const SignedChange& change : known.answer.changes)
    bytes += sizeof(change) + change.bytes.capacity() + change.change.name.capacity() +
             change.change.note.capacity();
  return bytes;
}

}  // namespace

Cache::Cache(Shard& home, Mailbox& mailbox, const CachePolicy& policy, std::uint64_t seed)
    : shard_(home),
      policy_(policy),
      hash_(seed),
      arriving_(home, mailbox, {"the queue of what was learned is full", "the cache janitor has ended"}),
      purged_at_(home.now()) {
  for (auto& stripe : stripes_) stripe = std::make_unique<Stripe>(0u, hash_);
}

Cache::~Cache() {
  for (ByAge* ages : {&present_, &absent_})
    while (!ages->empty()) ages->pop_front();
}

KnownPtr Cache::find(const Question& question, Instant now) const {
  KnownPtr known = stripe_of(question).with([&](const Table& table) -> KnownPtr {
    const auto found = table.find(question);
    return found == table.end() ? nullptr : found->second.known;
  });
  if (known && (known->generation != generation() || known->until <= now)) known.reset();
  return known;
}

Result<> Cache::learn(Question question, Answer answer, std::uint64_t generation, Mailbox& from) {
  Known known{std::move(question), std::move(answer), current_shard()->now(), {}, generation};
  auto left = arriving_.leave(std::make_unique<Learned>(std::move(known)), from, &places_);
  if (!left && left.error().code == ErrorCode::busy) lost_.fetch_add(1, std::memory_order_relaxed);
  return left;
}

Task<> Cache::run(Call call) {
  bool sweeping = false;
  for (Instant due = shard_.now() + look; !call.stopped();) {
    if (!sweeping) (void)co_await arriving_.arrived(call.by(due));
    for (std::size_t i = 0; i < learned_at_once && take_one(); ++i) {
    }
    const Instant now = shard_.now();
    if (policy_.purge_interval.ns > 0 && purged_at_ + policy_.purge_interval <= now) {
      purged_at_ = now;
      forget_all();
    }
    if (now >= due) sweeping = true;
    if (now >= due) due = now + look;
    if (sweeping) sweeping = sweep();
    co_await yield(call);
  }
  arriving_.close();
}

// The errand is answered first: if memory is short for the rest, its place is free all the same.
bool Cache::take_one() {
  Learned* learned = arriving_.next();
  if (learned == nullptr) return false;
  arriving_.take(*learned);
  Known known = std::move(learned->known);
  learned->result = true;
  arriving_.answer(*learned);
  keep(std::move(known));
  return true;
}

void Cache::keep(Known known) {
  const bool absent = known.answer.is_empty();
  known.until = known.learned + (absent ? policy_.neg_ttl : policy_.ttl);
  if (is_over(known)) return;
  Entry* same = stripe_of(known.question).with([&](Table& table) -> Entry* {
    const auto found = table.find(known.question);
    return found == table.end() ? nullptr : &found->second;
  });
  if (same != nullptr && !is_over(*same->known) && !merge(known, *same->known)) return;
  // The place of the old entry is free for the new one.
  if (same != nullptr) remove(*same);
  const std::uint64_t bytes = bytes_of(known);
  if (!make_room(bytes, absent)) return;
  const KnownPtr kept = std::make_shared<const Known>(std::move(known));
  Entry* entry = stripe_of(kept->question).with([&](Table& table) -> Entry* {
    Entry& made = table.try_emplace(kept->question).first->second;
    made.known = kept;
    return &made;
  });
  entry->bytes = bytes;
  ages_of(*kept).push_back(*entry);
  size_.fetch_add(1, std::memory_order_relaxed);
  bytes_.fetch_add(bytes, std::memory_order_relaxed);
}

// Takes over from `old` what is still in force. False: `known` is older, and `old` stays.
bool Cache::merge(Known& known, const Known& old) const {
  if (known.answer.is_empty() || old.answer.is_empty()) return true;
  if (asks_for_name(known.question)) {
    const std::vector<SignedChange>&before = old.answer.changes, &now = known.answer.changes;
    return before.empty() || (!now.empty() && !is_newer(before.front(), now.front()));
  }
  ProviderSet both(std::get<Address>(known.question));
  both.add_all(known.answer.providers, shard_.wall());
  both.add_all(old.answer.providers, shard_.wall());
  known.answer.providers = std::move(both).take();
  return true;
}

bool Cache::is_over(const Known& known) const noexcept {
  return known.generation != generation() || known.until <= shard_.now();
}

bool Cache::has_room(std::uint64_t bytes) const noexcept {
  return size() < policy_.entries && this->bytes() + bytes <= policy_.bytes;
}

bool Cache::make_room(std::uint64_t bytes, bool for_absent) noexcept {
  for (std::size_t i = 0; !has_room(bytes) && i < removed_at_once; ++i) {
    ByAge& ages = absent_.empty() && !for_absent ? present_ : absent_;
    if (ages.empty()) return false;
    remove(ages.front());
    evicted_.fetch_add(1, std::memory_order_relaxed);
  }
  return has_room(bytes);
}

void Cache::remove(Entry& entry) noexcept {
  size_.fetch_sub(1, std::memory_order_relaxed);
  bytes_.fetch_sub(entry.bytes, std::memory_order_relaxed);
  static_cast<AgeLink&>(entry).unlink();
  const KnownPtr known = entry.known;
  // It is freed outside the lock.
  (void)stripe_of(known->question).with([&](Table& table) { return table.extract(known->question); });
}

// Removes what is over, and what is too much since the policy became smaller. True: there may be more.
bool Cache::sweep() noexcept {
  for (std::size_t i = 0; i < removed_at_once; ++i) {
    if (!present_.empty() && is_over(*present_.front().known))
      remove(present_.front());
    else if (!absent_.empty() && is_over(*absent_.front().known))
      remove(absent_.front());
    else if (size() > policy_.entries || bytes() > policy_.bytes)
      remove(absent_.empty() ? present_.front() : absent_.front());
    else
      return false;
  }
  return true;
}

}  // namespace cairn::index
