// The events of the phase of faults: each at a random moment, each undone after a while; the healing undoes
// what is left.
#include "scenario.h"

namespace cairn::simulator {
namespace {

using io::sim::Crash;

class Faults {
 public:
  Faults(Scenario& scenario, std::vector<io::sim::Node*> clients)
      : scenario_(scenario),
        world_(scenario.world()),
        random_(scenario.random()),
        clients_(std::move(clients)) {}

  void schedule(Instant end) {
    const Plan& plan = scenario_.plan();
    if (plan.chaos.empty()) return;
    Instant at = world_.now();
    for (;;) {
      at = at + Duration{static_cast<std::int64_t>(below(static_cast<std::uint64_t>(2 * plan.chaos_gap.ns)))};
      if (at >= end) return;
      const Chaos what = plan.chaos[below(plan.chaos.size())];
      Server& server = *scenario_.servers()[below(scenario_.servers().size())];
      io::sim::Node& client = *clients_[below(clients_.size())];
      // Drawn now, so that what happens does not depend on what else happens.
      const Duration lasting =
          Duration::millis(50 + static_cast<std::int64_t>(below(below(4) == 0 ? 5000 : 800)));
      const std::uint64_t dice = random_.next();
      world_.at(at, [=, this, &server, &client] {
        if (scenario_.phase() == Phase::faults) happen(what, server, client, lasting, dice);
      });
    }
  }

 private:
  std::uint64_t below(std::uint64_t bound) { return random_.below(bound); }

  void happen(Chaos what, Server& server, io::sim::Node& client, Duration lasting, std::uint64_t dice) {
    io::sim::SimNetwork& network = world_.network();
    io::sim::Node& node = server.node();
    const unsigned a = node.index();
    const unsigned b = across(server, client, dice);
    switch (what) {
      case Chaos::cut_one_way:
        dice % 2 == 0 ? network.cut(a, b) : network.cut(b, a);
        world_.after(lasting, [&network, a, b] {
          network.heal(a, b);
          network.heal(b, a);
        });
        return;
      case Chaos::cut_both_ways:
        network.partition(a, b);
        world_.after(lasting, [&network, a, b] {
          network.heal(a, b);
          network.heal(b, a);
        });
        return;
      case Chaos::freeze:
        network.freeze(dice % 2 == 0 ? a : b);
        world_.after(lasting, [&network] { network.heal(); });
        return;
      case Chaos::pause:
        if (!node.up()) return;
        server.disturbed();
        world_.pause(node);
        world_.after(lasting, [this, &node, life = node.lives()] {
          if (node.up() && node.lives() == life) world_.resume(node);
        });
        return;
      case Chaos::power_cut:
        return down(server, Crash::power, lasting);
      case Chaos::kill:
        return down(server, Crash::process, lasting);
      case Chaos::second_signal:
        server.drain();
        world_.after(Duration{lasting.ns % 500'000'000}, [&server] { server.second_signal(); });
        return;
      case Chaos::graceful_restart:
        return server.drain();
      case Chaos::reset_all:
        return network.reset_all(a);
      case Chaos::vanish_all:
        return network.vanish_all(dice % 2 == 0 ? a : b);
      case Chaos::skew:
        scenario_.hit("sim.clock_skew");
        world_.set_clock_skew(node, Duration::millis(static_cast<std::int64_t>(dice % 20'000) - 10'000));
        return;
      case Chaos::disk_stall:
        return node.disk().stall(lasting);
      case Chaos::disk_nth_call:
        return fail_a_call(node, dice);
      case Chaos::disk_rot:
        if (scenario_.plan().disk_lies) (void)node.disk().rot_somewhere();
        return;
      case Chaos::disk_full:
        node.disk().set_capacity(node.disk().used() + dice % 3000);
        world_.after(lasting, [&node] { node.disk().set_capacity(std::uint64_t{1} << 40); });
        return;
      case Chaos::reload: {
        Random random(dice);
        return server.reload(scenario_.draw_reload(server, random));
      }
      case Chaos::rebind:
        return server.rebind();
      default:
        if (!client.up()) return;
        scenario_.hit("sim.client_power_cut");
        world_.crash(client, Crash::power);
        world_.after(lasting, [this, &client] {
          if (!client.up()) world_.restart(client);
        });
    }
  }

  // Who is at the other end of what is cut: a client, or one of those that the server asks or is asked by.
  unsigned across(Server& server, io::sim::Node& client, std::uint64_t dice) {
    const std::size_t doors = scenario_.doors(), all = scenario_.servers().size();
    if (doors == all || (server.number() < doors && dice / 2 % 2 == 0)) return client.index();
    const std::size_t from = server.number() < doors ? doors : 0;
    const std::size_t count = server.number() < doors ? all - doors : doors;
    return scenario_.servers()[from + dice / 4 % count]->node().index();
  }

  void down(Server& server, Crash how, Duration lasting) {
    if (!server.up()) return;
    server.crash(how);
    world_.after(lasting, [&server] { server.restart(); });
  }

  void fail_a_call(io::sim::Node& node, std::uint64_t dice) {
    using io::sim::DiskCall;
    using io::sim::DiskFailure;
    if (!scenario_.plan().disk_fails) return;
    constexpr DiskCall calls[] = {DiskCall::open,      DiskCall::read,   DiskCall::write,
                                  DiskCall::sync_data, DiskCall::rename, DiskCall::sync_directory};
    constexpr DiskFailure ways[] = {DiskFailure::error, DiskFailure::full, DiskFailure::partial};
    const DiskCall call = calls[dice % std::size(calls)];
    // A partial effect is a matter of writes only.
    const DiskFailure how = ways[dice / 7 % (call == DiskCall::write ? 3 : 2)];
    node.disk().fail_call(call, 1 + dice / 64 % 3, how);
  }

  Scenario& scenario_;
  io::sim::World& world_;
  Random& random_;
  std::vector<io::sim::Node*> clients_;
};

}  // namespace

std::shared_ptr<void> schedule_faults(Scenario& scenario, std::vector<io::sim::Node*> clients, Instant end) {
  auto faults = std::make_shared<Faults>(scenario, std::move(clients));
  faults->schedule(end);
  return faults;
}

}  // namespace cairn::simulator
