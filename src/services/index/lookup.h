// Lookups: ask targets for what this node does not know itself. One lookup asks a few of the best targets at
// once (alpha), and, if they have not settled it after `hedge`, a few others (beta).
//   [LU-1] The first satisfactory answer (tally.h) ends the lookup. The targets that are still asked are
//         cancelled, and have ended before the lookup returns.
//   [LU-2] Errors: `not_found` only as TY-2 says. `timeout` when the deadline came, or when all that were
//         asked have ended and at least one of them failed. `breaker_open` when none could be asked because
//         of the breakers, `degraded` when there was none to ask.
//   [LU-3] No target is asked twice at once, and none more than 1 + `retries` times: again only after a fault
//         that may pass, after a jittered wait, and never through an open breaker.
//   [LU-4] At most alpha + beta targets are asked. A target whose breaker is open does not count: the next
//         best is asked in its place.
// When all of alpha have ended before `hedge` and one of them failed, beta begins at once: nothing can be
// found by waiting. A single failure among targets that still run begins nothing early.
#pragma once

#include "services/index/breakers.h"
#include "services/index/tally.h"

namespace cairn::index {

// A lookup keeps the one that it began with.
struct LookupPolicy {
  std::size_t alpha = 3, beta = 2;
  Duration hedge = Duration::millis(150);
  Duration deadline = Duration::millis(1200);
  unsigned retries = 3;
  Duration jitter_least = Duration::millis(50), jitter_most = Duration::millis(100);
};

// How long each wave of targets was under way.
struct Waves {
  Duration alpha{};
  std::optional<Duration> beta = {};  // none: it never began
  bool beta_won = false;
};

struct Finding {
  Answer answer;
  Waves waves;
};

// For metrics. Called on the shard; must not wait or throw.
class LookupEvents {
 public:
  virtual ~LookupEvents() = default;
  virtual void ended(Duration /*took*/) noexcept {}  // each lookup, however it ended
  virtual void retried(const Target&) noexcept {}
  virtual void late(const Target&) noexcept {}
  virtual void shut(const Target&) noexcept {}  // not asked: its breaker let nothing begin
};

// The targets in the order in which they are asked: breaker, latency class, region; then by name.
Targets best_first(Targets targets, const BreakerTable::Snapshot& breakers, const std::string& region);

// Of one shard.
class Lookups {
 public:
  // All outlive it, and it outlives its lookups. `mailbox` is the shard's.
  Lookups(Shard& shard, Mailbox& mailbox, BreakerTable& breakers, const Judge& judge,
          LookupEvents* events = nullptr) noexcept
      : shard_(shard),
        mailbox_(mailbox),
        breakers_(breakers),
        judge_(judge),
        events_(events != nullptr ? *events : silent_) {}
  Lookups(const Lookups&) = delete;
  Lookups& operator=(const Lookups&) = delete;

  // `targets`: the best first. Cancel: clean.
  Task<Result<Finding>> run(Call call, Question question, Targets targets, LookupPolicy policy);

 private:
  class Run;

  Shard& shard_;
  Mailbox& mailbox_;
  BreakerTable& breakers_;
  const Judge& judge_;
  LookupEvents silent_;
  LookupEvents& events_;
};

}  // namespace cairn::index
