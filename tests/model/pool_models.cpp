// The pool's own queue, with lane threads and the shard's loop as tasks: jobs are taken, worked on, given
// back and taken back at any moment, and a lane with a single place refuses most of them. Nobody is
// forgotten, nothing runs twice, and `undone` is the truth.
#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>

#include "model/models.h"
#include "runtime/mpsc.h"
#include "runtime/pool.h"
#include "runtime/wait.h"

namespace cairn::model {
namespace {

constexpr Lane lane = Lane::read;

LaneSizes driven(std::size_t queue) {
  LaneSizes sizes{};
  for (LaneSize& size : sizes) size = {0, queue};
  return sizes;
}

// Rings when there is something to take.
class RingingPort final : public PoolPort {
 public:
  RingingPort(ThreadPool& threads, Mailbox& home, Mpsc<int>& bell) noexcept
      : PoolPort(threads, home), bell_(bell) {}
  Result<> try_submit(Lane to, PoolJob& job) override {
    auto taken = PoolPort::try_submit(to, job);
    if (taken) (void)bell_.try_send(0);
    return taken;
  }

 private:
  Mpsc<int>& bell_;
};

class PoolRoom : public Model {
 public:
  PoolRoom(World& world, std::size_t queue, int lanes, int plain, int hurried, int victims)
      : world_(world),
        victims_(world.shard, world.scope.call()),
        threads_(driven(queue)),
        work_(world.shard, 16),
        mail_(world.shard, 1),
        box_([this] { (void)mail_.try_send(0); }, 8),
        port_(threads_, box_, work_),
        asked_(plain + hurried + victims) {
    threads_.start();
    for (int i = 0; i < lanes; ++i) world.scope.spawn("lane", serve(world.scope.call()));
    world.scope.spawn("loop", loop(world.scope.call()));
    int number = 0;
    for (int i = 0; i < plain; ++i) world.scope.spawn("plain", ask(world.scope.call(), false, number++));
    for (int i = 0; i < hurried; ++i) world.scope.spawn("hurried", ask(world.scope.call(), true, number++));
    for (int i = 0; i < victims; ++i) victims_.spawn("victim", ask(victims_.call(), false, number++));
    if (victims > 0) world.scope.spawn("canceller", cancels(victims_, StopReason::client_gone));
  }
  ~PoolRoom() override {
    threads_.stop();
    box_.drain();
  }
  bool may_wait_at_end(const TaskInfo& task) const override {
    return std::string_view(task.name) == "lane" || std::string_view(task.name) == "loop";
  }
  void at_end() override {
    world_.expect(answered_ + left_ == asked_, "lost_item", "a job got no answer");
    world_.expect(port_.jobs() == 0, "leaked_job", "a job is alive with nobody waiting and nothing running");
    world_.expect(port_.orphaned() == 0, "leaked_job", "a completed job is still counted as orphaned");
    for (const Fate& fate : fates_)
      world_.expect(!fate.unknown || fate.ran, "phantom_item",
                    "a job that never began was not called undone");
  }
  std::string state() const override {
    return fmt::format("answered={} left={} ran={}", answered_, left_, ran_);
  }

 private:
  struct Fate {
    bool ran = false, undone = false, unknown = false;
  };
  struct Count {
    PoolRoom* model;
    std::size_t number;
    int operator()() const {
      Fate& fate = model->fates_[number];
      model->world_.expect(!fate.ran, "doubled_item", "a job ran twice");
      model->world_.expect(!fate.undone, "phantom_item", "a job that was called undone ran");
      fate.ran = true;
      ++model->ran_;
      return static_cast<int>(number);
    }
  };
  Task<> serve(Call call) {
    while (co_await work_.recv(call)) {
      PoolJob* job = threads_.try_take(lane);
      if (job == nullptr) continue;  // taken back
      co_await yield(call);
      job->work();
      threads_.finish(lane, *job);
    }
  }
  // Delivers, and sleeps only when armed.
  Task<> loop(Call call) {
    for (;;) {
      box_.drain();
      if (!box_.arm()) continue;
      if (!co_await mail_.recv(call)) break;
    }
  }
  Task<> ask(Call call, bool hurried, int number) {
    const auto index = static_cast<std::size_t>(number);
    auto answer =
        co_await run(port_, hurried ? call.within(Duration::seconds(1)) : call, lane, Count{this, index});
    Fate& fate = fates_[index];
    if (answer) {
      world_.expect(*answer == number, "wrong_answer", "an answer of another job");
      ++answered_;
      co_return;
    }
    world_.expect(!answer.error().undone || !fate.ran, "phantom_item", "a job that ran is called undone");
    (answer.error().undone ? fate.undone : fate.unknown) = true;
    ++left_;
  }

  World& world_;
  Scope victims_;
  ThreadPool threads_;
  Mpsc<int> work_, mail_;
  Mailbox box_;
  RingingPort port_;
  int asked_;
  std::array<Fate, 4> fates_{};
  int answered_ = 0, left_ = 0, ran_ = 0;
};

}  // namespace

void add_pool_models(std::vector<ModelSpec>& to) {
  to.push_back(spec<PoolRoom>("pool_room", std::size_t{1}, 1, 3, 0, 0));
  to.push_back(spec<PoolRoom>("pool_room_deadline", std::size_t{1}, 1, 1, 2, 0));
  to.push_back(spec<PoolRoom>("pool_room_cancel", std::size_t{1}, 1, 1, 0, 2));
}

}  // namespace cairn::model
