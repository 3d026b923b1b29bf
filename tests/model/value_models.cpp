// Values on their way: config swap against readers (watch), broadcast with lag, oneshot answers.
#include <fmt/format.h>

#include <array>
#include <memory>
#include <string>

#include "model/models.h"
#include "runtime/broadcast.h"
#include "runtime/mpsc.h"
#include "runtime/oneshot.h"
#include "runtime/wait.h"
#include "runtime/watch.h"

namespace cairn::model {
namespace {

// A configuration is swapped while readers use it over several steps: each sees whole ones, newer ones only,
// and ends on the newest.
class ConfigSwap : public Model {
 public:
  ConfigSwap(World& world, int readers, int swaps, bool by_select, bool patient)
      : world_(world),
        readers_(readers),
        swaps_(swaps),
        patient_(patient),
        stop_(world.shard, 1),
        watch_(world.shard, make(0)) {
    for (int i = 0; i < readers; ++i)
      world.scope.spawn("reader",
                        by_select ? select_reader(world.scope.call(), i) : reader(world.scope.call(), i));
    world.scope.spawn("writer", writer(world.scope.call()));
  }
  void at_end() override {}
  std::string state() const override { return seen_[0] + ' ' + seen_[1]; }

 private:
  struct Config {
    int left, right;
  };
  using Handle = std::shared_ptr<const Config>;
  static Handle make(int n) { return std::make_shared<const Config>(n, n); }

  Task<> writer(Call call) {
    for (int i = 1; i <= swaps_; ++i) {
      watch_.set(make(i));
      co_await yield(call);
    }
    // The newest value arrives without the help of a close.
    for (int i = 0; patient_ && i < readers_; ++i)
      if (!co_await arrived_.recv(call)) co_return;
    watch_.close();
  }
  Task<> reader(Call call, int number) {
    auto receiver = watch_.subscribe();
    const bool busy = number == 0;  // uses what it read for another step before it waits again
    int newest = use(number, receiver.get(), -1);
    for (;;) {
      if (busy) {
        Handle held = receiver.get();
        co_await yield(call);
        world_.expect(held->left == held->right, "torn", "a reader saw half of a swap");
        if (held->left > newest) newest = use(number, held, newest);
      }
      auto changed = co_await receiver.changed(call);
      if (!changed) {
        world_.expect(changed.error().code == ErrorCode::closed, "wrong_error",
                      "the end was not told as closed");
        break;
      }
      newest = use(number, receiver.get(), newest);
    }
    finish(newest);
  }
  Task<> select_reader(Call call, int number) {
    auto receiver = watch_.subscribe();
    int newest = use(number, receiver.get(), -1);
    for (;;) {
      auto arm = co_await select(call, stop_.readable(), receiver.changed_arm());
      if (!arm) co_return;
      world_.expect(*arm == 1, "wrong_arm", "the stop arm was reported without a stop");
      if (!receiver.unseen()) {
        world_.expect(watch_.closed(), "wrong_arm", "a change was reported without a change");
        break;
      }
      newest = use(number, receiver.get(), newest);
      co_await yield(call);
    }
    finish(newest);
  }
  int use(int number, const Handle& config, int newest) {
    world_.expect(config->left == config->right, "torn", "a reader saw half of a swap");
    world_.expect(config->left > newest, "stale", "a change brought nothing newer");
    seen_[static_cast<std::size_t>(number)] += static_cast<char>('0' + config->left);
    if (config->left == swaps_) (void)arrived_.try_send(0);
    return config->left;
  }
  void finish(int newest) {
    world_.expect(newest == swaps_, "stale", "a reader did not end on the newest value");
  }

