// Flights: identical questions that are asked at the same time share one lookup, whichever shards they come
// from. A question has a home shard. There a task, the dispatcher, begins the flight: a task that looks for
// the answer for all that wait for it.
//   [FH-1] Of one question at most one flight is under way in the process.
//   [FH-2] A flight belongs to nobody who waits for it: it goes on when the first of them leaves, and when
//   all
//         have left, to its own end (`lasts_max`).
//   [FH-3] Each that waits gets one answer: what the flight found, or its own stop or deadline, or `busy`.
//         One that leaves changes nothing for the others.
//   [FH-4] At most `flights_max` flights are under way in the process, for each of which at most
//   `waiters_max`
//         wait; beyond that, `busy`. Who has left still counts until the flight ends.
//   [FH-5] A stop of the dispatcher ends every flight, with its reason. Those that wait, and those that come
//         later, get `cancelled` or `draining`.
// Those who wait travel as errands (runtime/errand.h), so that nothing here crosses shards by itself.
#pragma once

#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "runtime/errand.h"
#include "runtime/scope.h"
#include "services/index/lookup.h"

namespace cairn::index {

// Shared by all that waited for it.
using FindingPtr = std::shared_ptr<const Finding>;

struct FlightLimits {
  std::size_t flights_max = 512;
  std::size_t waiters_max = 1024;               // of one flight
  std::size_t places = 4096;                    // of all that wait, over all shards
  Duration lasts_max = Duration::millis(1200);  // the work may give itself less
};

class Flights {
 public:
  // What a flight does, on the home shard of its question. Cancel: clean.
  using Work = std::function<Task<Result<FindingPtr>>(Call call, Question question)>;

  // `seed` is a secret of the process: it decides the homes.
  Flights(const FlightLimits& limits, std::uint64_t seed);
  // Precondition: no shard asks any more, every dispatcher has ended, and no mail is on its way.
  ~Flights();
  Flights(const Flights&) = delete;
  Flights& operator=(const Flights&) = delete;

  // On each shard, in their order, before any of them asks. The mailbox is that shard's.
  void attach(Shard& shard, Mailbox& mailbox, Work work);
  // The declared task of each shard, once attached. Cancel: clean — the flights have ended when it returns.
  Task<> run(Call call);

  // Waits for the answer on any attached shard; `from` is its mailbox. Cancel: clean — the flight goes on.
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the asking shard's own
  Task<Result<FindingPtr>> ask(Call call, Question question, Mailbox& from);

  // From any shard.
  std::uint64_t flying() const noexcept { return flying_.taken(); }
  std::uint64_t waiting() const noexcept { return places_.taken(); }

 private:
  class Home;

  FlightLimits limits_;
  QuestionHash hash_;
  Permits flying_;
  Permits places_;
  std::vector<std::unique_ptr<Home>> homes_;  // by shard
};

}  // namespace cairn::index
