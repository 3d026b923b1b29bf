// GroupCommit, by a committer as small as one can be: a table of numbers by name.
#include "store/group_commit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string>

#include "runtime/driven_shard.h"

namespace cairn::store {
namespace {

// Gives a name its number, and answers the number it had.
struct Change : Errand<Change, int> {
  Change(std::string name, int value) : key(std::move(name)), number(value) {}
  std::string key;
  int number;
};

struct Group : CommitGroup<Change> {
  std::set<std::string> touched;
};

class Numbers final : public GroupCommit<Change, Group> {
 public:
  Numbers(Shard& shard, Mailbox& mailbox, Duration gather_most = {})
      : GroupCommit(shard, mailbox, {"full", "closed"}, gather_most) {}

  std::map<std::string, int> table;
  std::vector<std::string> log;    // names, as they are on the disk
  std::vector<std::size_t> syncs;  // records of each
  std::vector<std::string> steps;
  Duration disk = Duration::millis(10);
  std::optional<Error> not_ready, disk_error, table_error, not_finished;
  bool fenced = false;

 private:
  Task<> begin(Call, Group& group) override {
    group.bytes_max = 1u << 20;
    co_return;
  }
  std::optional<Error> closed(const Change&) const override {
    return fenced ? std::optional(Error{ErrorCode::degraded, "fenced"}) : std::nullopt;
  }
  // No name: refused. A negative number is refused too, and there is a record of it. The number that it has:
  // nothing is to be done. Two changes of one name go into two groups.
  Task<Result<Planned>> plan(Call, Change& change, Group& group) override {
    if (change.key.empty()) co_return fail(ErrorCode::malformed, "no name");
    if (group.touched.contains(change.key)) co_return Planned::deferred;
    const int now = table[change.key];
    change.result = now;
    if (change.number == now) co_return Planned::answered;
    if (change.number < 0) change.result = fail(ErrorCode::invalid, "negative");
    group.touched.insert(change.key);
    Record record;
    record.meta = change.key;
    group.add(std::move(record));
    co_return Planned::joined;
  }
  void refused(const Change& change, const Error&) override { steps.push_back("refuse " + change.key); }
  Task<Result<>> prepare(Call, Group&) override {
    steps.emplace_back("prepare");
    if (not_ready) co_return fail(*not_ready);
    co_return Result<>{};
  }
  Task<Result<std::vector<Entry>>> append(Call call, Group& group) override {
    steps.emplace_back("append");
    if (!co_await sleep_for(call, disk)) co_return fail(ErrorCode::internal, "stopped");
    if (disk_error) co_return fail(*disk_error);
    syncs.push_back(group.records.size());
    for (const Record& record : group.records) log.push_back(record.meta);
    steps.emplace_back("synced");
    co_return std::vector<Entry>(group.records.size());
  }
  Task<Result<>> apply(Call, Group& group, std::vector<Entry>) override {
    steps.emplace_back("apply");
    if (table_error) {
      fenced = true;
      co_return fail(*table_error);
    }
    for (const Change* change : group.members)
      if (change->result) table[change->key] = change->number;
    co_return Result<>{};
  }
  Task<Result<>> finish(Call, Group&) override {
    steps.emplace_back("finish");
    if (not_finished) co_return fail(*not_finished);
    co_return Result<>{};
  }
  // Small ones.
  bool may_try_again(const Change& change, const Error& error) const override {
    return error.code == ErrorCode::storage_full && change.number < 10;
  }
  void concluded(const Group& group, const Result<>&) override {
    steps.push_back("conclude " + std::to_string(group.members.size()));
  }
  void told(const Group&, const Result<>&) override { steps.emplace_back("told"); }
};

class GroupCommitTest : public testing::Test {
 protected:
  explicit GroupCommitTest(Duration gather_most = {}) : numbers(driven.shard, mailbox, gather_most) {
    tasks.spawn("committer", numbers.run(tasks.call()));
    driven.settle();
  }
  ~GroupCommitTest() override {
    numbers.disk_error.reset();  // what is tried again comes to an end
    tasks.cancel(StopReason::draining);
    driven.run();
    numbers.errands().close();
    driven.settle();
    EXPECT_TRUE(tasks.empty() && driven.scope.empty());
  }

