// One tenant's ten thousand requests, and another's beside them, through the whole gateway in simulated time.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "services/gateway/simulated_gateway.h"

namespace cairn::gateway {
namespace {

using io::sim::Guest;
using Reply = ScriptedUpstream::Reply;

// Every request takes the upstream 10 ms.
std::optional<Reply> slow(const std::string& got) {
  if (!got.ends_with("\r\n\r\n")) return std::nullopt;
  return Reply{.bytes = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", .after = Duration::millis(10)};
}

struct Flooded {
  Flooded()
      : gateway({.inside = false,
                 .settings = {{"server.max_rps", "100000"}, {"server.max_conns_per_ip", "512"}},
                 .keys = keys()}),
        upstream(gateway.world, gateway.behind, SimulatedGateway::behind_port, slow) {}
  ~Flooded() {
    gateway.drain(Duration::millis(1));
    gateway.world.run_until([this] { return gateway.ended; });
    gateway.world.crash(gateway.behind);
  }
  Flooded(const Flooded&) = delete;
  Flooded& operator=(const Flooded&) = delete;

  // The 99th percentile of one request after the other.
  Duration p99(Guest& guest, const std::string& request) {
    std::vector<Duration> all;
    for (int i = 0; i < 300; ++i) {
      const Instant begun = gateway.world.now();
      EXPECT_EQ(guest.ask(request).status, 200);
      all.push_back(gateway.world.now() - begun);
    }
    std::ranges::sort(all);
    return all[all.size() * 99 / 100];
  }

  SimulatedGateway gateway;
  ScriptedUpstream upstream;
};

TEST(Flood, ten_thousand_requests_of_one_leave_the_p99_of_another_within_twice_its_quiet_value) {
  constexpr int connections = 200, each = 50;
  Flooded world;
  const std::string of_alice = get("/o/a", bearer({"tenant = alice"})),
                    of_bob = get("/o/b", bearer({"tenant = bob"}));
  Guest bob = world.gateway.connect();
  const Duration quiet = world.p99(bob, of_bob);
  std::deque<Guest> flood;
  std::string burst;
  for (int i = 0; i < each; ++i) burst += of_alice;
  for (int i = 0; i < connections; ++i)
    flood
        .emplace_back(world.gateway.world, world.gateway.away,
                      io::Endpoint{"host", SimulatedGateway::port, {}})
        .send(burst);
  EXPECT_LE(world.p99(bob, of_bob).ns, 2 * quiet.ns);
  EXPECT_GT(world.gateway.metric(R"(gateway_drr_queue_depth{tenant="other"})"), 100)
      << "the flood was over before it was measured";
  std::size_t answered = 0;
  for (Guest& one : flood)
    for (int i = 0; i < each; ++i) answered += one.answer().status == 200 ? 1 : 0;
  EXPECT_EQ(answered, std::size_t{connections} * each);
}

}  // namespace
}  // namespace cairn::gateway
