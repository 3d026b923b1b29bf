// Scenario: one seed: a world of demo nodes and visitors that goes through warm-up, faults, healing, calm and
// drain, while every answer and every bound is checked.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "demo/declarations.h"
#include "io/sim/world.h"
#include "plan.h"
#include "server.h"

namespace cairn::simulator {

struct Options {
  bool verbose = false;
  // Nondeterminism on purpose, to see that the hash tells.
  bool plant_pointer = false, plant_clock = false;
};

enum class Phase : std::uint8_t { warm_up, faults, healing, calm, draining, over };

// One request, from both sides.
struct Request {
  unsigned server = 0;
  bool once = false;     // the client never sends it twice
  bool fragile = false;  // the client may leave before its answer
  bool unnamed = false;  // with an id that is not fit to be echoed
  std::uint8_t seen = 0, started = 0, done = 0;
  Instant issued{};
};

struct Report {
  std::uint64_t seed = 0, hash = 0, steps = 0, completed = 0;
  Duration simulated{};
  std::string violation;  // empty: none
};

// The order in which a table hashed by address would be walked.
struct ByAddress {
  static std::uint64_t hash(const unsigned* pointer) noexcept {
    return reinterpret_cast<std::uintptr_t>(pointer) * 0x9e3779b97f4a7c15u;
  }
  bool operator()(const unsigned* a, const unsigned* b) const noexcept { return hash(a) < hash(b); }
};

// The configuration's declarations, made once and shared by all seeds.
struct Declarations {
  config::Schema schema;
  demo::Keys keys = demo::declare_keys(schema);
};

class Scenario {
 public:
  Scenario(std::uint64_t seed, const Declarations& declarations, Options options, io::sim::Probes& probes);
  ~Scenario();
  Report run();

  // --- for the parts
  const Plan& plan() const noexcept { return plan_; }
  const Declarations& declarations() const noexcept { return declarations_; }
  io::sim::World& world() noexcept { return *world_; }
  Random& random() noexcept { return random_; }  // of the faults
  Phase phase() const noexcept { return phase_; }
  std::vector<std::unique_ptr<Server>>& servers() noexcept { return servers_; }
  void hit(io::sim::Tag probe) { world_->probes().hit(probe); }

  std::uint32_t open_request(unsigned server, bool once);
  Request& request(std::uint32_t id) { return requests_[id]; }
  // By its correlation id; null: not one of ours.
  Request* find_request(std::string_view corr);
  // Nothing has been wrong in the world since the request was made.
  bool was_calm(const Request& request) const noexcept {
    return (phase_ == Phase::warm_up || phase_ == Phase::calm || phase_ == Phase::draining) &&
           request.issued >= calm_since_;
  }
  // One request was answered, and the answer was judged.
  void answered(std::uint64_t fact) noexcept {
    ++completed_;
    world_->clockwork().fold(fact);
  }
  // The first one ends the run.
  void violate(std::string what);
  bool violated() const noexcept { return !violation_.empty(); }
  Duration planted_noise();

  // A visitor has been served by every node after the healing.
  void converged(unsigned visitor) { waiting_.erase(visitor); }
  bool has_converged(unsigned visitor) const { return !waiting_.contains(visitor); }
  void explain(unsigned visitor, std::string why) { pending_[visitor] = std::move(why); }

 private:
  void build();
  void run_for(Duration span);
  void heal();
  void converge();
  void drain_all();
  void audit();
  void watch();  // checks the bounds every so often

  std::uint64_t seed_;
  const Declarations& declarations_;
  Options options_;
  io::sim::Probes& probes_;
  Plan plan_;
  Random random_;
  std::unique_ptr<io::sim::World> world_;
  std::vector<std::unique_ptr<Server>> servers_;
  std::vector<io::sim::Node*> client_machines_;
  std::shared_ptr<void> faults_;
  std::vector<Request> requests_;
  std::set<unsigned> waiting_;
  std::vector<std::string> pending_;
  Phase phase_ = Phase::warm_up;
  Instant calm_since_{};
  std::uint64_t completed_ = 0;
  std::string violation_;
  std::vector<std::unique_ptr<unsigned>> marks_;
  std::set<const unsigned*, ByAddress> marked_;
};

std::string format_corr(std::uint32_t id);

// faults.cpp: the events of the phase of faults, until `end`. What it returns outlives the world's run.
std::shared_ptr<void> schedule_faults(Scenario& scenario, std::vector<io::sim::Node*> clients, Instant end);

}  // namespace cairn::simulator
