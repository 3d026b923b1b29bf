#include "observe/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "observe/log_thread.h"

namespace cairn::observe {
namespace {

using testing::HasSubstr;
using testing::Not;

Log::Now fixed(std::int64_t ms) {
  return [ms] { return WallTime{ms}; };
}

std::string drained(Log& log) {
  std::string text;
  log.drain([&](std::string_view lines) {
    text += lines;
    return true;
  });
  return text;
}

std::size_t count_lines(std::string_view text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

TEST(Log, json_line_carries_time_level_message_source_and_fields_in_order) {
  Log log({}, fixed(1'700'000'000'000));
  Logger logger(log, 0, "storage");

  logger.warn("disk is filling", {{"path", "/d"}, {"used", 91}, {"free", 7u}, {"ok", false}, {"ratio", 0.5}});

  EXPECT_EQ(drained(log),
            R"({"ts":"2023-11-14T22:13:20.000Z","level":"warn","msg":"disk is filling","source":"storage",)"
            R"("path":"/d","used":91,"free":7,"ok":false,"ratio":0.5})"
            "\n");
}

TEST(Log, text_line_quotes_only_what_is_ambiguous) {
  Log log({.format = LogFormat::text}, fixed(1'700'000'000'123));
  Logger(log, 0, "edge").info("fill done", {{"host", "a.example"}, {"why", "a b"}, {"n", -3}});
  EXPECT_EQ(drained(log), "2023-11-14T22:13:20.123Z info  edge: fill done host=a.example why=\"a b\" n=-3\n");
}

TEST(Log, hostile_text_stays_one_line_of_valid_json) {
  Log log({}, fixed(0));
  Logger(log, 0).error("a\nb\"c\\d\x01\xff\xc3\xa9\xed\xa0\x80", {{"k\n", "\x7f\t"}});
  const std::string text = drained(log);
  EXPECT_EQ(count_lines(text), 1u);
  EXPECT_THAT(
      text,
      HasSubstr(
          "\"msg\":\"a\\nb\\\"c\\\\d\\u0001\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""));
  EXPECT_THAT(text, HasSubstr("\"k\\n\":\"\\u007f\\u0009\""));
}

TEST(Log, hostile_text_stays_one_line_of_text) {
  Log log({.format = LogFormat::text}, fixed(0));
  Logger(log, 0).error("a\nlevel=info", {{"k", "x\ny"}});
  EXPECT_EQ(count_lines(drained(log)), 1u);
}

TEST(Log, not_a_number_is_null) {
  Log log({}, fixed(0));
  Logger(log, 0).info("x", {{"r", 0.0 / 0.0}});
  EXPECT_THAT(drained(log), HasSubstr("\"r\":null"));
}

TEST(Log, a_secret_is_never_printed) {
  Log log({}, fixed(0));
  const Secret token("hunter2");
  Logger(log, 0).info("minted", {{"token", token}});
  const std::string text = drained(log);
  EXPECT_THAT(text, Not(HasSubstr("hunter2")));
  EXPECT_THAT(text, HasSubstr("\"token\":\"[redacted]\""));
  EXPECT_EQ(token.reveal(), "hunter2");
}

TEST(Log, level_changes_at_run_time) {
  Log log({.level = Level::warn}, fixed(0));
  Logger logger(log, 0);
  logger.info("hidden");
  log.set_level(Level::debug);
  logger.debug("seen");
  EXPECT_TRUE(logger.enabled(Level::debug));
  const std::string text = drained(log);
  EXPECT_THAT(text, Not(HasSubstr("hidden")));
  EXPECT_THAT(text, HasSubstr("seen"));
}

TEST(Log, level_names_round_trip) {
  for (const Level level : {Level::debug, Level::info, Level::warn, Level::error})
    EXPECT_EQ(find_level(name_of(level)), level);
  EXPECT_EQ(find_level("loud"), std::nullopt);
}

TEST(Log, too_long_a_record_is_cut_and_marked) {
  Log log({}, fixed(0));
  Logger logger(log, 0);
  logger.info("m", {{"long", std::string(2000, 'x')}, {"lost", 1}});
  logger.info(std::string(2000, 'y'), {{"lost", 1}});
  logger.info("m", {{std::string(600, 'k'), 1}});
  const std::string text = drained(log);
  EXPECT_EQ(count_lines(text), 3u);
  EXPECT_THAT(text, HasSubstr("x\",\"truncated\":true}\n"));
  EXPECT_THAT(text, HasSubstr("y\",\"truncated\":true}\n"));
  EXPECT_THAT(text, Not(HasSubstr("lost")));
  EXPECT_THAT(text, Not(HasSubstr("kkk")));
}

TEST(Log, a_full_ring_drops_counts_and_says_so_once) {
  Log log({.records_per_slot = 4}, fixed(0));
  Registry registry(1);
  log.declare_metrics(registry);
  Logger logger(log, 0);
  for (int i = 0; i < 10; ++i) logger.info("n", {{"i", i}});

  const std::string text = drained(log);

  EXPECT_EQ(count_lines(text), 5u);
  EXPECT_THAT(text, HasSubstr("\"i\":3}"));
  EXPECT_THAT(text, HasSubstr("\"dropped\":6}"));
  EXPECT_EQ(log.dropped(), 6u);
  EXPECT_EQ(drained(log), "");
  std::string metrics;
  registry.expose(metrics);
  EXPECT_THAT(metrics, HasSubstr("log_dropped_total 6\n"));
}

TEST(Log, lines_a_sink_refuses_are_counted_and_reported_later) {
  Log log({}, fixed(0));
  Logger logger(log, 0);
  logger.info("a");
  logger.info("b");
  log.drain([](std::string_view) { return false; });
  EXPECT_EQ(log.dropped(), 2u);
  logger.info("c");
  const std::string text = drained(log);
  EXPECT_THAT(text, HasSubstr("\"msg\":\"c\""));
  EXPECT_THAT(text, HasSubstr("\"dropped\":2}"));
}

TEST(Log, an_empty_logger_records_nothing) {
  Logger logger;
  logger.error("nobody hears");
  EXPECT_FALSE(logger.enabled(Level::error));
}

TEST(Log, every_record_of_every_thread_arrives_once_and_in_order) {
  constexpr std::uint32_t slots = 3;
  constexpr int lines = 2000;
  Log log({.slots = slots, .records_per_slot = 4096}, fixed(0));
  std::string text;
  LogThread writer(log, [&](std::string_view more) {
    text += more;
    return true;
  });
  writer.start();

  std::vector<std::thread> threads;
  for (Slot slot = 0; slot < slots; ++slot)
    threads.emplace_back([&log, slot] {
      Logger logger(log, slot);
      for (int i = 0; i < lines; ++i) logger.info("x", {{"slot", slot}, {"i", i}});
    });
  for (auto& thread : threads) thread.join();
  writer.stop();

  EXPECT_EQ(log.dropped(), 0u);
  EXPECT_EQ(count_lines(text), slots * lines);
  for (Slot slot = 0; slot < slots; ++slot) {
    std::size_t at = 0;
    for (int i = 0; i < lines; ++i) {
      const std::string wanted = "\"slot\":" + std::to_string(slot) + ",\"i\":" + std::to_string(i) + "}\n";
      at = text.find(wanted, at);
      ASSERT_NE(at, std::string::npos) << wanted;
    }
  }
}

TEST(Log, a_small_ring_under_load_loses_only_what_it_counts) {
  constexpr int lines = 5000;
  Log log({.slots = 2, .records_per_slot = 8}, fixed(0));
  std::size_t arrived = 0;
  LogThread writer(log, [&](std::string_view more) {
    for (std::size_t at = 0; (at = more.find("\"msg\":\"x\"", at)) != std::string_view::npos; ++at) ++arrived;
    return true;
  });
  writer.start();
  std::vector<std::thread> threads;
  for (Slot slot = 0; slot < 2; ++slot)
    threads.emplace_back([&log, slot] {
      Logger logger(log, slot);
      for (int i = 0; i < lines; ++i) logger.info("x");
    });
  for (auto& thread : threads) thread.join();
  writer.stop();
  EXPECT_EQ(arrived + log.dropped(), 2u * lines);
}

TEST(LogThread, restarts_and_writes_to_a_descriptor) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  Log log({.format = LogFormat::text}, fixed(0));
  LogThread writer(log, fd_sink(ends[1]));
  Logger logger(log, 0);
  writer.start();
  logger.info("one");
  writer.stop();
  writer.start();
  logger.info("two");
  writer.stop();
  ::close(ends[1]);

  std::string text(4096, '\0');
  const ssize_t size = ::read(ends[0], text.data(), text.size());
  ASSERT_GT(size, 0);
  text.resize(static_cast<std::size_t>(size));
  ::close(ends[0]);
  EXPECT_EQ(text, "1970-01-01T00:00:00.000Z info  one\n1970-01-01T00:00:00.000Z info  two\n");
}

TEST(LogThread, a_closed_descriptor_loses_lines_and_nothing_else) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::close(ends[0]);
  ::close(ends[1]);
  Log log({}, fixed(0));
  LogThread writer(log, fd_sink(ends[1]));
  writer.start();
  Logger(log, 0).info("lost");
  writer.stop();
  EXPECT_EQ(log.dropped(), 1u);
}

TEST(LogEvery, lets_one_through_per_period_and_tells_how_many_it_held) {
  LogEvery every(Duration::seconds(5));
  EXPECT_EQ(every.due(Instant{0}), 0u);
  EXPECT_EQ(every.due(Instant{1}), std::nullopt);
  EXPECT_EQ(every.due(Instant{Duration::seconds(5).ns - 1}), std::nullopt);
  EXPECT_EQ(every.due(Instant{Duration::seconds(5).ns}), 2u);
  EXPECT_EQ(every.due(Instant{Duration::seconds(6).ns}), std::nullopt);
  EXPECT_EQ(every.due(Instant{Duration::seconds(11).ns}), 1u);
}

}  // namespace
}  // namespace cairn::observe
