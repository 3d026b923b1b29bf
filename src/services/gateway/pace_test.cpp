#include "services/gateway/pace.h"

#include <gtest/gtest.h>

#include <optional>

#include "runtime/driven_shard.h"
#include "runtime/fair_turns.h"
#include "runtime/scarce_memory.h"

namespace cairn::gateway {
namespace {

// A slice after a pause, or an exception instead.
class SlowBody final : public http::RequestBody {
 public:
  SlowBody() { reset(false); }
  Duration pause = Duration::seconds(3);
  bool breaks = false;

 private:
  Task<Result<Buffer>> pull(Call call) override {
    CO_TRY_VOID(co_await sleep_for(call, pause));
    if (breaks) throw std::bad_alloc();
    co_return Buffer();
  }
};

class Pace : public testing::Test {
 protected:
  struct Counted final : Turnstile {
    Task<Result<Turn>> ask(Call, Seeking) override { co_return Turn(*this); }
    Task<> work(Call) override { co_return; }
    void close() noexcept override {}
    std::size_t depth() const noexcept override { return 0; }
    void give_back(DrrTenant*) noexcept override { ++back; }
    int back = 0;
  };

  Task<> take(Call call) {
    try {
      outcome = co_await next_in_pace(call, request, driven.shard.now());
    } catch (const std::bad_alloc&) {
      broken = true;
    }
  }
  void begin() { driven.scope.spawn("handler", take(driven.call())); }

  DrivenShard driven;
  Counted turns;
  SlowBody body;
  http::RequestHead head;
  http::Exchange exchange{head, body};
  serve::Request request{exchange};
  std::optional<Result<Buffer>> outcome;
  bool broken = false;
};

TEST_F(Pace, a_slow_body_gives_its_turn_back_and_comes_all_the_same) {
  request.turn = Turn(turns);
  begin();
  driven.run_for(Duration::millis(900));
  EXPECT_EQ(turns.back, 0);
  driven.run_for(Duration::millis(200));
  EXPECT_EQ(turns.back, 1);
  driven.run();
  EXPECT_TRUE(outcome && *outcome);
}

TEST_F(Pace, an_exception_of_the_body_is_its_requests_alone) {
  body.breaks = true;
  body.pause = Duration::millis(10);
  request.turn = Turn(turns);
  begin();
  driven.run();
  EXPECT_TRUE(broken);
  EXPECT_TRUE(driven.scope.empty());
}

TEST_F(Pace, without_memory_the_request_fails_and_nothing_else) {
  if (!ScarceMemory::works) GTEST_SKIP() << "the sanitizer's memory does not run out";
  request.turn = Turn(turns);
  begin();
  int failed = 0;
  // What was made stays in the shard's pool: each time there is memory for one thing more.
  for (; !outcome && failed < 20; ++failed) {
    {
      const ScarceMemory memory(1);
      driven.run();
    }
    if (outcome) break;
    EXPECT_TRUE(std::exchange(broken, false));
    EXPECT_TRUE(driven.scope.empty());
    begin();
  }
  EXPECT_GE(failed, 3);
  EXPECT_TRUE(*outcome);
}

}  // namespace
}  // namespace cairn::gateway
