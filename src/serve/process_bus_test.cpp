#include "serve/process_bus.h"

#include <gtest/gtest.h>

#include "io/sim/world.h"
#include "serve/bus.h"

namespace cairn::serve {
namespace {

struct Heard {
  std::vector<std::uint64_t> versions;
  std::string service;
};

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the test outlives it
Task<> listen(Call call, ProcessBus& bus, unsigned shard, Heard& heard) {
  auto receiver = bus.events(shard).subscribe();
  while (auto event = co_await receiver.recv(call)) {
    heard.versions.push_back(event->version);
    heard.service = event->service;
  }
}

TEST(ProcessBus, an_event_is_heard_by_every_service_on_every_shard) {
  io::sim::World world(1);
  io::sim::Node& host = world.add_node("host", 3);
  ProcessBus bus;
  std::vector<io::Machine> machines;
  for (unsigned i = 0; i < 3; ++i) machines.push_back(host.machine(i));
  for (io::Machine& machine : machines) {
    bus.attach(machine.shard, machine.mailbox);
    bus.attach(machine.shard, machine.mailbox);  // of another service
  }
  std::vector<Heard> heard(6);
  for (unsigned i = 0; i < 6; ++i) {
    ShardScope here(host.shard(i % 3));
    host.scope(i % 3).spawn("listener", listen(host.scope(i % 3).call(), bus, i % 3, heard[i]));
  }
  world.run_for(Duration::millis(1));
  {
    ShardScope here(host.shard(1));
    Bus one(host.shard(1), nullptr, bus, "registry");
    for (std::uint64_t version : {7u, 8u}) one.publish({Event::Kind::registry_updated, version});
  }
  world.run_for(Duration::millis(1));
  for (const Heard& each : heard) {
    EXPECT_EQ(each.versions, (std::vector<std::uint64_t>{7, 8}));
    EXPECT_EQ(each.service, "registry");
  }
  EXPECT_EQ(bus.lost(0), 0u);
  world.stop();
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the test outlives it
Task<> wait_for_update(Call call, ProcessBus& bus, Result<Event>& got, Instant& at) {
  auto receiver = bus.events(0).subscribe();
  got = co_await next_of(call.within(Duration::seconds(2)), receiver, Event::Kind::registry_updated);
  at = current_shard()->now();
}

// Keys that are revoked are looked for at the latest then, whatever else happens.
TEST(ProcessBus, who_waits_for_one_kind_of_event_waits_no_longer_for_the_others) {
  io::sim::World world(1);
  io::sim::Node& host = world.add_node("host");
  io::Machine machine = host.machine();
  ProcessBus bus;
  bus.attach(machine.shard, machine.mailbox);
  const auto publish = [&](Event::Kind kind) {
    ShardScope here(host.shard());
    bus.publish({kind, 1});
  };
  const auto wait = [&](Result<Event>& got, Instant& at) {
    ShardScope here(host.shard());
    host.scope().spawn("waiter", wait_for_update(host.scope().call(), bus, got, at));
  };
  Result<Event> got = fail(ErrorCode::internal, "not yet");
  Instant at{};
  const Instant begun = world.now();
  wait(got, at);
  for (int i = 0; i < 10; ++i) {
    world.run_for(Duration::millis(500));
    publish(Event::Kind::registry_audited);
  }
  EXPECT_TRUE(!got && got.error().code == ErrorCode::timeout);
  EXPECT_EQ((at - begun).to_millis(), 2000);
  wait(got, at);
  world.run_for(Duration::millis(500));
  publish(Event::Kind::registry_audited);
  publish(Event::Kind::registry_updated);
  world.run_for(Duration::millis(1));
  EXPECT_TRUE(got && got->kind == Event::Kind::registry_updated);
  world.stop();
}

TEST(ProcessBus, what_finds_a_full_mailbox_is_counted_as_lost_there) {
  io::sim::World world(1);
  io::sim::Node& host = world.add_node("host", 2);
  ProcessBus bus;
  std::vector<io::Machine> machines;
  for (unsigned i = 0; i < 2; ++i) machines.push_back(host.machine(i));
  for (io::Machine& machine : machines) bus.attach(machine.shard, machine.mailbox);
  {
    ShardScope here(host.shard(0));
    for (std::size_t i = 0; i < Mailbox::default_call_capacity + 3; ++i)
      bus.publish({Event::Kind::registry_updated, i});
  }
  EXPECT_EQ(bus.lost(0), 0u);
  EXPECT_EQ(bus.lost(1), 3u);
  world.stop();
}

}  // namespace
}  // namespace cairn::serve