  using Answer = std::optional<Result<int>>;
  static Task<> ask(Call call, GroupCommitTest* test, std::unique_ptr<Change> change, Answer* out) {
    const std::string name = change->key;
    *out = co_await test->numbers.errands().ask(call, std::move(change), test->mailbox, nullptr);
    test->numbers.steps.push_back("answer " + name);
  }
  // Asked now; it is begun when something settles.
  void ask(std::string key, int number, Answer& out) {
    driven.scope.spawn("asker",
                       ask(driven.call(), this, std::make_unique<Change>(std::move(key), number), &out));
  }
  static ErrorCode code_of(const Answer& answer) {
    return !answer ? ErrorCode::internal : *answer ? ErrorCode::ok : answer->error().code;
  }
  // Something is on its way to the disk, so that what is asked for next goes together.
  void keep_busy() {
    ask("busy", ++busy_, busy_answer_);
    driven.settle();
    ASSERT_FALSE(busy_answer_);
    numbers.steps.clear();
  }
  void finish_busy() {
    driven.run_for(numbers.disk);
    ASSERT_TRUE(busy_answer_ && *busy_answer_);
    busy_answer_.reset();
    numbers.syncs.clear();
  }

  DrivenShard driven;
  Mailbox mailbox{[] {}};
  Scope tasks{driven.shard};
  Numbers numbers;

