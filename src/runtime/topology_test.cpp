#include "runtime/topology.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace cairn {
namespace {

constexpr TaskDeclaration tasks[] = {
    {.name = "accept",
     .kind = "listener",
     .count = "one per shard",
     .does = "takes connections",
     .owner = "service"},
    {.name = "worker", .kind = "worker", .count = "8", .does = "runs \"work\" | jobs", .owner = "service"},
};
constexpr QueueDeclaration queues[] = {
    {.name = "work",
     .capacity = 512,
     .producers = {"accept", "bus"},
     .consumers = {"worker"},
     .metric = "queue_depth{queue=\"work\"}"},
    {.name = "shutdown",
     .kind = QueueKind::watch,
     .capacity = 1,
     .producers = {"signal"},
     .consumers = {"accept", "worker"},
     .policy = OverflowPolicy::keep_latest,
     .metric = ""},
    {.name = "reload",
     .capacity = 16,
     .producers = {"signal"},
     .consumers = {"worker"},
     .policy = OverflowPolicy::drop_oldest,
     .metric = "queue_depth",
     .fixed = true},
};
constexpr LockDeclaration locks[] = {{"drr", 4, "the order of grants"}, {"peers", 2, "addresses of peers"}};
constexpr LaneDeclaration lanes[] = {{"read", 2, 256, "what requests read"}};
constexpr WriterDeclaration writers[] = {{"segment log", "worker"}};
constexpr ServiceDeclaration service{.name = "storage",
                                     .purpose = "Keeps objects",
                                     .owner = "storage team",
                                     .last_reviewed = "2026-01-31",
                                     .tasks = tasks,
                                     .queues = queues,
                                     .locks = locks,
                                     .lanes = lanes,
                                     .writers = writers};

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

TEST(Topology, a_sound_declaration_has_no_problem) { EXPECT_TRUE(find_topology_problems(service).empty()); }

TEST(Topology, contradictions_are_found) {
  const QueueDeclaration bad_queues[] = {
      {.name = "q", .kind = QueueKind::broadcast, .producers = {"a"}, .consumers = {"b"}, .metric = "m"},
      {.name = "q",
       .capacity = 1,
       .producers = {"a"},
       .consumers = {"b"},
       .policy = OverflowPolicy::keep_latest,
       .metric = "m"}};
  const LaneDeclaration bad_lanes[] = {{"dns", 0, 1, ""}};
  const LockDeclaration bad_locks[] = {{"a", 3, ""}, {"b", 3, ""}, {"c", 31, ""}};
  const WriterDeclaration bad_writers[] = {{"log", "a"}, {"log", "b"}};
  ServiceDeclaration bad = service;
  bad.queues = bad_queues;
  bad.locks = bad_locks;
  bad.lanes = bad_lanes;
  bad.writers = bad_writers;
  EXPECT_EQ(
      find_topology_problems(bad),
      (std::vector<std::string>{
          "queue q is declared twice", "queue q has no bound", "queue q is a broadcast: it drops the oldest",
          "queue q is an mpsc: it refuses, waits or drops the oldest", "lane dns has no bound",
          "lock b shares its rank 3", "lock c has a rank of the runtime", "log has more than one writer"}));
}

TEST(Topology, json_is_escaped_and_carries_what_is_so_now) {
  const std::string plain = format_topology_json(service);
  EXPECT_TRUE(has(plain, R"("does":"runs \"work\" | jobs")"));
  EXPECT_TRUE(has(plain, R"("producers":["accept","bus"],"consumers":["worker"],"policy":"refuse")"));
  for (const char* absent : {"depth", "running", "waiting"})
    EXPECT_FALSE(has(plain, fmt::format("\"{}\":", absent)));
  const auto only = [](std::string_view known, std::uint64_t number) {
    return [known, number](std::string_view name) {
      return name == known ? std::optional(number) : std::nullopt;
    };
  };
  const std::string live = format_topology_json(
      service, {.depth = only("work", 17), .running = only("worker", 8), .waiting = only("read", 3)});
  EXPECT_TRUE(has(live, R"("metric":"queue_depth{queue=\"work\"}","depth":17})"));
  EXPECT_TRUE(has(live, R"("policy":"keep latest","metric":""})"));
  EXPECT_TRUE(has(live, R"("owner":"service","running":8})"));
  EXPECT_TRUE(has(live, R"("threads":2,"queue":256,"does":"what requests read","waiting":3})"));
}

TEST(Topology, mermaid_draws_tasks_queues_and_outsiders) {
  EXPECT_EQ(format_topology_mermaid(service),
            "flowchart LR\n"
            "  t0[\"accept<br/>one per shard\"]\n"
            "  t1[\"worker<br/>8\"]\n"
            "  q0([\"work<br/>mpsc 512\"])\n"
            "  q1([\"shutdown<br/>watch 1\"])\n"
            "  q2([\"reload<br/>mpsc 16\"])\n"
            "  o0((\"bus\"))\n"
            "  o1((\"signal\"))\n"
            "  t0 --> q0\n"
            "  o0 --> q0\n"
            "  q0 --> t1\n"
            "  o1 --> q1\n"
            "  q1 --> t0\n"
            "  q1 --> t1\n"
            "  o1 --> q2\n"
            "  q2 --> t1\n");
}

TEST(Topology, an_mpsc_that_can_fill_up_and_is_not_fixed_has_a_key) {
  EXPECT_TRUE(has_key_of_its_own(queues[0]));
  EXPECT_FALSE(has_key_of_its_own(queues[1]));  // a watch
  EXPECT_FALSE(has_key_of_its_own(queues[2]));  // fixed
  QueueDeclaration never_full = queues[0];
  never_full.fills = false;
  EXPECT_FALSE(has_key_of_its_own(never_full));
  QueueDeclaration other_key = queues[0];
  other_key.key = "bus.channel_bound";
  EXPECT_FALSE(has_key_of_its_own(other_key));
}

TEST(Topology, text_lists_locks_by_rank) {
  const std::string text = format_topology_text(service);
  EXPECT_LT(text.find("peers"), text.find("drr"));
  EXPECT_TRUE(has(text, "accept, bus -> worker"));
  EXPECT_TRUE(has(text, "segment log"));
}

TEST(Topology, the_page_has_every_part_drawn_and_described) {
  const std::string page = format_concurrency_page(service);
  EXPECT_EQ(page, format_concurrency_page(service));
  EXPECT_TRUE(
      page.starts_with("# Concurrency of storage\n\nOwner: storage team  \nLast reviewed: 2026-01-31\n"));
  for (const std::string_view part :
       {"flowchart LR", "* `work` (mpsc, 512): accept, bus to worker; when full: refuse.", "## Queues",
        "## Locks", "| 2 | `peers` | addresses of peers |", "sequenceDiagram", "stateDiagram-v2",
        "at most 3s", "exit 10", "runs \"work\" \\| jobs", "The state only moves forward"})
    EXPECT_TRUE(has(page, part)) << part;
}

TEST(Topology, a_service_without_anything_still_renders) {
  constexpr ServiceDeclaration empty{
      .name = "x", .purpose = "p", .owner = "o", .last_reviewed = "2026-01-31"};
  EXPECT_EQ(format_topology_mermaid(empty), "flowchart LR\n");
  EXPECT_TRUE(has(format_concurrency_page(empty), "No queue is declared."));
  EXPECT_TRUE(
      has(format_topology_json(empty), R"("tasks":[],"queues":[],"locks":[],"lanes":[],"writers":[])"));
}

TEST(Topology, calls_go_to_services_that_start_earlier_and_so_form_no_cycle) {
  const auto calling = [](std::string_view name, NameList callees) {
    ServiceDeclaration declared = service;
    declared.name = name;
    declared.calls = callees;
    return declared;
  };
  const ServiceDeclaration base = calling("base", {});
  const ServiceDeclaration middle = calling("middle", {"base", "elsewhere"});
  const ServiceDeclaration loop = calling("loop", {"middle", "loop"});
  const std::array fine{&base, &middle};
  EXPECT_TRUE(find_call_problems(fine).empty());
  const std::array turned{&middle, &base, &loop};
  EXPECT_EQ(find_call_problems(turned),
            (std::vector<std::string>{"middle calls base, which must come before it",
                                      "loop calls loop, which must come before it"}));
}

}  // namespace
}  // namespace cairn
