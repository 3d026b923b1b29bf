// Scenario: one seed: a world of nodes of one service and of its clients that goes through warm-up, faults,
// healing, calm and drain, while every answer and every bound is checked. What is served, what is asked and
// what must come of it is each kind's own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "answer.h"
#include "config/snapshot.h"
#include "http/client.h"
#include "io/sim/world.h"
#include "plan.h"
#include "serve/node.h"
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
  unsigned life = 0;     // of the node when it was made
  bool once = false;     // the client never sends it twice
  bool fragile = false;  // the client may leave before its answer
  bool unnamed = false;  // with an id that is not fit to be echoed
  std::uint8_t seen = 0, started = 0, done = 0;
  std::uint8_t passed = 0;  // started by who is behind the one that was asked
  Instant issued{};

  unsigned times() const noexcept { return started > passed ? started : passed; }
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

class Scenario {
 public:
  Scenario(std::uint64_t seed, Plan plan, Options options, io::sim::Probes& probes);
  virtual ~Scenario();
  Scenario(const Scenario&) = delete;
  Scenario& operator=(const Scenario&) = delete;
  Report run();

  // --- what its kind decides
  // For one life of a node.
  virtual std::unique_ptr<serve::Service> make_service(Server& server) = 0;
  virtual const config::ServerKeys& server_keys(unsigned server) const noexcept = 0;
  virtual config::SnapshotPtr load(unsigned server, const Limits& limits, std::uint64_t version) const = 0;
  // Makes a client's program on its machine.
  virtual void add_client(io::sim::Node& machine, unsigned number, std::uint64_t seed) = 0;
  // How many of the servers are asked by clients: the first ones. The others are behind them.
  virtual std::size_t doors() const noexcept { return servers_.size(); }
  virtual std::vector<serve::PeerTarget> peers(const Server& server) {
    (void)server;
    return {};
  }
  virtual serve::Access access(const Server& server) {
    (void)server;
    return {.open = true};
  }
  // Before the shard listens.
  virtual void prepare(const Server& server, serve::Node& node, unsigned shard) {
    (void)server, (void)node, (void)shard;
  }
  // What a reload may bring.
  virtual Limits draw_reload(const Server& server, Random& random) const {
    (void)server;
    return draw_limits(random, plan_.tiny);
  }
  // What a client's request has beside what it asks for.
  virtual void dress(http::ClientRequest& request, unsigned client) { (void)request, (void)client; }
  virtual std::shared_ptr<const io::TlsClient> tls_client() { return nullptr; }
  // That answer is the doing of who is behind the one that was asked, and is right.
  virtual bool explains(const Request& request, const Answer& answer) {
    (void)request, (void)answer;
    return false;
  }
  // Why the way to who keeps something cannot be called well yet, though the faults are over; empty: it can.
  virtual std::string find_ill(const Server& keeper) {
    (void)keeper;
    return {};
  }
  // In good times a client that waits for so long does not wait in vain.
  virtual Duration answers_within() const noexcept { return Duration::seconds(1'000'000); }
  // What a node that has nothing to do still holds; empty: nothing.
  // `ended`: it has drained.
  virtual std::string find_left(const Server& server, serve::Node& node, bool ended) {
    (void)server, (void)node, (void)ended;
    return {};
  }
  // What is on a node's disk before its first start.
  virtual void furnish(io::sim::SimDisk& disk) { (void)disk; }
  // The life of who keeps what is asked for there.
  virtual unsigned life_behind(unsigned server) const noexcept { return servers_[server]->lives(); }
  // A task beside the service; it ends when its node drains.
  virtual bool accompanied() const noexcept { return false; }
  virtual Task<> accompany(Call call, Server& server, io::Machine& machine) {
    (void)call, (void)server, (void)machine;
    co_return;
  }
  // The node was crashed, or has ended: what its disk holds now.
  virtual void look_at_disk(Server& server, bool power) { (void)server, (void)power; }
  // The faults are over.
  virtual void healed() {}
  // Since then every client was served: before good times are counted on.
  virtual void settle() {}
  // All nodes have ended. May start machines of its own.
  virtual void audit() {}
  // A node that could not start is started again; only then may it fail to.
  virtual bool may_fail_to_start() const noexcept { return false; }
  // How long a request may be under way on a node beyond its deadline; never: it is not looked at.
  virtual Duration overrun() const noexcept { return Duration{Instant::never().ns}; }

  // --- for the parts
  const Plan& plan() const noexcept { return plan_; }
  io::sim::World& world() noexcept { return *world_; }
  Random& random() noexcept { return random_; }  // of the faults
  Phase phase() const noexcept { return phase_; }
  std::vector<std::unique_ptr<Server>>& servers() noexcept { return servers_; }
  // Somebody was told that the node needs help: now and then an operator starts it again.
  void complained_of(Server& server);
  // One of them is leaving, or has left.
  bool any_leaves() const noexcept;
  Instant last_drain() const noexcept;  // of any of them
  Instant healed_since() const noexcept { return healed_since_; }
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

 protected:
  void run_for(Duration span);

 private:
  void build();
  void heal();
  void converge();
  void drain_all();
  void audit_requests();
  void watch();  // checks the bounds every so often

  std::uint64_t seed_;
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
  Instant healed_since_{};
  std::uint64_t completed_ = 0;
  std::string violation_;
  std::vector<std::unique_ptr<unsigned>> marks_;
  std::set<const unsigned*, ByAddress> marked_;
};

std::string format_corr(std::uint32_t id);

// A kind of scenario: what `--scenario` names.
struct Kind {
  std::string_view name;
  std::string_view about;
  std::unique_ptr<Scenario> (*make)(std::uint64_t seed, Options options, io::sim::Probes& probes);
  double least_rate, least_speed;              // of many seeds
  std::span<const std::string_view> not_used;  // probes that it cannot reach
};
std::span<const Kind> kinds();
const Kind* find_kind(std::string_view name);

// faults.cpp: the events of the phase of faults, until `end`. What it returns outlives the world's run.
std::shared_ptr<void> schedule_faults(Scenario& scenario, std::vector<io::sim::Node*> clients, Instant end);

}  // namespace cairn::simulator
