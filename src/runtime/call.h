// Call: travels with every operation and carries its deadline, its request's context and its stop switch.
//
// By value, first parameter of every async operation. It can be narrowed, never widened. There is no
// operation without one, so there is no wait without a deadline and none that cannot be stopped. Only a scope
// makes one, so every task that waits belongs to a scope that can stop it and that waits for its end.
#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>

#include "base/error.h"
#include "base/units.h"
#include "observe/span.h"

namespace cairn {

class CancelSource;
class Scope;

// Per request: its tenant and its name in the logs. Owned by the request's scope.
struct CallContext {
  std::string_view corr_id;   // as echoed and logged
  observe::SpanContext span;  // of this request; a call to a peer is a child of it
  std::string_view tenant;    // empty: none
};

// Limits on a request's waits in the lanes of the pool, beside its deadline. It lives in the frame that made
// it, which outlasts the wait.
struct LaneUse {
  // A wait ends with `timeout` when its lane has completed nothing for this long. Time in a queue that moves
  // does not count. Zero: no such limit.
  Duration stall{};
  // A request's first job that has not begun after this long is taken back: `busy`. A later answer would be
  // of no use to the client, and the work for it would be wasted. Once the request's first job is done, its
  // next jobs go before those of requests that have not begun. Zero: no such limit and no precedence.
  Duration begin_within{};
  bool begun = false;
};

class Call {
 public:
  Instant deadline() const noexcept { return deadline_; }
  const CallContext* context() const noexcept { return context_; }
  CancelSource& cancel() const noexcept { return *reinterpret_cast<CancelSource*>(cancel_ & ~shield_bit); }
  bool shielded() const noexcept { return (cancel_ & shield_bit) != 0; }

  // The earlier of both deadlines.
  Call by(Instant deadline) const noexcept {
    Call call = *this;
    if (deadline < call.deadline_) call.deadline_ = deadline;
    return call;
  }
  Call within(Duration span) const noexcept;  // from the current shard's now
  // `use` outlives the call.
  Call in_lanes(LaneUse& use) const noexcept {
    Call call = *this;
    call.lanes_ = &use;
    return call;
  }
  LaneUse* lanes() const noexcept { return lanes_; }  // null: no such limits
  // Ignores cancellation but not abort. For the few steps that must not stop half way; say why.
  Call shield() const noexcept {
    Call call = *this;
    call.cancel_ |= shield_bit;
    return call;
  }
  // Without a deadline and stoppable only by abort. To wait for an operation that is about to end and that
  // uses the caller's memory. The only widening there is; never for work.
  Call unbounded() const noexcept {
    Call call = shield();
    call.deadline_ = Instant::never();
    call.lanes_ = nullptr;
    return call;
  }
  Call with_context(const CallContext& context) const noexcept {
    Call call = *this;
    call.context_ = &context;
    return call;
  }
  // Stopped by `cancel` instead: a scope's tasks answer to their scope. `cancel` must be below this
  // call's own source, or stopping would be widened.
  Call under(CancelSource& cancel) const noexcept {
    Call call = *this;
    call.cancel_ = reinterpret_cast<std::uintptr_t>(&cancel) | (cancel_ & shield_bit);
    return call;
  }

  // Has this call been stopped? For loops that compute without waiting.
  bool stopped() const noexcept;
  bool expired() const noexcept;

 private:
  friend class Scope;
  Call(Instant deadline, CancelSource& cancel) noexcept
      : deadline_(deadline), cancel_(reinterpret_cast<std::uintptr_t>(&cancel)) {}

  static constexpr std::uintptr_t shield_bit = 1;
  Instant deadline_;
  std::uintptr_t cancel_;
  const CallContext* context_ = nullptr;
  LaneUse* lanes_ = nullptr;
};
static_assert(sizeof(Call) <= 32 && std::is_trivially_copyable_v<Call>);

}  // namespace cairn
