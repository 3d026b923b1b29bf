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

crypto::RootKey root_key() {
  std::array<std::byte, 40> same{};
  same.fill(std::byte{7});
  return crypto::make_root_key(same, WallTime{1});
}
serve::KeySnapshotPtr keys() {
  return std::make_shared<const serve::KeySnapshot>(1, crypto::KeyRing(root_key()));
}
std::string bearer(std::initializer_list<const char*> caveats) {
  crypto::Macaroon token = crypto::mint(root_key(), "cairn", {});
  for (const char* caveat : caveats) token = *crypto::attenuate(std::move(token), caveat);
  return fmt::format("Authorization: Bearer {}\r\n", crypto::format_token(token));
}

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

TEST(Reception, what_waits_at_the_drain_deadline_is_503_and_what_gets_a_slot_before_is_answered) {
  SimulatedGateway gateway(
      {.settings = {{"pools.workers", "1"}, {"pools.worker_slots", "1"}, {"timeouts.request", "60s"}}});
  Guest one = gateway.connect(), two = gateway.connect();
  one.send(get("/o/wait"));
  gateway.world.run_for(Duration::millis(10));
  two.send(get("/o/object"));
  gateway.world.run_for(Duration::millis(10));
  gateway.drain(Duration::seconds(2));
  EXPECT_EQ(two.answer().status, 503);
  ASSERT_TRUE(gateway.world.run_until([&] { return gateway.ended; }, Duration::seconds(10)));
}

}  // namespace
}  // namespace cairn::gateway
