#include "serve/health.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cairn::serve {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<GateDeclaration> gates() { return {{"config"}, {"store"}, {"bus", false}}; }

std::string text_of(const Readiness& readiness) {
  std::string out;
  write_readiness(readiness, out);
  return out;
}

TEST(Health, gates_are_closed_until_opened) {
  const Health health(gates());
  const Readiness readiness = health.check();
  EXPECT_FALSE(readiness.ready);
  EXPECT_FALSE(readiness.write_ready);
  EXPECT_THAT(readiness.missing, ElementsAre("config", "store", "bus"));
}

TEST(Health, a_service_without_gates_is_ready) {
  const Readiness readiness = Health({}).check();
  EXPECT_TRUE(readiness.ready && readiness.write_ready && !readiness.degraded);
}

TEST(Health, reads_are_served_without_the_gates_that_only_writes_need) {
  Health health(gates());
  health.set("config", true);
  health.set("store", true);
  Readiness readiness = health.check();
  EXPECT_TRUE(readiness.ready);
  EXPECT_FALSE(readiness.write_ready);
  EXPECT_TRUE(readiness.degraded);
  EXPECT_THAT(readiness.missing, ElementsAre("bus"));
  health.set("bus", true);
  readiness = health.check();
  EXPECT_TRUE(readiness.ready && readiness.write_ready);
  EXPECT_FALSE(readiness.degraded);
  EXPECT_THAT(readiness.missing, IsEmpty());
}

TEST(Health, a_task_that_stays_down_matters_as_its_declaration_says) {
  const auto after = [](Criticality criticality) {
    Health health({{"tasks"}, {"background", false, false}});
    health.set("tasks", true);
    health.set("background", true);
    health.task_stays_down(criticality);
    return health.check();
  };
  const Readiness essential = after(Criticality::essential);
  EXPECT_FALSE(essential.ready);
  EXPECT_THAT(essential.missing, ElementsAre("tasks"));
  const Readiness degrading = after(Criticality::degrading);
  EXPECT_TRUE(degrading.ready && degrading.write_ready && degrading.degraded);
  EXPECT_THAT(degrading.missing, ElementsAre("background"));
  EXPECT_FALSE(after(Criticality::optional).degraded);
}

TEST(Health, writes_need_every_gate) {
  for (const char* closed : {"config", "store", "bus"}) {
    Health health(gates());
    for (const char* gate : {"config", "store", "bus"}) health.set(gate, true);
    health.set(closed, false);
    EXPECT_FALSE(health.check().write_ready) << closed;
    EXPECT_EQ(health.check().ready, std::string_view(closed) == "bus") << closed;
  }
}

TEST(Health, draining_is_not_ready_whatever_the_gates_say) {
  Health health(gates());
  for (const char* gate : {"config", "store", "bus"}) health.set(gate, true);
  EXPECT_FALSE(health.draining());
  health.set_draining();
  EXPECT_TRUE(health.draining());
  const Readiness readiness = health.check();
  EXPECT_FALSE(readiness.ready || readiness.write_ready);
  EXPECT_THAT(readiness.missing, ElementsAre("draining"));
}

TEST(Health, readiness_is_exactly_this_json) {
  EXPECT_EQ(text_of({.ready = true, .write_ready = true, .degraded = false, .missing = {}}),
            R"({"ready":true,"write_ready":true,"degraded":false,"missing":[]})");
  EXPECT_EQ(text_of({.ready = true, .write_ready = false, .degraded = true, .missing = {"bus"}}),
            R"({"ready":true,"write_ready":false,"degraded":true,"missing":["bus"]})");
  EXPECT_EQ(
      text_of({.ready = false, .write_ready = false, .degraded = true, .missing = {"config", "store"}}),
      R"({"ready":false,"write_ready":false,"degraded":true,"missing":["config","store"],"retry_after":1})");
}

TEST(Health, an_undeclared_gate_is_a_bug) {
  Health health(gates());
  EXPECT_DEATH(health.set("sotre", true), "undeclared gate");
}

}  // namespace
}  // namespace cairn::serve
