// Plain grids of tasks and awaits: they measure the explorer itself, and that it reaches every order.
#include <fmt/format.h>

#include "model/models.h"
#include "runtime/mpsc.h"
#include "runtime/wait.h"

namespace cairn::model {
namespace {

enum class Grain { apart, shared, mixed };

// N tasks of K steps. Apart: no two commute with anything in common, one order stands for all. Shared: every
// step meets every other, nothing can be left out. Mixed: every second step meets the others.
class Grid : public Model {
 public:
  Grid(World& world, int tasks, int steps, Grain grain) : world_(world), shared_(world.shard, 64) {
    for (int i = 0; i < tasks; ++i) own_.push_back(std::make_unique<Mpsc<int>>(world.shard, 64));
    for (int i = 0; i < tasks; ++i)
      world.scope.spawn("cell",
                        cell(world.scope.call(), *own_[static_cast<std::size_t>(i)], i, steps, grain));
  }
  void at_end() override {
    std::size_t sum = shared_.depth();
    for (auto& queue : own_) sum += queue->depth();
    world_.expect(sum == sent_, "lost_item", "a step left nothing behind");
  }
  // The order in which the shared steps came.
  std::string state() const override { return order_; }

 private:
  // One step for the start and one for each await but the last: `steps` in all.
  Task<> cell(Call call, Mpsc<int>& own, int who, int steps, Grain grain) {
    for (int i = 0; i < steps; ++i) {
      if (grain == Grain::shared || (grain == Grain::mixed && i % 2 == 0)) {
        (void)shared_.try_send(int(who));
        order_ += static_cast<char>('a' + who);
      } else {
        (void)own.try_send(int(who));
      }
      ++sent_;
      if (i + 1 < steps) co_await yield(call);
    }
  }
  World& world_;
  Mpsc<int> shared_;
  std::vector<std::unique_ptr<Mpsc<int>>> own_;
  std::string order_;
  std::size_t sent_ = 0;
};

}  // namespace

void add_grid_models(std::vector<ModelSpec>& to) {
  to.push_back(spec<Grid>("grid_3x4_shared", 3, 4, Grain::shared));
  to.push_back(spec<Grid>("grid_4x3_shared", 4, 3, Grain::shared));
  to.push_back(spec<Grid>("grid_3x6_apart", 3, 6, Grain::apart));
  to.push_back(spec<Grid>("grid_3x6_mixed", 3, 6, Grain::mixed));
}

}  // namespace cairn::model
