// The explorer: runs a small program of production primitives under every interleaving of its suspension
// points. Time is abstract: any armed timer may fire next, up to the horizon of its world.
//
// Stateless: each schedule is a fresh run from the start along a recorded prefix of choices. Two steps that
// touch no common object commute, so of all orders of such steps only one is run (sleep sets). What a step
// touched is reported by the primitives themselves through Tracer.
//
// A failing schedule is its tape: the list of choices. `explorer MODEL --replay TAPE` runs it again.
//
// Oracles that hold for every model: deadlock (a task waits for ever), livelock (a schedule without end),
// surviving_task (alive after abort), stray_timer, nondeterminism, and check (a CHECK of the code failed: no
// waiter left on a list, no permit missing, no lock held at a suspension). The others belong to a model.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "runtime/scope.h"
#include "runtime/shard.h"

namespace cairn::model {

// What a model is built in. Objects made here or in its tasks get stable identities.
struct World {
  Shard& shard;
  Scope& scope;  // root of every task of the model

  // A named oracle says no. The first one ends the run; how tasks end after that is nobody's promise.
  void fail(const char* oracle, std::string detail) {
    if (failure.empty() && !closing) {
      failed_oracle = oracle;
      failure = std::move(detail);
    }
  }
  void expect(bool holds, const char* oracle, const char* detail) {
    if (!holds) fail(oracle, detail);
  }
  std::string failed_oracle;
  std::string failure;
  bool closing = false;
  // Timers that are due later never fire: for deadlines that a loop would arm again and again.
  Instant horizon = Instant::never();
};

// A plain value that several tasks of a model use. It reports its use as a primitive does, so that reduction
// keeps every order in which it matters.
template <class T>
class Shared {
 public:
  Shared(World& world, T initial)
      : shard_(world.shard), identity_(shard_.new_identity()), value_(std::move(initial)) {}
  const T& get() const {
    shard_.trace(identity_, Access::read);
    return value_;
  }
  T& edit() {
    shard_.trace(identity_, Access::write);
    return value_;
  }

 private:
  Shard& shard_;
  std::uint64_t identity_;
  T value_;
};

class Model {
 public:
  virtual ~Model() = default;
  // Holds after every step.
  virtual void after_step() {}
  // Judges a terminal state: nothing can run any more and no timer is armed.
  virtual void at_end() = 0;
  // May this task still be waiting at the end? By default none may: that is a deadlock.
  virtual bool may_wait_at_end(const TaskInfo&) const { return false; }
  // The terminal state as the model's observer sees it; reduction must reach the same set as brute force.
  virtual std::string state() const = 0;
};

struct ModelSpec {
  const char* name;
  std::function<std::unique_ptr<Model>(World&)> make;
  // Of a model that is wrong on purpose: the finding it must lead to, as format_finding says it.
  const char* expected = nullptr;
};

struct Options {
  bool reduce = true;
  std::uint64_t max_schedules = 50'000'000;
  std::size_t max_steps = 300;        // in one schedule; more is a livelock
  std::vector<std::uint16_t> replay;  // when not empty, one run along this tape
};

struct Report {
  std::uint64_t schedules = 0;  // complete runs
  std::uint64_t pruned = 0;     // runs cut because an equivalent order was already run
  std::uint64_t steps = 0;
  std::size_t tasks = 0;   // most tasks alive at once
  std::size_t awaits = 0;  // most steps in one schedule
  bool exhausted = false;
  double seconds = 0;
  std::set<std::string> terminal_states;
  std::string oracle;  // empty: no finding
  std::string detail;
  std::vector<std::uint16_t> tape;
};

// A failed CHECK, or a task that survives its abort, leaves nothing to go on with: the finding is printed and
// the process ends with status 1. Every other finding is printed when it is met and returned.
Report explore(const ModelSpec& spec, const Options& options = {});

// "oracle NAME: detail" and how to run it again.
std::string format_finding(const char* model, const Report& report);

// The number of schedules without reduction: the mean over random descents of the product of the branching
// degrees (an unbiased estimate of the tree's leaves), for models too large to enumerate.
double estimate_schedules(const ModelSpec& spec, int probes, std::uint64_t seed);

std::string format_tape(const std::vector<std::uint16_t>& tape);
std::vector<std::uint16_t> parse_tape(const std::string& text);

}  // namespace cairn::model
