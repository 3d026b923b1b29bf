// Mailbox: an owner that sleeps when there is nothing, and posters at any moment. No letter is lost, doubled
// or left lying beside a sleeper. (Between threads the same protocol is a matter of one atomic word.)
#include <fmt/format.h>

#include <array>
#include <string>

#include "model/models.h"
#include "runtime/mailbox.h"
#include "runtime/mpsc.h"
#include "runtime/wait.h"

namespace cairn::model {
namespace {

class MailboxSleep : public Model {
 public:
  MailboxSleep(World& world, int posters, int letters)
      : world_(world),
        total_(posters * letters),
        bell_(world.shard, 1),
        box_([this] { (void)bell_.try_send(0); }, 8) {
    for (int i = 0; i < posters; ++i) world.scope.spawn("poster", poster(world.scope.call(), i, letters));
    world.scope.spawn("owner", owner(world.scope.call()));
  }
  ~MailboxSleep() override { box_.drain(); }
  void at_end() override {
    world_.expect(delivered_ <= total_, "doubled_item", "a letter came twice");
    world_.expect(delivered_ == total_, "lost_item", "a letter was not delivered");
  }
  std::string state() const override { return fmt::format("delivered={} slept={}", delivered_, slept_); }

 private:
  Task<> poster(Call call, int who, int letters) {
    for (int i = 0; i < letters; ++i) {
      const auto posted = box_.try_post_call([this, who, i] { deliver(who, i); });
      world_.expect(posted.has_value(), "wrong_error", "a letter was refused");
      co_await yield(call);
    }
  }
  void deliver(int who, int letter) {
    int& next = next_[static_cast<std::size_t>(who)];
    world_.expect(letter == next++, "order", "letters of one poster overtook each other");
    ++delivered_;
  }
  // Stands for the loop: deliver, and sleep only when armed.
  Task<> owner(Call call) {
    while (delivered_ < total_) {
      box_.drain();
      if (delivered_ == total_) break;
      co_await yield(call);  // the turn goes on; letters may come
      if (!box_.arm()) continue;
      ++slept_;
      if (!co_await bell_.recv(call)) break;
    }
  }

  World& world_;
  int total_;
  Mpsc<int> bell_;
  Mailbox box_;
  std::array<int, 2> next_{};
  int delivered_ = 0, slept_ = 0;
};

}  // namespace

void add_mailbox_models(std::vector<ModelSpec>& to) {
  to.push_back(spec<MailboxSleep>("mailbox_sleep", 2, 2));
}

}  // namespace cairn::model
