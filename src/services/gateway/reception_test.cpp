// How the gateway admits requests for their tenants, in a simulated world.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "services/gateway/simulated_gateway.h"

namespace cairn::gateway {
namespace {

using io::sim::Answer;
using io::sim::Guest;
using testing::HasSubstr;
using testing::Not;

TEST(Reception, a_quota_is_told_in_every_answer_and_kept) {
  SimulatedGateway gateway({.settings = {{"quota.rps", "2"}}});
  Guest guest = gateway.connect();
  Answer answer = guest.ask(get("/o/object"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.field("RateLimit-Limit"), "2");
  EXPECT_EQ(answer.field("RateLimit-Remaining"), "1");
  EXPECT_EQ(answer.field("RateLimit-Reset"), "1");
  EXPECT_EQ(guest.ask(get("/o/nothing")).field("RateLimit-Remaining"), "0");
  answer = guest.ask(get("/o/object"));
  EXPECT_EQ(answer.status, 429);
  EXPECT_THAT(answer.body, HasSubstr("\"quota\""));
  EXPECT_EQ(answer.field("RateLimit-Remaining"), "0");
  EXPECT_EQ(answer.field("Retry-After"), "1");
  EXPECT_EQ(gateway.metric(R"(gateway_quota_exhaustions_total{tenant="other"})"), 1);
  EXPECT_EQ(gateway.metric(R"(rejected_total{reason="quota"})"), 1);
  EXPECT_EQ(guest.ask(get("/healthz")).status, 200) << "health is nobody's quota";
  guest.run_for(Duration::seconds(1));
  EXPECT_EQ(guest.ask(get("/o/object")).status, 200);
}

TEST(Reception, the_days_bytes_count_bodies_both_ways) {
  SimulatedGateway gateway({.settings = {{"quota.bytes_per_day", "5000B"}}});
  Guest guest = gateway.connect();
  EXPECT_EQ(guest.ask(get("/o/object")).status, 200);  // 1,024 bytes
  EXPECT_EQ(guest.ask(post("/o", std::string(1500, 'x'))).status, 201);
  EXPECT_EQ(guest.ask(get("/o/object")).field("RateLimit-Remaining"), "976");
  const Answer spent = guest.ask(get("/o/object"));
  EXPECT_EQ(spent.status, 429);
  EXPECT_EQ(spent.field("RateLimit-Limit"), "5000");
}

std::string head_of(std::string_view path) {
  return fmt::format("HEAD {} HTTP/1.1\r\nHost: h\r\n\r\n", path);
}

// GR-2
TEST(Reception, a_body_that_is_not_sent_costs_nothing) {
  for (const bool over_connection : {false, true}) {
    SimulatedGateway gateway(
        {.over_connection = over_connection, .settings = {{"quota.bytes_per_day", "8MiB"}}});
    gateway.plain.state.object.assign(std::size_t{4} << 20, 'x');
    Guest guest = gateway.connect();
    const auto units = [&] { return gateway.metric(R"(drr_served_units_total{tenant="other"})"); };
    guest.send(head_of("/o/object"));
    const Answer head = guest.answer(true);
    EXPECT_EQ(head.field("Content-Length"), "4194304");
    EXPECT_EQ(units(), 1);
    guest.send(head_of("/o/object"));
    EXPECT_EQ(guest.answer(true).field("RateLimit-Remaining"), "8388608");
    EXPECT_EQ(guest.ask(get("/o/object", "If-None-Match: \"one\"\r\n")).status, 304);
    EXPECT_EQ(units(), 3);
    EXPECT_EQ(guest.ask(get("/o/object")).status, 200);
    EXPECT_EQ(units(), 3 + 64) << "a unit for each 64 KiB";
    guest.send(head_of("/o/object"));
    EXPECT_EQ(guest.answer(true).field("RateLimit-Remaining"), "4194304");
  }
}

TEST(Reception, without_turns_by_weight_units_are_counted_all_the_same) {
  SimulatedGateway gateway(
      {.settings = {{"drr.enabled", "false"}, {"drr.tenant_quanta", "alice=2"}}, .keys = keys()});
  Guest guest = gateway.connect();
  EXPECT_EQ(guest.ask(get("/o/object", bearer({"tenant = alice"}))).status, 200);
  EXPECT_EQ(guest.ask(post("/o", std::string(70'000, 'x'), bearer({"tenant = alice"}))).status, 201);
  EXPECT_EQ(gateway.metric(R"(drr_served_units_total{tenant="alice"})"), 1 + 2 + 1)
      << "and one for what came back";
}

TEST(Reception, a_request_costs_its_body_and_what_its_answer_has_beyond_its_price) {
  SimulatedGateway gateway;
  EXPECT_EQ(gateway.ask(post("/o", std::string(200 * 1024, 'x'))).status, 201);
  // One, and three whole steps of 64 KiB of the body; of the answer, all but the first step, which was begun
  // thrice.
  EXPECT_EQ(gateway.metric(R"(drr_served_units_total{tenant="other"})"), 1 + 3 + 3);
}

TEST(Reception, a_bad_token_is_refused_before_anything_and_a_genuine_one_is_its_tenants) {
  SimulatedGateway gateway({.settings = {{"quota.tenants", "alice=1/0B"}}, .keys = keys()});
  Guest guest = gateway.connect();
  EXPECT_EQ(guest.ask(get("/o/object", "Authorization: Bearer abcdef\r\n")).status, 401);
  EXPECT_EQ(gateway.plain.state.asked, 0);
  const std::string alice = bearer({"tenant = alice"});
  EXPECT_EQ(guest.ask(get("/o/object", alice)).field("RateLimit-Limit"), "1");
  EXPECT_EQ(guest.ask(get("/o/object", alice)).status, 429);
  EXPECT_EQ(gateway.metric(R"(gateway_quota_exhaustions_total{tenant="alice"})"), 1);
  EXPECT_EQ(guest.ask(get("/o/object", bearer({"tenant = bob"}))).status, 200);
  EXPECT_EQ(guest.ask(get("/o/object", bearer({}))).status, 200)
      << "a token without a tenant is its address's";
}

// GR-1
TEST(Reception, a_token_that_its_bearer_cannot_use_is_its_addresss) {
  SimulatedGateway gateway({.settings = {{"quota.tenants", "alice=1/0B"}}, .keys = keys()});
  Guest guest = gateway.connect();
  const auto is_alice = [&](std::initializer_list<const char*> caveats) {
    const Answer answer = guest.ask(get("/o/object", bearer(caveats)));
    EXPECT_EQ(answer.status, 200) << "no capability is asked for here";
    return answer.field("RateLimit-Limit") == "1";
  };
  EXPECT_FALSE(is_alice({"tenant = alice", "expires < 1970-01-01T00:00:00Z"}));
  EXPECT_FALSE(is_alice({"tenant = alice", "ip = 192.0.2.1/32"}));
  EXPECT_FALSE(is_alice({"tenant = alice", "tenant = bob"}));
  EXPECT_FALSE(is_alice({"tenant = bob", "tenant = alice"}));
  EXPECT_FALSE(is_alice({"tenant = alice", "colour = red"}));
  EXPECT_FALSE(is_alice({"tenant = alice "}));
  EXPECT_TRUE(
      is_alice({"tenant = alice", "expires < 9999-01-01T00:00:00Z", "ip = ::/0", "op = storage.put"}));
}

TEST(Reception, a_tenant_that_is_no_word_has_no_name_here) {
  SimulatedGateway gateway({.keys = keys()});
  Guest guest = gateway.connect();
  for (const char* caveat :
       {"tenant = 10.0.0.0/24", "tenant = a\nb", "tenant = \x01", "tenant = ", "tenant = <b>"})
    EXPECT_EQ(guest.ask(get("/o/object", bearer({caveat}))).status, 200);
  const Answer told = guest.ask(get("/admin/tenants", bearer({"op = gateway.admin"})));
  EXPECT_THAT(told.body, HasSubstr("\"known\":1,"));
  EXPECT_THAT(told.body, Not(HasSubstr("\"kind\":\"token\"")));
}

TEST(Reception, without_keys_a_token_passes_unread) {
  SimulatedGateway gateway;
  EXPECT_EQ(gateway.ask(get("/o/object", "Authorization: Bearer abcdef\r\n")).status, 200);
}

TEST(Reception, the_tenants_are_told_to_an_administrator_only) {
  SimulatedGateway gateway({.settings = {{"drr.tenant_quanta", "alice=3"}}, .keys = keys()});
  Guest guest = gateway.connect();
  EXPECT_EQ(guest.ask(get("/admin/tenants")).status, 401);
  EXPECT_EQ(guest.ask(get("/admin/tenants", bearer({"op = storage.get"}))).status, 403);
  EXPECT_EQ(guest.ask(get("/o/object", bearer({"tenant = alice"}))).status, 200);
  const Answer told = guest.ask(get("/admin/tenants", bearer({"op = gateway.admin"})));
  EXPECT_EQ(told.status, 200);
  EXPECT_THAT(told.body, HasSubstr(R"("tenant":"alice","kind":"token","weight":3,"quantum":192)"));
  EXPECT_THAT(told.body, HasSubstr(R"("served_units":1)"));
}

TEST(Reception, the_last_minute_is_told_second_by_second) {
  SimulatedGateway gateway({.keys = keys()});
  const auto told = [&] {
    const std::string body = gateway.ask(get("/admin/tenants", bearer({"op = gateway.admin"}))).body;
    std::size_t count = 0;
    for (std::size_t at = 0; (at = body.find(R"("at":)", at)) != body.npos; ++at) ++count;
    return count;
  };
  const std::size_t before = told();
  gateway.world.run_for(Duration::seconds(10));
  const std::size_t more = told() - before;
  EXPECT_LE(more, 10u) << "not more than one a second";
  EXPECT_GE(more, 9u);
  gateway.world.run_for(Duration::seconds(100));
  EXPECT_EQ(told(), 60u);
}

TEST(Reception, without_keys_nobody_is_an_administrator) {
  SimulatedGateway gateway;
  EXPECT_EQ(gateway.ask(get("/admin/tenants")).status, 403);
}

// --- slots

const SettingTexts two_slots = {
    {"pools.workers", "1"}, {"pools.worker_slots", "2"}, {"drr.enabled", "false"}};

TEST(Reception, a_request_waits_while_every_slot_is_taken_and_504_at_its_deadline) {
  SimulatedGateway gateway({.settings = two_slots});
  Guest one = gateway.connect(), two = gateway.connect(), three = gateway.connect();
  one.send(get("/o/wait"));
  two.send(get("/o/wait"));
  gateway.world.run_for(Duration::millis(10));
  const Answer late = three.ask(get("/o/object", "Request-Timeout: 1\r\n"));
  EXPECT_EQ(late.status, 504);
  EXPECT_EQ(gateway.plain.state.asked, 2) << "it was never started";
}

TEST(Reception, a_slow_body_gives_its_slot_back_and_goes_on_without) {
  SimulatedGateway gateway({.settings = two_slots});
  Guest one = gateway.connect(), two = gateway.connect(), three = gateway.connect();
  for (Guest* slow : {&one, &two}) slow->send("POST /o HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nabc");
  gateway.world.run_for(Duration::seconds(2));
  EXPECT_EQ(three.ask(get("/o/object")).status, 200);
  for (Guest* slow : {&one, &two}) {
    slow->send("def");
    EXPECT_EQ(slow->answer().body, "abcdef");
  }
}

TEST(Reception, a_worker_that_dies_takes_its_slots_and_readiness_tells_until_it_is_back) {
  SimulatedGateway gateway({.settings = two_slots});
  Guest guest = gateway.connect();
  EXPECT_THAT(guest.ask(get("/readyz")).body, Not(HasSubstr("workers")));
  gateway.fail_task("worker");
  gateway.world.run_for(Duration::millis(1));
  const Answer down = guest.ask(get("/readyz"));
  EXPECT_EQ(down.status, 503);
  EXPECT_THAT(down.body, HasSubstr("\"slots\",\"workers\""));
  guest.run_for(Duration::seconds(10));
  EXPECT_THAT(guest.ask(get("/readyz")).body, Not(HasSubstr("workers")));
  EXPECT_EQ(guest.ask(get("/o/object")).status, 200);
}

TEST(Reception, a_gate_that_says_something_else_than_the_slots_is_mended_within_two_seconds) {
  SimulatedGateway gateway({.settings = two_slots});
  Guest guest = gateway.connect();
  gateway.health().set("workers", false);  // as by a shard that looked before another changed them
  gateway.health().set("slots", false);
  EXPECT_EQ(guest.ask(get("/readyz")).status, 503);
  guest.run_for(Duration::seconds(2));
  EXPECT_THAT(guest.ask(get("/readyz")).body, Not(HasSubstr("workers")));
  EXPECT_EQ(guest.ask(get("/readyz")).status, 200);
}

const io::Endpoint doors{"host", SimulatedGateway::port, {}};
const SettingTexts one_slot = {
    {"pools.workers", "1"}, {"pools.worker_slots", "1"}, {"timeouts.request", "60s"}};

// The drain of two seconds has its grace; nothing lasts longer.
void expect_end_in_time(SimulatedGateway& gateway) {
  const Instant begun = gateway.world.now();
  ASSERT_TRUE(gateway.world.run_until([&] { return gateway.ended; }, Duration::seconds(10)));
  EXPECT_LE(gateway.world.now() - begun, Duration::seconds(2) + Drain::grace);
}

TEST(Reception, what_waits_at_the_drain_deadline_is_503_and_what_gets_a_slot_before_is_answered) {
  SimulatedGateway gateway({.settings = one_slot});
  gateway.wait_until_it_serves();
  std::deque<Guest> guests;
  for (const char* path : {"/o/wait", "/o/object", "/o/wait", "/o/object"}) {
    guests.emplace_back(gateway.world, gateway.away, doors).send(get(path));
    gateway.world.run_for(Duration::millis(10));
  }
  gateway.drain(Duration::seconds(2));
  gateway.world.run_for(Duration::seconds(1));
  guests[0].close();
  EXPECT_EQ(guests[1].answer().status, 200);
  expect_end_in_time(gateway);
  const Answer undone = guests[3].answer();
  EXPECT_EQ(undone.status, 503);
  EXPECT_THAT(undone.body, HasSubstr("\"draining\""));
}

TEST(Reception, the_drain_deadline_holds_while_a_worker_is_gone) {
  SimulatedGateway gateway({.settings = one_slot});
  Guest one = gateway.connect(), two = gateway.connect();
  one.send(get("/o/wait"));
  gateway.world.run_for(Duration::millis(10));
  two.send(get("/o/object"));
  gateway.world.run_for(Duration::millis(10));
  gateway.drain(Duration::seconds(2));
  gateway.fail_task("worker");
  expect_end_in_time(gateway);
  EXPECT_THAT(two.answer().body, HasSubstr("\"draining\""));
}

// --- what is shed

// As many of alice's requests wait as make the pressure shed changes.
void fill_the_queue(SimulatedGateway& gateway, const std::string& alice, std::deque<Guest>& waiting) {
  gateway.wait_until_it_serves();
  while (gateway.metric(R"(queue_depth{queue="work"})") < 7 && waiting.size() < 20) {
    waiting.emplace_back(gateway.world, gateway.away, doors).send(get("/o/wait", alice));
    gateway.world.run_for(Duration::millis(10));
  }
  gateway.world.run_for(Duration::seconds(1));
}

TEST(Reception, a_deep_queue_sheds_the_changes_of_who_is_above_its_share) {
  SimulatedGateway gateway({.settings = {{"pools.workers", "1"},
                                         {"pools.worker_slots", "2"},
                                         {"queues.work", "8"},
                                         {"timeouts.request", "60s"}},
                            .keys = keys()});
  const std::string alice = bearer({"tenant = alice"}), bob = bearer({"tenant = bob"});
  std::deque<Guest> waiting;
  fill_the_queue(gateway, alice, waiting);
  Guest first = gateway.connect(), second = gateway.connect();
  EXPECT_THAT(first.ask(get("/readyz")).body, HasSubstr("accepts-changes"));
  EXPECT_GE(gateway.metric("gateway_degraded"), 1);
  second.send(post("/o", "new", bob));
  gateway.world.run_for(Duration::millis(10));
  const Answer shed = first.ask(post("/o", "new", alice));
  EXPECT_EQ(shed.status, 503);
  EXPECT_THAT(shed.body, HasSubstr("\"degraded\""));
  EXPECT_TRUE(shed.field("Retry-After").has_value());
  EXPECT_EQ(gateway.metric(R"(rejected_total{reason="degraded"})"), 1);
  EXPECT_EQ(second.answer().status, 201);
}

TEST(Reception, little_memory_sheds_changes_and_then_reads_with_large_answers) {
  SimulatedGateway gateway;
  gateway.plain.state.object.assign(std::size_t{4} << 20, 'x');
  Guest guest = gateway.connect();
  EXPECT_EQ(guest.ask(get("/o/object")).status, 200);
  Slab& slab = gateway.host.machine().slab;
  std::vector<Buffer> held;
  const auto hold = [&](double part) {
    while (static_cast<double>(slab.bytes_in_use()) < part * static_cast<double>(gateway.memory_bytes()))
      held.push_back(slab.take(std::size_t{64} << 10));
    gateway.world.run_for(Duration::seconds(1));
  };
  hold(0.86);
  EXPECT_EQ(guest.ask(post("/o", "new")).status, 503);
  EXPECT_EQ(guest.ask(get("/o/object")).status, 200);
  hold(0.96);
  EXPECT_EQ(guest.ask(get("/o/object")).status, 503);
  guest.send(head_of("/o/object"));
  EXPECT_EQ(guest.answer(true).status, 200);
  held.clear();
  gateway.world.run_for(Duration::seconds(12));
  EXPECT_EQ(guest.ask(post("/o", "new")).status, 201);
}

}  // namespace
}  // namespace cairn::gateway