 private:
  int busy_ = 0;
  Answer busy_answer_;
};

// [GP-1]
TEST_F(GroupCommitTest, a_change_is_answered_when_it_is_durable_and_readers_find_it) {
  Answer a;
  ask("a", 1, a);
  driven.run_for(Duration::millis(9));
  EXPECT_FALSE(a);
  EXPECT_EQ(numbers.table["a"], 0);
  driven.run_for(Duration::millis(1));
  EXPECT_EQ(a, Result<int>(0));
  EXPECT_EQ(numbers.table["a"], 1);
  EXPECT_EQ(numbers.steps, (std::vector<std::string>{"prepare", "append", "synced", "apply", "finish",
                                                     "conclude 1", "told", "answer a"}));
}

TEST_F(GroupCommitTest, what_is_asked_for_during_a_sync_shares_the_next_one) {
  keep_busy();
  std::array<Answer, 5> answers;
  for (std::size_t i = 0; i < answers.size(); ++i) ask("n" + std::to_string(i), 1, answers.at(i));
  finish_busy();
  driven.run_for(numbers.disk);
  for (const Answer& answer : answers) EXPECT_EQ(answer, Result<int>(0));
  EXPECT_EQ(numbers.syncs, std::vector<std::size_t>{5});
}

// [GP-2]
TEST_F(GroupCommitTest, every_change_is_answered_once_whatever_becomes_of_it) {
  keep_busy();
  Answer nameless, same, negative, done;
  ask("", 1, nameless);
  ask("same", 0, same);
  ask("negative", -1, negative);
  ask("done", 1, done);
  finish_busy();
  // What needs no record does not wait for those that do.
  EXPECT_EQ(code_of(nameless), ErrorCode::malformed);
  EXPECT_EQ(same, Result<int>(0));
  EXPECT_FALSE(negative || done);
  driven.run_for(numbers.disk);
  EXPECT_EQ(code_of(negative), ErrorCode::invalid);
  EXPECT_EQ(done, Result<int>(0));
  EXPECT_EQ(numbers.syncs, std::vector<std::size_t>{2});
  EXPECT_EQ(numbers.table["negative"], 0);
  for (const char* key : {"", "same", "negative", "done"})
    EXPECT_EQ(std::ranges::count(numbers.steps, std::string("answer ") + key), 1);
  EXPECT_EQ(std::ranges::count(numbers.steps, "refuse "), 1);
}

// [GP-3]
TEST_F(GroupCommitTest, one_that_must_wait_for_a_group_is_the_first_of_the_next) {
  keep_busy();
  Answer first, second, other;
  ask("a", 1, first);
  ask("a", 2, second);
  ask("b", 1, other);
  finish_busy();
  driven.run_for(numbers.disk);
  EXPECT_EQ(first, Result<int>(0));
  EXPECT_FALSE(second || other);
  driven.run_for(numbers.disk);
  EXPECT_EQ(second, Result<int>(1));
  EXPECT_EQ(other, Result<int>(0));
  EXPECT_EQ(numbers.syncs, (std::vector<std::size_t>{1, 2}));
}

TEST_F(GroupCommitTest, a_full_group_leaves_the_rest_to_the_next) {
  keep_busy();
  std::vector<Answer> answers(Group::records_most + 1);
  for (std::size_t i = 0; i < answers.size(); ++i) ask("n" + std::to_string(i), 1, answers[i]);
  finish_busy();
  driven.run_for(numbers.disk);
  EXPECT_TRUE(answers.front());
  EXPECT_FALSE(answers.back());
  driven.run_for(numbers.disk);
  EXPECT_TRUE(answers.back());
  EXPECT_EQ(numbers.syncs, (std::vector<std::size_t>{Group::records_most, 1}));
}

// [GP-4]
TEST_F(GroupCommitTest, a_group_that_is_not_appended_tells_its_members_why) {
  keep_busy();
  Answer a, negative;
  ask("a", 1, a);
  ask("negative", -1, negative);
  finish_busy();
  numbers.disk_error = Error{ErrorCode::io_failed, "the disk"};
  driven.run_for(numbers.disk);
  EXPECT_EQ(code_of(a), ErrorCode::io_failed);
  EXPECT_EQ(code_of(negative), ErrorCode::invalid);
  EXPECT_EQ(numbers.table["a"], 0);
  // It is open to the next.
  numbers.disk_error.reset();
  ask("a", 1, a);
  driven.run_for(numbers.disk);
  EXPECT_EQ(a, Result<int>(0));
}

TEST_F(GroupCommitTest, nothing_is_appended_that_could_not_be_applied) {
  numbers.not_ready = Error{ErrorCode::storage_full, "the index"};
  Answer a;
  ask("a", 11, a);
  driven.settle();
  EXPECT_EQ(code_of(a), ErrorCode::storage_full);
  EXPECT_TRUE(numbers.log.empty());
}

TEST_F(GroupCommitTest, members_are_told_when_what_comes_behind_the_record_fails) {
  numbers.not_finished = Error{ErrorCode::io_failed, "a file"};
  Answer a;
  ask("a", 1, a);
  driven.run_for(numbers.disk);
  EXPECT_EQ(code_of(a), ErrorCode::io_failed);
  EXPECT_EQ(numbers.table["a"], 1);
}

// [GP-5]
TEST_F(GroupCommitTest, of_a_group_that_failed_some_are_tried_again_before_all_others) {
  keep_busy();
  Answer large, small, later;
  ask("large", 100, large);
  ask("small", 1, small);
  finish_busy();
  ask("later", 100, later);
  numbers.disk_error = Error{ErrorCode::storage_full, "the disk"};
  driven.run_for(numbers.disk);
  EXPECT_EQ(code_of(large), ErrorCode::storage_full);
  EXPECT_FALSE(small || later);
  numbers.disk_error.reset();
  driven.run_for(numbers.disk);
  EXPECT_EQ(small, Result<int>(0));
  EXPECT_EQ(later, Result<int>(0));
  EXPECT_EQ(numbers.log, (std::vector<std::string>{"busy", "small", "later"}));
}

TEST_F(GroupCommitTest, a_group_that_failed_is_not_tried_again_as_it_was) {
  numbers.disk_error = Error{ErrorCode::storage_full, "the disk"};
  Answer a, b;
  ask("a", 1, a);
  driven.settle();
  ask("b", 2, b);
  driven.run_for(numbers.disk);
  EXPECT_EQ(code_of(a), ErrorCode::storage_full);
  EXPECT_FALSE(b);
  driven.run_for(numbers.disk);
  EXPECT_EQ(code_of(b), ErrorCode::storage_full);
}

// [GP-6]
TEST_F(GroupCommitTest, behind_what_could_not_be_applied_nothing_is_appended) {
  numbers.table_error = Error{ErrorCode::degraded, "the table"};
  Answer a, b;
  ask("a", 1, a);
  driven.run_for(numbers.disk);
  EXPECT_EQ(code_of(a), ErrorCode::degraded);
  numbers.table_error.reset();
  ask("b", 1, b);
  driven.run_for(numbers.disk);
  EXPECT_EQ(code_of(b), ErrorCode::degraded);
  EXPECT_EQ(numbers.log, std::vector<std::string>{"a"});
  EXPECT_EQ(std::ranges::count(numbers.steps, "refuse b"), 1);
}

TEST_F(GroupCommitTest, what_was_asked_for_before_the_task_was_stopped_is_done) {
  Answer a, b, late;
  ask("a", 1, a);
  driven.settle();
  ask("b", 1, b);
  tasks.cancel(StopReason::draining);
  driven.run_for(Duration::seconds(1));
  EXPECT_EQ(a, Result<int>(0));
  EXPECT_EQ(b, Result<int>(0));
  ask("late", 1, late);
  driven.run_for(Duration::seconds(1));
  EXPECT_FALSE(late);
  numbers.errands().close();
  driven.settle();
  EXPECT_EQ(code_of(late), ErrorCode::draining);
}

}  // namespace
}  // namespace cairn::store
