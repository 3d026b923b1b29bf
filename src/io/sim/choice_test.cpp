#include "io/sim/choice.h"

#include <gtest/gtest.h>

#include "io/sim/probe.h"

namespace cairn::io::sim {
namespace {

TEST(Choice, a_seed_repeats_its_choices) {
  RandomChoices a(7), b(7), c(8);
  bool differs = false;
  for (int i = 0; i < 100; ++i) {
    const std::uint32_t value = a.pick(1000, "x");
    EXPECT_LT(value, 1000u);
    EXPECT_EQ(value, b.pick(1000, "x"));
    differs |= value != c.pick(1000, "x");
  }
  EXPECT_TRUE(differs);
}

TEST(Choice, more_draws_of_one_kind_do_not_move_another) {
  RandomChoices quiet(7), noisy(7);
  for (int i = 0; i < 100; ++i) {
    noisy.pick(10, "disk");
    EXPECT_EQ(quiet.pick(1000, "net"), noisy.pick(1000, "net"));
  }
}

TEST(Choice, a_tape_repeats_a_recorded_run) {
  RandomChoices random(3);
  RecordedChoices recorded(random);
  std::vector<std::uint32_t> first, second;
  for (std::uint32_t i = 1; i < 50; ++i) first.push_back(recorded.pick(i, "x"));
  ReplayedChoices replayed(recorded.tape());
  for (std::uint32_t i = 1; i < 50; ++i) second.push_back(replayed.pick(i, "x"));
  EXPECT_EQ(first, second);
  EXPECT_FALSE(replayed.diverged());
  EXPECT_EQ(recorded.tape().size(), 48u);  // choosing among one is not a choice
}

TEST(Choice, an_edited_tape_still_runs_and_says_so) {
  ReplayedChoices replayed({{Tag("x").hash, 10, 7}});
  EXPECT_EQ(replayed.pick(5, "x"), 2u);
  EXPECT_TRUE(replayed.diverged());
  EXPECT_EQ(replayed.pick(5, "x"), 0u);
}

TEST(Choice, zero_is_benign_and_a_rate_of_zero_never_happens) {
  ReplayedChoices zeros({});
  RandomChoices random(1);
  EXPECT_FALSE(zeros.chance(999'999, "fault"));
  EXPECT_TRUE(zeros.chance(1'000'000, "fault"));
  int hits = 0;
  for (int i = 0; i < 10'000; ++i) {
    EXPECT_FALSE(random.chance(0, "never"));
    hits += random.chance(250'000, "quarter") ? 1 : 0;
  }
  EXPECT_GT(hits, 2'000);
  EXPECT_LT(hits, 3'000);
}

TEST(Choice, many_tags_keep_their_own_streams) {
  RandomChoices random(1);
  const std::int64_t wide = random.between(-5'000'000'000, 5'000'000'000, "wide");
  EXPECT_GE(wide, -5'000'000'000);
  EXPECT_LE(wide, 5'000'000'000);
  EXPECT_EQ(random.between(4, 4, "none"), 4);
}

TEST(Probes, what_was_declared_and_never_hit_is_missed) {
  Probes probes, other;
  probes.declare({"b", "a", "c"});
  PROBE(probes, "a");
  other.hit("c");
  EXPECT_EQ(probes.missed(), (std::vector<std::string>{"b", "c"}));
  probes.add(other);
  EXPECT_EQ(probes.missed(), std::vector<std::string>{"b"});
  EXPECT_EQ(probes.count("a"), 1u);
}

}  // namespace
}  // namespace cairn::io::sim
