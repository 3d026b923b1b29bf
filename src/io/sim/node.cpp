#include "io/sim/node.h"

#include <cstdio>

#include "base/check.h"

namespace cairn::io::sim {
namespace {

std::uint64_t draw_seed(Clockwork& clockwork) { return clockwork.choices.pick(0xffff'ffffu, "world.seed"); }

}  // namespace

Node::Place::Traced::Traced(Place& place) noexcept {
  place.tracer.watch(place.shard);
  place.shard.set_tracer(&place.tracer);
}

Node::Place::Place(Clockwork& clockwork, SimNetwork& net, Node& node, unsigned index)
    : tracer(clockwork, 1 + node.index_ + 64 * index + 256 * std::uint64_t{node.lives_}),
      shard(index, draw_seed(clockwork)),
      entropy(draw_seed(clockwork) + (std::uint64_t{node.lives_} << 40)),
      memory(&clockwork.choices),
      network(net, shard, node.index_),
      mailbox([] {}),
      pool(clockwork, *node.lanes_, mailbox, node.pool_faults,
           {on_pool, &node, (std::uint64_t{node.lives_} << 32) | index}),
      disk(node.disk_, pool),
      traced(*this),
      scope(shard),
      next_timer(Instant::never().ns) {
  shard.set_turns();
  shard.set_now(clockwork.now);
  shard.set_wall_offset(epoch.ms + node.skew_ms_);
}

Node::Node(Clockwork& clockwork, SimNetwork& network, std::string name, unsigned shards, Boot boot)
    : clockwork_(clockwork),
      network_(network),
      name_(std::move(name)),
      index_(network.add_node(name_)),
      shard_count_(shards),
      boot_(std::move(boot)),
      disk_(clockwork) {
  CHECK(shards >= 1 && shards <= 3);
}

Node::~Node() { CHECK(places_.empty()); }

Node::Place& Node::place(unsigned shard) noexcept {
  CHECK(shard < places_.size());
  return *places_[shard];
}

Machine Node::machine(unsigned shard) noexcept {
  Place& at = place(shard);
  return {at.shard, at.slab, at.network, at.disk, at.entropy, at.mailbox, at.pool, at.memory};
}

std::size_t Node::live_tasks() const noexcept {
  std::size_t sum = 0;
  for (const auto& place : places_) sum += place->shard.live_tasks;
  return sum;
}

void Node::start() {
  CHECK(places_.empty());
  ++lives_;
  paused_ = false;
  lanes_ = std::make_unique<SimLanes>(clockwork_, pool_faults);
  for (unsigned i = 0; i < shard_count_; ++i)
    places_.push_back(std::make_unique<Place>(clockwork_, network_, *this, i));
  if (!boot_) return;
  ShardScope here(places_.front()->shard);
  boot_(*this);
}

void Node::on_pool(void* self, std::uint64_t place, std::uint64_t what) {
  auto& node = *static_cast<Node*>(self);
  if (!node.up() || node.lives_ != place >> 32) return;
  node.places_[static_cast<std::uint32_t>(place)]->pool.turn(what);
}

std::size_t Node::under_way() const noexcept {
  std::size_t sum = disk_.under_way();
  for (const auto& place : places_) sum += place->pool.jobs();
  return sum;
}

// Until nothing is ready. An aborted wait ends at once, so that is bounded by the code between the waits.
void Node::run_tasks() {
  constexpr std::size_t patience = 10'000'000;
  std::size_t steps = 0;
  for (bool ran = true; ran;) {
    ran = false;
    for (auto& place : places_)
      for (; place->ready(); ran = true) {
        CHECK(++steps < patience);
        if (!place->shard.idle()) {
          place->shard.run_one();
          continue;
        }
        ShardScope here(place->shard);
        place->mailbox.drain();
        place->shard.end_turn();
      }
  }
}

// The completion of a job may post more mail, also to another shard.
void Node::end_jobs() {
  for (bool any = true; any;) {
    any = false;
    for (auto& place : places_) {
      ShardScope here(place->shard);
      place->pool.hurry();
      any = place->mailbox.drain() > 0 || any;
    }
  }
}

void Node::finish() {
  disk_.finish_operations();
  end_jobs();
}

void Node::tear_down() {
  for (auto& place : places_) {
    ShardScope here(place->shard);
    place->scope.abort();
  }
  run_tasks();
  for (auto& place : places_)
    place->scope.for_each_task([&](const TaskInfo& task) {
      check_failed((name_ + ": task '" + task.name + "' outlived its abort").c_str(), __FILE__, __LINE__);
    });
  CHECK(live_tasks() == 0);
  if (under_way() > 0) clockwork_.probes.hit("world.job_at_the_end");
  end_jobs();
  // Operations whose waiter has left may still hold memory of the program.
  disk_.abandon_operations();
  {
    ShardScope here(places_.front()->shard);
    while (!kept_.empty()) kept_.pop_back();
  }
  places_.clear();
  lanes_.reset();
}

}  // namespace cairn::io::sim
