// Exit: the exit codes of every verb, in this one place. Scripts rely on the numbers.
#pragma once

#include "client/failure.h"

namespace cairn::cli {

enum class Exit : int {
  ok = 0,
  failed = 1,
  some_failed = 2,  // of several
  not_found = 3,
  integrity = 4,  // a hash or signature is wrong
  unproved = 5,   // unsigned, or no proof
  busy = 6,       // try later
  deadline = 7,
  refused = 8,  // capability or quota
  conflict = 9,
  drain_aborted = 10,  // of a service
  usage = 64,
  unreachable = 69,
  bad_config = 78,
  interrupted = 130,
};

constexpr int code_of(Exit exit) noexcept { return static_cast<int>(exit); }

Exit exit_of(const client::Failure& failure) noexcept;

// The exit of several things done one by one: their common exit, or some_failed when they differ.
class ExitOfSeveral {
 public:
  void add(Exit one) noexcept {
    if (one == Exit::interrupted) interrupted_ = true;
    if (!any_) first_ = one;
    any_ = true;
    if (one != first_) mixed_ = true;
  }
  Exit exit() const noexcept {
    if (interrupted_) return Exit::interrupted;
    return mixed_ ? Exit::some_failed : first_;
  }

 private:
  Exit first_ = Exit::ok;
  bool any_ = false, mixed_ = false, interrupted_ = false;
};

}  // namespace cairn::cli
