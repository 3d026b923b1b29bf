#include "services/index/tally.h"

#include <gtest/gtest.h>

#include "services/index/simulated_targets.h"

namespace cairn::index {
namespace {

using Verdict = Tally::Verdict;

struct Asked {
  explicit Asked(Question question, int targets) : tally(std::move(question), judge, sample_now) {
    for (int i = 0; i < targets; ++i) tally.count_asked();
  }
  Verdict hears_whole(Answer answer) {
    tally.answered(std::move(answer));
    return tally.verdict();
  }
  Verdict loses_one() {
    tally.failed();
    return tally.verdict();
  }
  SampleJudge judge;
  Tally tally;
};
struct OfName : Asked {
  explicit OfName(int targets) : Asked("docs/readme", targets) {}
  Verdict hears(const ChangeParts& parts) { return hears_whole(sample_answer(sample_change(parts))); }
};
struct OfAddress : Asked {
  explicit OfAddress(int targets) : Asked(sample_address(1), targets) {}
  Verdict hears(ProviderParts parts) { return hears_whole(sample_answer(sample_provider(parts))); }
};

// [TY-1]
TEST(Tally, one_fresh_provider_is_enough) {
  OfAddress asked(3);
  EXPECT_EQ(asked.hears_whole(Answer{}), Verdict::undecided);
  EXPECT_EQ(asked.hears(ProviderParts{}), Verdict::found);
  EXPECT_EQ(std::move(asked.tally).take().providers.size(), 1u);
}

TEST(Tally, withdrawn_expired_and_refused_providers_find_nothing) {
  OfAddress asked(4);
  EXPECT_EQ(asked.hears({.key = 1, .withdrawn = true}), Verdict::undecided);
  EXPECT_EQ(asked.hears({.key = 2, .lives = Duration::seconds(-1)}), Verdict::undecided);
  EXPECT_EQ(asked.hears({.key = SampleJudge::liar}), Verdict::undecided);
  EXPECT_EQ(asked.hears({.key = 3, .address = 9}), Verdict::not_here);
}

TEST(Tally, an_older_record_of_a_node_that_withdrew_finds_nothing) {
  OfAddress asked(2);
  EXPECT_EQ(asked.hears({.sequence = 6, .withdrawn = true}), Verdict::undecided);
  EXPECT_EQ(asked.hears({.sequence = 5}), Verdict::not_here);
}

// [TY-1]
TEST(Tally, two_that_agree_on_the_highest_change_are_enough) {
  OfName asked(3);
  EXPECT_EQ(asked.hears({.sequence = 5}), Verdict::undecided);
  EXPECT_EQ(asked.hears({.sequence = 5}), Verdict::found);
  EXPECT_EQ(std::move(asked.tally).take().changes.at(0).change.sequence, 5u);
}

TEST(Tally, agreement_on_an_older_change_is_not_enough) {
  OfName asked(4);
  EXPECT_EQ(asked.hears({.sequence = 6}), Verdict::undecided);
  EXPECT_EQ(asked.hears({.sequence = 5}), Verdict::undecided);
  EXPECT_EQ(asked.hears({.sequence = 5}), Verdict::undecided);
  EXPECT_EQ(asked.hears_whole(Answer{}), Verdict::found);
  EXPECT_EQ(std::move(asked.tally).take().changes.at(0).change.sequence, 6u);
}

// [TY-1]
TEST(Tally, the_highest_change_counts_when_all_have_answered) {
  OfName asked(3);
  EXPECT_EQ(asked.hears_whole(Answer{}), Verdict::undecided);
  EXPECT_EQ(asked.hears({.sequence = 2}), Verdict::undecided);
  EXPECT_EQ(asked.hears_whole(Answer{}), Verdict::found);
}

TEST(Tally, one_change_alone_is_not_enough_where_another_target_failed) {
  OfName asked(2);
  EXPECT_EQ(asked.hears({.sequence = 2}), Verdict::undecided);
  EXPECT_EQ(asked.loses_one(), Verdict::failed);
}

TEST(Tally, two_changes_with_one_sequence_do_not_agree) {
  OfName asked(3);
  EXPECT_EQ(asked.hears({.sequence = 2, .manifest = 1}), Verdict::undecided);
  EXPECT_EQ(asked.hears({.sequence = 2, .manifest = 2}), Verdict::undecided);
  OfName other(3);
  EXPECT_EQ(other.hears({.sequence = 2, .manifest = 2}), Verdict::undecided);
  EXPECT_EQ(other.hears({.sequence = 2, .manifest = 1}), Verdict::undecided);
  EXPECT_EQ(asked.hears_whole(Answer{}), Verdict::found);
  EXPECT_EQ(other.hears_whole(Answer{}), Verdict::found);
  EXPECT_EQ(std::move(asked.tally).take().changes, std::move(other.tally).take().changes);
}

// [TY-3]
TEST(Tally, forged_changes_are_as_if_not_sent) {
  OfName asked(3);
  EXPECT_EQ(asked.hears({.sequence = 99, .key = SampleJudge::liar}), Verdict::undecided);
  EXPECT_EQ(asked.hears({.sequence = 99, .name = "docs/other"}), Verdict::undecided);
  EXPECT_EQ(asked.hears_whole(sample_answer(sample_provider())), Verdict::not_here);
}

TEST(Tally, one_target_does_not_agree_with_itself) {
  OfName asked(2);
  Answer twice = sample_answer(sample_change());
  twice.changes.push_back(sample_change());
  EXPECT_EQ(asked.hears_whole(std::move(twice)), Verdict::undecided);
}

// [TY-2]
TEST(Tally, not_here_needs_an_answer_of_everybody) {
  OfAddress asked(3);
  EXPECT_EQ(asked.hears_whole(Answer{}), Verdict::undecided);
  EXPECT_EQ(asked.loses_one(), Verdict::undecided);
  EXPECT_EQ(asked.hears_whole(Answer{}), Verdict::failed);
  EXPECT_EQ(OfAddress(0).tally.verdict(), Verdict::undecided);
}

}  // namespace
}  // namespace cairn::index
