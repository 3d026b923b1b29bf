// select: waits for the first of a fixed set of arms and says which.
//
// An arm is a readiness, not a result: nothing is taken out of a channel by selecting, so the arms that were
// not chosen lose nothing. The caller must then try the chosen arm. If another consumer was faster, it
// selects again. With several ready, the first in the argument order wins: put shutdown first.
#pragma once

#include <array>

#include "base/result.h"
#include "runtime/waiter.h"

namespace cairn {

struct SelectArm {
  WaitList* list;
  const void* object;
  bool (*ready)(const void* object);
};

template <std::size_t N>
class Select : public Waiter {
 public:
  Select(const Call& call, std::array<SelectArm, N> arms) noexcept : Waiter(call), arms_(arms) {}

  bool await_ready() noexcept {
    for (std::size_t i = 0; i < N; ++i)
      if (arms_[i].ready(arms_[i].object)) {
        found_ = i;
        return true;
      }
    return !may_wait();
  }
  void await_suspend(std::coroutine_handle<> handle) noexcept {
    for (std::size_t i = 0; i < N; ++i) {
      own(nodes_[i], static_cast<std::uint8_t>(i));
      arms_[i].list->push_back(nodes_[i]);
    }
    begin(handle);
  }
  [[nodiscard]] Result<std::size_t> await_resume() const noexcept {
    if (found_ < N) return found_;
    if (why() == Wake::ready) return arm();
    return fail(error("select"));
  }

 private:
  std::array<SelectArm, N> arms_;
  std::array<WaitNode, N> nodes_;
  std::size_t found_ = N;
};

template <class... Arms>
Select<sizeof...(Arms)> select(const Call& call, Arms... arms) noexcept {
  return {call, {arms...}};
}

}  // namespace cairn