  World& world_;
  int readers_, swaps_;
  bool patient_;
  Mpsc<int> stop_, arrived_{world_.shard, 2};
  Watch<Handle> watch_;
  std::array<std::string, 2> seen_;
};

// Each receiver accounts for every item: received in order, or told as missed, once and exactly.
class BroadcastLag : public Model {
 public:
  BroadcastLag(World& world, std::size_t capacity, int items, int receivers, bool cancel)
      : world_(world), items_(items), victims_(world.shard, world.scope.call()), bus_(world.shard, capacity) {
    for (int i = 0; i < receivers; ++i)
      world.scope.spawn("receiver", cancel ? twice(world.scope.call(), i) : listen(world.scope.call(), i));
    world.scope.spawn("sender", sender(world.scope.call()));
    if (cancel) world.scope.spawn("canceller", cancels(victims_, StopReason::client_gone));
  }
  void at_end() override {}
  std::string state() const override { return heard_[0] + ' ' + heard_[1]; }

 private:
  using Bus = Broadcast<int>;
  struct Account {
    std::uint64_t next;  // the number of the item expected next
    std::string& heard;
    std::uint64_t sent_at_lag = 0;  // when it was last told of a lag
  };

  Task<> sender(Call call) {
    for (int i = 0; i < items_; ++i) {
      world_.expect(bus_.send(int(i)).has_value(), "wrong_error", "a send was refused");
      if (i % 2 == 1) co_await yield(call);
    }
    bus_.close();
  }
  Task<> listen(Call call, int number) {
    auto receiver = bus_.subscribe();
    Account account{bus_.sent(), heard_[static_cast<std::size_t>(number)]};
    while (note(receiver, co_await receiver.recv(call), account))
      if (number > 0) co_await yield(call);  // a slow one
    judge(account);
  }
  // Waits under a call that may be cancelled; what it would have got then comes to the next wait.
  Task<> twice(Call call, int number) {
    auto receiver = bus_.subscribe();
    Account account{bus_.sent(), heard_[static_cast<std::size_t>(number)]};
    Call now = call.under(victims_.source());
    for (;;) {
      auto item = co_await receiver.recv(now);
      if (!item && item.error().code == ErrorCode::cancelled)
        now = call;
      else if (!note(receiver, std::move(item), account))
        break;
    }
    judge(account);
  }
  // False when the bus has ended.
  bool note(Bus::Receiver& receiver, Result<int> item, Account& account) {
    if (item) {
      world_.expect(static_cast<std::uint64_t>(*item) >= account.next, "doubled_item", "an item came twice");
      world_.expect(static_cast<std::uint64_t>(*item) == account.next, "lost_item",
                    "an item was left out silently");
      ++account.next;
      account.heard += static_cast<char>('0' + *item);
      return true;
    }
    if (item.error().code == ErrorCode::lagged) {
      world_.expect(bus_.sent() > account.sent_at_lag, "lag_twice", "the same lag was told twice");
      world_.expect(receiver.missed() > 0, "lag_twice", "a lag of nothing was told");
      account.sent_at_lag = bus_.sent();
      account.next += receiver.missed();
      account.heard += 'L';
      return true;
    }
    world_.expect(item.error().code == ErrorCode::closed, "wrong_error", "the end was not told as closed");
    return false;
  }
  void judge(const Account& account) {
    world_.expect(account.next == static_cast<std::uint64_t>(items_), "lost_item",
                  "received and missed are not what was sent");
  }

  World& world_;
  int items_;
  Scope victims_;
  Bus bus_;
  std::array<std::string, 2> heard_;
};

// One answer, sent or never: the receiver's first wait may end by its deadline or a cancel, the second does
// not.
class OneshotAnswer : public Model {
 public:
  OneshotAnswer(World& world, bool sends)
      : world_(world), sends_(sends), victims_(world.shard, world.scope.call()), oneshot_(world.shard) {
    world.scope.spawn("receiver", receiver(world.scope.call()));
    world.scope.spawn("sender", sender(world.scope.call(), oneshot_.sender()));
    world.scope.spawn("canceller", cancels(victims_, StopReason::client_gone));
  }
  void at_end() override {
    world_.expect(received_ <= sent_, "doubled_item", "an answer came twice");
    world_.expect(received_ == sent_, "lost_item", "an answer was lost");
    world_.expect(sends_ == (sent_ == 1), "wrong_error", "an answer was refused");
  }
  std::string state() const override { return fmt::format("sent={} first={}", sent_, first_); }

