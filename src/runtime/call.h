// Call: what travels with every operation: until when, on whose behalf, and who may stop it.
//
// By value, first parameter of every async operation. It can be narrowed, never widened. There is no
// operation without one, so there is no wait without a deadline and none that cannot be stopped. Only a scope
// makes one: whoever waits belongs to somebody who can stop it and who waits for its end.
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

// Per request: who and under which name in the logs. Owned by the request's scope.
struct CallContext {
  std::string_view corr_id;   // as echoed and logged
  observe::SpanContext span;  // of this request; a call to a peer is a child of it
  std::string_view tenant;    // empty: none
};

// How a request waits in the lanes of the pool, beside its deadline. In the frame of whoever made it, which
// waits.
struct LaneUse {
  // A wait ends with `timeout` when its lane has completed nothing for so long: time in a queue that moves
  // does not count, however long it is. Zero: no such limit.
  Duration stall{};
  // A first job that has not begun after so long is taken back: `busy`. Who waits longer would be served when
  // it is too late to be of use, and what was done for it be wasted. Once one was done, the next ones go
  // before those of others who have not begun. Zero: as everybody.
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
  LaneUse* lanes() const noexcept { return lanes_; }  // none: as everybody
  // Ignores cancellation but not abort. For the few steps that must not stop half way; say why.
  Call shield() const noexcept {
    Call call = *this;
    call.cancel_ |= shield_bit;
    return call;
  }
  // Without deadline and stoppable only by abort: to wait for something that is itself about to end, and
  // whose memory is ours. The only widening there is; never for work.
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
