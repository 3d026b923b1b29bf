// Clockwork: the state that all parts of a simulated world share: virtual time, the events to come, the
// choices, the probes and the hash of the run.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "base/units.h"
#include "io/sim/choice.h"
#include "io/sim/probe.h"
#include "runtime/shard.h"
#include "runtime/trace.h"

namespace cairn::io::sim {

// A scheduled event. `target` outlives the world's run. An object that may vanish before the event is named
// by number in `a` and `b` and looked up again.
struct Event {
  using Handler = void (*)(void* target, std::uint64_t a, std::uint64_t b);
  std::int64_t due;
  std::uint64_t sequence;
  Handler handler;
  void* target;
  std::uint64_t a;
  std::uint64_t b;
};

// Events by time, then in the order they were scheduled.
class EventQueue {
 public:
  bool empty() const noexcept { return heap_.empty(); }
  std::int64_t next_due() const noexcept { return heap_.empty() ? Instant::never().ns : heap_.front().due; }
  void push(Event event) {
    event.sequence = ++sequence_;
    heap_.push_back(event);
    std::push_heap(heap_.begin(), heap_.end(), later);
  }
  Event pop() {
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const Event event = heap_.back();
    heap_.pop_back();
    return event;
  }

 private:
  static bool later(const Event& a, const Event& b) noexcept {
    return a.due != b.due ? a.due > b.due : a.sequence > b.sequence;
  }
  std::vector<Event> heap_;
  std::uint64_t sequence_ = 0;
};

class Clockwork {
 public:
  explicit Clockwork(ChoiceSource& source) noexcept : choices(source) {}
  Clockwork(const Clockwork&) = delete;
  Clockwork& operator=(const Clockwork&) = delete;

  void after(Duration delay, Event::Handler handler, void* target, std::uint64_t a = 0, std::uint64_t b = 0) {
    events.push({(now + delay).ns, 0, handler, target, a, b});
  }
  bool chance(std::uint32_t per_million, Tag tag) { return choices.chance(per_million, tag); }
  Duration span(Duration low, Duration high, Tag tag) { return {choices.between(low.ns, high.ns, tag)}; }

  // Mixes one fact into the hash of the run.
  void fold(std::uint64_t fact) noexcept { hash = (std::rotl(hash, 5) ^ fact) * 0x9e3779b97f4a7c15u; }

  ChoiceSource& choices;
  Instant now{};
  EventQueue events;
  Probes probes;
  std::uint64_t hash = 0x6361697273696d00u;
  std::uint64_t events_run = 0;
};

// Folds the objects that a shard's steps touch into the hash. Identities are counted numbers, never
// addresses, so that equal runs have equal hashes whatever the allocator does.
class HashTracer final : public Tracer {
 public:
  HashTracer(Clockwork& clockwork, std::uint64_t space) noexcept
      : clockwork_(clockwork), next_(space << 32) {}
  void watch(const Shard& shard) noexcept { shard_ = &shard; }

  void touch(std::uint64_t object, Access access) override {
    const TaskInfo* task = shard_->current_task();
    const std::uint64_t who = task == nullptr ? 0 : task->identity;
    clockwork_.fold(object ^ std::rotl(who, 20) ^ (static_cast<std::uint64_t>(access) << 63) ^
                    std::rotl(static_cast<std::uint64_t>(clockwork_.now.ns), 40));
  }
  std::uint64_t new_identity() override { return ++next_; }

 private:
  Clockwork& clockwork_;
  const Shard* shard_ = nullptr;
  std::uint64_t next_;
};

}  // namespace cairn::io::sim
