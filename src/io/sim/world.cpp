#include "io/sim/world.h"

#include <algorithm>

#include "base/check.h"

namespace cairn::io::sim {

World::World(std::unique_ptr<ChoiceSource> own)
    : own_choices_(std::move(own)), clockwork_(*own_choices_), network_(clockwork_) {
  clockwork_.probes.declare(
      {"world.power_cut", "world.process_killed", "world.restart", "world.paused", "world.job_at_the_end"});
}
World::World(std::uint64_t seed) : World(std::make_unique<RandomChoices>(seed)) {}
World::World(ChoiceSource& choices) : clockwork_(choices), network_(clockwork_) {
  clockwork_.probes.declare(
      {"world.power_cut", "world.process_killed", "world.restart", "world.paused", "world.job_at_the_end"});
}

void World::stop() {
  for (auto& node : nodes_) {
    if (!node->up()) continue;
    network_.power_off(node->index());
    node->disk().cut();
    node->tear_down();
  }
  survey();
}

// --- nodes

Node& World::add_node(std::string name, unsigned shards, Boot boot) {
  nodes_.push_back(
      std::unique_ptr<Node>(new Node(clockwork_, network_, std::move(name), shards, std::move(boot))));
  nodes_.back()->start();
  survey();
  return *nodes_.back();
}

void World::crash(Node& node, Crash how) {
  CHECK(current_shard() == nullptr);
  if (!node.up()) return;
  clockwork_.probes.hit(how == Crash::power ? Tag("world.power_cut") : Tag("world.process_killed"));
  if (how == Crash::power)
    network_.power_off(node.index());
  else
    network_.kill(node.index());
  node.disk().cut();
  node.tear_down();
  if (how == Crash::power) node.disk().lose_unsynced();
  survey();
}

void World::crash_soon(Node& node, Crash how) {
  node.disk().cut();
  if (how == Crash::power)
    network_.power_off(node.index());
  else
    network_.kill(node.index());
  const std::uint32_t life = node.lives();
  at(now(), [this, &node, how, life] {
    if (node.lives() == life) crash(node, how);
  });
}

void World::restart(Node& node) {
  CHECK(current_shard() == nullptr && !node.up());
  clockwork_.probes.hit("world.restart");
  node.disk().power_on();
  network_.power_on(node.index());
  node.start();
  survey();
}

void World::pause(Node& node) {
  clockwork_.probes.hit("world.paused");
  node.paused_ = true;
  survey();
}

void World::resume(Node& node) {
  node.paused_ = false;
  survey();
}

void World::set_clock_skew(Node& node, Duration skew) {
  const std::int64_t before = node.skew_ms_;
  node.skew_ms_ = skew.to_millis();
  for (auto& place : node.places_)
    place->shard.set_wall_offset(place->shard.wall().ms - place->shard.now().ns / 1'000'000 + node.skew_ms_ -
                                 before);
}

std::size_t World::live_tasks() const noexcept {
  std::size_t sum = 0;
  for (const auto& node : nodes_) sum += node->live_tasks();
  return sum;
}

// --- running

void World::at(Instant when, std::function<void()> action) {
  if (free_actions_.empty()) {
    free_actions_.push_back(actions_.size());
    actions_.emplace_back();
  }
  const std::size_t slot = free_actions_.back();
  free_actions_.pop_back();
  actions_[slot] = std::move(action);
  const Duration delay = when > now() ? when - now() : Duration{0};
  clockwork_.after(delay, run_action, this, slot);
}

void World::run_action(void* self, std::uint64_t slot, std::uint64_t) {
  auto& world = *static_cast<World*>(self);
  const std::function<void()> action = std::move(world.actions_[slot]);
  world.free_actions_.push_back(slot);
  action();
  world.survey();
}

void World::survey() {
  running_.clear();
  next_timer_ = Instant::never().ns;
  for (auto& node : nodes_) {
    if (node->paused_) continue;
    for (auto& place : node->places_) {
      running_.push_back(place.get());
      place->shard.set_now(clockwork_.now);
      place->until_look = 0;
      look_at_timers(*place);
    }
  }
}

void World::look_at_timers(Node::Place& place) {
  place.next_timer = place.shard.timers().next_due().ns;
  next_timer_ = std::min(next_timer_, place.next_timer);
}

void World::fire_timers() {
  next_timer_ = Instant::never().ns;
  for (Node::Place* place : running_) {
    if (place->next_timer <= clockwork_.now.ns) {
      place->shard.advance(clockwork_.now);
      look_at_timers(*place);
    }
    next_timer_ = std::min(next_timer_, place->next_timer);
  }
}

Node::Place* World::pick_place() {
  std::uint32_t ready = 0;
  for (Node::Place* place : running_) ready += place->ready() ? 1 : 0;
  if (ready == 0) return nullptr;
  std::uint32_t chosen = clockwork_.choices.pick(ready, "world.shard");
  for (Node::Place* place : running_)
    if (place->ready() && chosen-- == 0) return place;
  return nullptr;
}

// Any ready wait, evenly. The queue is a list: with many ready it is read once for several draws (a ready
// wait stays ready until it runs, so what was read remains true).
Waiter& World::pick_waiter(Node::Place& place) {
  if (place.until_look == 0) {
    place.drawn.clear();
    place.shard.for_each_ready([&](Waiter& waiter) { place.drawn.push_back(&waiter); });
    place.until_look = 1 + place.drawn.size() / 32;
  }
  --place.until_look;
  const std::uint32_t at =
      clockwork_.choices.pick(static_cast<std::uint32_t>(place.drawn.size()), "world.task");
  Waiter& waiter = *place.drawn[at];
  place.drawn.erase(place.drawn.begin() + at);
  return waiter;
}

// A task's turn, the mail, or the end of the loop's turn: a loop may come to any of them first.
void World::run(Node::Place& place) {
  const bool idle = place.shard.idle();
  if (place.mailbox.has_mail() && (idle || clockwork_.choices.pick(2, "world.mail") == 0)) {
    ShardScope here(place.shard);
    place.mailbox.drain();
  } else if (place.shard.next_turn_wanted() && (idle || clockwork_.choices.pick(2, "world.turn") == 0)) {
    place.shard.end_turn();
  } else if (!idle) {
    place.shard.run(pick_waiter(place));
  }
}

bool World::step(Instant limit) {
  if (clockwork_.now >= limit) return false;
  if (clockwork_.events.next_due() <= clockwork_.now.ns) {
    const Event event = clockwork_.events.pop();
    ++clockwork_.events_run;
    clockwork_.fold(event.sequence ^ (static_cast<std::uint64_t>(event.due) << 16));
    event.handler(event.target, event.a, event.b);
    return true;
  }
  if (next_timer_ <= clockwork_.now.ns) fire_timers();
  if (Node::Place* place = pick_place()) {
    ++steps_;
    place->shard.set_now(clockwork_.now);
    run(*place);
    look_at_timers(*place);
    clockwork_.now = clockwork_.now + step_cost_;
    return true;
  }
  const std::int64_t next = std::min(clockwork_.events.next_due(), next_timer_);
  if (next == Instant::never().ns) return false;
  clockwork_.now = {std::min(std::max(next, clockwork_.now.ns), limit.ns)};
  return next <= limit.ns;
}

void World::run_until(Instant when) {
  survey();
  while (step(when)) {
  }
  if (clockwork_.now < when) clockwork_.now = when;
  survey();
}

bool World::run_to_rest(Duration within) {
  const Instant limit = now() + within;
  survey();
  while (step(limit)) {
  }
  return now() < limit;
}

}  // namespace cairn::io::sim
