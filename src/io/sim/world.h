// World: simulated machines, the network between them, and time. One thread runs it. One ChoiceSource decides
// which ready task runs next and which operation fails. When nothing is ready, time jumps to the next event
// or timer.
//   [SW-1] The same program with the same choices gives the same hash().
//   [SW-2] Time never goes back, and passes with every step, so that no loop can stop it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/sim/clockwork.h"
#include "io/sim/network.h"
#include "io/sim/node.h"

namespace cairn::io::sim {

enum class Crash : std::uint8_t {
  power,    // the machine: peers hear nothing, unsynced changes may be lost
  process,  // kill -9: the kernel closes its connections and keeps the page cache
};

class World {
 public:
  explicit World(std::uint64_t seed);
  explicit World(ChoiceSource& choices);  // outlives the world
  ~World() { stop(); }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // --- nodes. Not from within a task: use at() or crash_soon().
  Node& add_node(std::string name, unsigned shards = 1, Boot boot = {});
  void crash(Node& node, Crash how = Crash::power);
  void restart(Node& node);
  // Cuts network and disk at once and crashes before the next step: for a fault in the middle of a task.
  void crash_soon(Node& node, Crash how = Crash::power);
  void pause(Node& node);  // its tasks and timers stop; the kernel goes on
  void resume(Node& node);
  void set_clock_skew(Node& node, Duration skew);  // of its wall clock, now and after restarts
  Node& node(unsigned index) noexcept { return *nodes_[index]; }
  std::size_t nodes() const noexcept { return nodes_.size(); }
  std::size_t live_tasks() const noexcept;
  // Ends every node's program: its tasks are aborted and run to their end. A task that does not end is a bug,
  // and is CHECKed. The destructor does it too; a test whose tasks use its local variables does it first.
  void stop();

  SimNetwork& network() noexcept { return network_; }
  ChoiceSource& choices() noexcept { return clockwork_.choices; }
  Probes& probes() noexcept { return clockwork_.probes; }
  Clockwork& clockwork() noexcept { return clockwork_; }

  // --- running
  Instant now() const noexcept { return clockwork_.now; }
  void at(Instant when, std::function<void()> action);
  void after(Duration delay, std::function<void()> action) { at(now() + delay, std::move(action)); }
  // Until done() holds; asked before every step. False: `within` has passed, or nothing will happen any more.
  template <class Done>
  bool run_until(Done done, Duration within = Duration::seconds(3600));
  void run_until(Instant when);
  void run_for(Duration span) { run_until(now() + span); }
  // Until nothing is ready, no timer armed and no event due. False: `within` has passed first.
  bool run_to_rest(Duration within = Duration::seconds(3600));
  // One event or one task's turn, or one jump of time to at most `limit`. False: there is none before it.
  bool step(Instant limit);

  // How much time a task's turn takes.
  void set_step_cost(Duration cost) noexcept { step_cost_ = cost; }
  std::uint64_t hash() const noexcept { return clockwork_.hash; }
  std::uint64_t steps() const noexcept { return steps_; }
  std::uint64_t events() const noexcept { return clockwork_.events_run; }

 private:
  explicit World(std::unique_ptr<ChoiceSource> own);
  static void run_action(void* self, std::uint64_t slot, std::uint64_t);
  void survey();  // after nodes came or went, or code outside the world touched a shard
  void look_at_timers(Node::Place& place);
  void fire_timers();
  Node::Place* pick_place();
  Waiter& pick_waiter(Node::Place& place);
  void run(Node::Place& place);

  std::unique_ptr<ChoiceSource> own_choices_;
  Clockwork clockwork_;
  SimNetwork network_;
  std::vector<std::unique_ptr<Node>> nodes_;
  std::vector<Node::Place*> running_;
  std::int64_t next_timer_ = Instant::never().ns;
  std::vector<std::function<void()>> actions_;
  std::vector<std::size_t> free_actions_;
  Duration step_cost_ = Duration::nanos(500);
  std::uint64_t steps_ = 0;
};

template <class Done>
bool World::run_until(Done done, Duration within) {
  const Instant limit = now() + within;
  survey();
  while (!done())
    if (!step(limit)) return done();
  return true;
}

}  // namespace cairn::io::sim
