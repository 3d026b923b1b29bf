// CancelSource: the stop switch of a scope, with a reason. Stopping a source stops every source below it.
//
// Cancelling wakes the waits of its calls with `cancelled`; later waits end before they begin. Shielded
// waits are left alone until abort. Nothing is destroyed: each task returns through its own code.
#pragma once

#include "base/error.h"
#include "runtime/list.h"
#include "runtime/waiter.h"

namespace cairn {

class CancelSource : public Link {
 public:
  CancelSource(Shard& shard, CancelSource* parent) noexcept;
  ~CancelSource();

  void cancel(StopReason reason) noexcept;
  // Cancels shielded waits too.
  void abort() noexcept;

  StopReason reason() const noexcept { return reason_; }
  bool stops(const Call& call) const noexcept;
  void add(Waiter& waiter, bool shielded) noexcept;

 private:
  void wake_all(List<Waiter, CancelNode>& waits) noexcept;

  Shard& shard_;
  std::uint64_t identity_;
  StopReason reason_ = StopReason::none;
  bool aborted_ = false;
  List<Waiter, CancelNode> waits_;
  List<Waiter, CancelNode> shielded_;
  List<CancelSource> children_;
};

}  // namespace cairn
