#include "observe/metric.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <vector>

namespace cairn::observe {
namespace {

enum class Method : std::uint8_t { get, put };

std::string exposed(const Registry& registry) {
  std::string text;
  registry.expose(text);
  return text;
}

TEST(Metric, exposition_is_exactly_this_text) {
  Registry registry(2);
  auto requests = registry.counters({.name = "http_requests_total",
                                     .help = "Requests answered.",
                                     .labels = {{"route", {"/o/{b3}", "/o"}}, {"method", {"GET", "PUT"}}},
                                     .print = Print::touched});
  auto rejected = registry.counters(
      {.name = "rejected_total", .help = "Requests refused.", .labels = {{"reason", {"busy", "quota"}}}});
  auto latency = registry.histogram(
      "request_latency_seconds", "Time to the response head.",
      Buckets::durations({Duration::millis(5), Duration::millis(10), Duration::seconds(1)}));
  auto inflight = registry.gauge("inflight_requests", "Requests being worked on.");
  registry.observed_gauge("fill_ratio", "Part of the disk in use.", [] { return 0.25; });

  requests.at(0, Method::put).add(0, 2);
  requests.at(0, Method::put).add(1, 3);
  rejected.at(1).add(1);
  inflight.add(0, 3);
  inflight.add(1, -1);
  latency.observe(0, Duration::millis(5));
  latency.observe(1, Duration::micros(5001));
  latency.observe(1, Duration::seconds(2));

  EXPECT_EQ(exposed(registry),
            "# HELP fill_ratio Part of the disk in use.\n"
            "# TYPE fill_ratio gauge\n"
            "fill_ratio 0.25\n"
            "# HELP http_requests_total Requests answered.\n"
            "# TYPE http_requests_total counter\n"
            "http_requests_total{route=\"/o/{b3}\",method=\"PUT\"} 5\n"
            "# HELP inflight_requests Requests being worked on.\n"
            "# TYPE inflight_requests gauge\n"
            "inflight_requests 2\n"
            "# HELP rejected_total Requests refused.\n"
            "# TYPE rejected_total counter\n"
            "rejected_total{reason=\"busy\"} 0\n"
            "rejected_total{reason=\"quota\"} 1\n"
            "# HELP request_latency_seconds Time to the response head.\n"
            "# TYPE request_latency_seconds histogram\n"
            "request_latency_seconds_bucket{le=\"0.005\"} 1\n"
            "request_latency_seconds_bucket{le=\"0.01\"} 2\n"
            "request_latency_seconds_bucket{le=\"1\"} 2\n"
            "request_latency_seconds_bucket{le=\"+Inf\"} 3\n"
            "request_latency_seconds_sum 2.010001\n"
            "request_latency_seconds_count 3\n");
}

TEST(Metric, help_and_label_values_are_escaped) {
  Registry registry(1);
  auto family = registry.gauges(
      {.name = "build_info", .help = "a\\b\nc \"d\"", .labels = {{"version", {"x\"y\\z\nw"}}}});
  family.at(0).set(0, 1);

  EXPECT_EQ(exposed(registry),
            "# HELP build_info a\\\\b\\nc \"d\"\n"
            "# TYPE build_info gauge\n"
            "build_info{version=\"x\\\"y\\\\z\\nw\"} 1\n");
}

TEST(Metric, counters_of_several_threads_sum_while_scraped) {
  constexpr std::uint32_t threads = 4;
  constexpr std::uint64_t rounds = 20'000;
  Registry registry(threads);
  auto counter = registry.counter("steps_total", "Steps.");
  auto histogram = registry.histogram("step_seconds", "Step time.", Buckets::latency());

  std::vector<std::thread> writers;
  for (Slot slot = 0; slot < threads; ++slot)
    writers.emplace_back([=] {
      for (std::uint64_t i = 0; i < rounds; ++i) {
        counter.add(slot);
        histogram.observe(slot, Duration::micros(static_cast<std::int64_t>(i)));
      }
    });
  std::uint64_t last = 0;
  for (int i = 0; i < 50; ++i) {
    const std::uint64_t now = counter.value();
    EXPECT_GE(now, last);
    last = now;
    exposed(registry);
  }
  for (auto& writer : writers) writer.join();

  EXPECT_EQ(counter.value(), threads * rounds);
  EXPECT_EQ(histogram.count(), threads * rounds);
}

TEST(Metric, the_slots_of_two_counters_do_not_mix) {
  Registry registry(2);
  auto a = registry.counter("a_total", "A.");
  auto b = registry.counter("b_total", "B.");
  a.add(0, 1);
  a.add(1, 2);
  b.add(0, 4);
  b.add(1, 8);
  EXPECT_EQ(a.value(), 3u);
  EXPECT_EQ(b.value(), 12u);
}

TEST(Metric, every_label_combination_has_its_own_cell) {
  Registry registry(3);
  auto family = registry.counters({.name = "cells_total",
                                   .help = "Cells.",
                                   .labels = {{"a", {"0", "1"}}, {"b", {"0", "1", "2"}}, {"c", {"0", "1"}}}});
  std::uint64_t n = 1;
  for (int a = 0; a < 2; ++a)
    for (int b = 0; b < 3; ++b)
      for (int c = 0; c < 2; ++c) family.at(a, b, c).add(2, n++);

  n = 1;
  for (int a = 0; a < 2; ++a)
    for (int b = 0; b < 3; ++b)
      for (int c = 0; c < 2; ++c) EXPECT_EQ(family.at(a, b, c).value(), n++);
  EXPECT_NE(exposed(registry).find("cells_total{a=\"1\",b=\"0\",c=\"1\"} 8\n"), std::string::npos);
}

TEST(Metric, a_family_larger_than_a_chunk_keeps_its_cells_apart) {
  Registry registry(2);
  std::vector<std::string> values;
  for (int i = 0; i < 700; ++i) values.push_back(std::to_string(i));
  auto before = registry.counter("before_total", "Before.");
  auto family = registry.counters({.name = "large_total", .help = "Large.", .labels = {{"n", values}}});
  auto after = registry.counter("after_total", "After.");

  for (int i = 0; i < 700; ++i) family.at(i).add(1, static_cast<std::uint64_t>(i));

  EXPECT_EQ(before.value(), 0u);
  EXPECT_EQ(after.value(), 0u);
  for (int i = 0; i < 700; ++i) EXPECT_EQ(family.at(i).value(), static_cast<std::uint64_t>(i));
}

TEST(Metric, bucket_is_the_first_whose_bound_is_not_below) {
  const Buckets buckets = Buckets::sizes({{1}, {2}, {3}, {100}, {120}, {127}, {128}, {1u << 20}});
  const auto by_hand = [&](std::uint64_t value) {
    std::size_t at = 0;
    while (at < buckets.bounds().size() && value > buckets.bounds()[at]) ++at;
    return at;
  };
  for (std::uint64_t value = 0; value < 3000; ++value)
    EXPECT_EQ(buckets.find(value), by_hand(value)) << value;
  for (const std::uint64_t value :
       {std::uint64_t{1} << 20, (std::uint64_t{1} << 20) + 1, std::numeric_limits<std::uint64_t>::max()})
    EXPECT_EQ(buckets.find(value), by_hand(value)) << value;
}

TEST(Metric, a_full_set_of_buckets_still_ends) {
  const Buckets full = Buckets::sizes({{1},  {2},  {3},  {4},  {5},  {6},  {7},  {8},  {9},  {10}, {11},
                                       {12}, {13}, {14}, {15}, {16}, {17}, {18}, {19}, {20}, {21}, {22},
                                       {23}, {24}, {25}, {26}, {27}, {28}, {29}, {30}, {31}});
  EXPECT_EQ(full.find(32), 31u);
  EXPECT_EQ(full.find(std::numeric_limits<std::uint64_t>::max()), 31u);
}

TEST(Metric, negative_duration_counts_as_zero) {
  Registry registry(1);
  auto histogram = registry.histogram("x_seconds", "X.", Buckets::latency());
  histogram.observe(0, Duration::nanos(-5));
  const std::string text = exposed(registry);
  EXPECT_NE(text.find("x_seconds_bucket{le=\"0.0001\"} 1\n"), std::string::npos);
  EXPECT_NE(text.find("x_seconds_sum 0\n"), std::string::npos);
}

TEST(Metric, unbound_observed_cell_is_not_printed) {
  Registry registry(1);
  auto depth = registry.observed_gauges(
      {.name = "queue_depth", .help = "Jobs waiting.", .labels = {{"queue", {"work", "events"}}}});
  depth.bind([] { return 7.0; }, 0);
  depth.bind([] { return 9.0; }, 1);
  depth.unbind(1);
  EXPECT_EQ(exposed(registry),
            "# HELP queue_depth Jobs waiting.\n# TYPE queue_depth gauge\nqueue_depth{queue=\"work\"} 7\n");
}

TEST(Metric, what_nothing_is_known_to_move_is_printed_once_it_moves) {
  Registry registry(1);
  auto family = registry.counters(
      {.name = "x_total", .help = "X.", .labels = {{"a", {"0", "1", "2"}}}, .still = {1, 2}});
  std::string text;
  registry.expose(text);
  EXPECT_EQ(text, "# HELP x_total X.\n# TYPE x_total counter\nx_total{a=\"0\"} 0\n");
  family.at(2).add(0);
  text.clear();
  registry.expose(text);
  EXPECT_EQ(text, "# HELP x_total X.\n# TYPE x_total counter\nx_total{a=\"0\"} 0\nx_total{a=\"2\"} 1\n");
}

TEST(Metric, families_are_listed_by_name_whatever_the_order_of_declaration) {
  Registry registry(1);
  registry.gauge("b", "B.");
  registry.counter("a_total", "A.");
  const auto families = registry.families();
  ASSERT_EQ(families.size(), 2u);
  EXPECT_EQ(families[0].declaration->name, "a_total");
  EXPECT_EQ(families[0].kind, MetricKind::counter);
  EXPECT_EQ(families[1].declaration->name, "b");
}

using MetricDeathTest = testing::Test;

TEST(MetricDeathTest, bad_declarations_and_indices_are_bugs) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Registry registry(1);
  auto family = registry.counters({.name = "x_total", .help = "X.", .labels = {{"a", {"0"}}}});
  EXPECT_DEATH(registry.counter("x", "No suffix."), "CHECK|ends_with");
  EXPECT_DEATH(registry.gauge("x_total", "Suffix of a counter."), "");
  EXPECT_DEATH(registry.counter("y_total", ""), "");
  EXPECT_DEATH(registry.counter("x_total", "Twice."), "");
  EXPECT_DEATH(family.at(1), "");
  EXPECT_DEATH(family.at(0).add(1), "");
}

}  // namespace
}  // namespace cairn::observe