 private:
  Task<> receiver(Call call) {
    auto answer = co_await oneshot_.recv(call.under(victims_.source()).within(Duration::seconds(1)));
    if (!answer && answer.error().code != ErrorCode::closed) {
      first_ = static_cast<int>(answer.error().code);
      co_await yield(call);
      answer = co_await oneshot_.recv(call);
    }
    if (answer)
      ++received_;
    else
      world_.expect(!sends_ && answer.error().code == ErrorCode::closed, "wrong_error",
                    "no answer, and no close");
  }
  Task<> sender(Call call, Oneshot<int>::Sender sender) {
    co_await yield(call);
    Oneshot<int>::Sender moved = std::move(sender);
    if (sends_ && moved.try_send(7)) ++sent_;
  }

  World& world_;
  bool sends_;
  Scope victims_;
  Oneshot<int> oneshot_;
  int sent_ = 0, received_ = 0, first_ = 0;
};

// Request and answer over a job queue: the asker waits in its own frame until a deadline, the worker may be
// slow, and the queue may be closed at any moment. Either end may be gone before the other.
class RequestReply : public Model {
 public:
  RequestReply(World& world, int askers) : world_(world), jobs_(world.shard, 1) {
    for (int i = 0; i < askers; ++i) world.scope.spawn("asker", asker(world.scope.call(), i));
    world.scope.spawn("worker", worker(world.scope.call()));
    world.scope.spawn("closer", closer());
  }
  void at_end() override {
    world_.expect(answers_ <= sent_, "doubled_item", "an answer came twice");
    world_.expect(answers_ + late_ >= sent_, "lost_item", "an answer reached nobody although one waited");
  }
  std::string state() const override {
    return fmt::format("answers={} sent={} late={}", answers_, sent_, late_);
  }

 private:
  struct Job {
    int number;
    Oneshot<int>::Sender reply;
  };
  Task<> asker(Call call, int number) {
    Oneshot<int> oneshot(world_.shard);
    {
      Job job{number, oneshot.sender()};
      if (!jobs_.try_send(std::move(job))) co_return;
    }
    auto answer = co_await oneshot.recv(call.within(Duration::seconds(1)));
    if (answer) {
      world_.expect(*answer == number, "wrong_answer", "an answer reached the wrong asker");
      ++answers_;
    } else {
      world_.expect(answer.error().code == ErrorCode::timeout, "wrong_error", "an accepted job was dropped");
      ++late_;
    }
    gone_[static_cast<std::size_t>(number)] = true;
  }
  Task<> worker(Call call) {
    for (;;) {
      auto job = co_await jobs_.recv(call);
      if (!job) break;
      if (!job->reply.wanted()) continue;
      co_await yield(call);
      if (!job->reply.try_send(int(job->number))) continue;
      world_.expect(!gone_[static_cast<std::size_t>(job->number)], "phantom_item",
                    "an answer was sent to nobody");
      ++sent_;
    }
  }
  Task<> closer() {
    jobs_.close();
    co_return;
  }

  World& world_;
  Mpsc<Job> jobs_;
  std::array<bool, 2> gone_{};
  int answers_ = 0, sent_ = 0, late_ = 0;
};

}  // namespace

void add_value_models(std::vector<ModelSpec>& to) {
  to.push_back(spec<ConfigSwap>("config_swap_readers", 2, 2, false, true));
  to.push_back(spec<ConfigSwap>("config_swap_close", 2, 2, false, false));
  to.push_back(spec<ConfigSwap>("config_swap_select", 2, 2, true, true));
  to.push_back(spec<BroadcastLag>("broadcast1_lag", 1u, 4, 2, false));
  to.push_back(spec<BroadcastLag>("broadcast2_lag", 2u, 6, 2, false));
  to.push_back(spec<BroadcastLag>("broadcast2_cancel", 2u, 4, 1, true));
  to.push_back(spec<OneshotAnswer>("oneshot_deadline_cancel", true));
  to.push_back(spec<OneshotAnswer>("oneshot_dying_sender", false));
  to.push_back(spec<RequestReply>("request_reply_deadline", 2));
}

}  // namespace cairn::model
