// DhtAsk: one get or put of one shard: what the network's callbacks, on a thread of their own, hand to the
// task that waits. Used by the real and the simulated network, so that a simulation runs the same way in.
//   [DQ-1] Once the task has left, nothing is posted to its shard and nothing is kept any more.
//   [DQ-2] It ends exactly once, from its task's view: with what the network said, or as failed when the
//         network has let go of it without a word. Of a closed node, whatever is not complete is `closed`.
//
// The network holds a DhtCaller, which may be copied into as many callbacks as it likes; the task holds the
// DhtAsk. Either may go first. The ask is posted under its lock, so that DQ-1 holds at once.
#pragma once

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "io/dht.h"
#include "runtime/guarded.h"
#include "runtime/mailbox.h"
#include "runtime/permits.h"

namespace cairn::io {

// What all asks of one node have in common. It outlives the node when asks do.
struct DhtLoad {
  Permits under_way{dht_under_way_most};
  Permits held{dht_held_most};
  // Publish no other memory.
  std::atomic<std::uint64_t> dropped{0};
  std::atomic<bool> closed{false};  // the node; whatever has not ended then ends with `closed`
};

enum class DhtEnd : std::uint8_t { none, complete, failed, no_node, closed };
// The error of an end that is not `complete`.
Error error_of(DhtEnd end) noexcept;

class DhtAsk final : public MailItem, public std::enable_shared_from_this<DhtAsk> {
 public:
  // `busy`: too many are under way; `closed`. `home` is the mailbox of this shard.
  static Result<std::shared_ptr<DhtAsk>> make(std::shared_ptr<DhtLoad> load, Mailbox& home);
  ~DhtAsk();
  DhtAsk(const DhtAsk&) = delete;
  DhtAsk& operator=(const DhtAsk&) = delete;

  // --- the task
  struct News {
    std::vector<DhtValue> values;
    DhtEnd end = DhtEnd::none;
    std::size_t dropped = 0;  // so far
  };
  News collect();
  WaitList& waiting() noexcept { return waiting_; }
  void leave() noexcept;

  // --- from any thread, by the DhtCaller
  bool give(std::uint64_t id, ByteView bytes);
  bool drop();
  void end(DhtEnd how) noexcept;
  bool wanted() const noexcept;

 private:
  struct State {
    std::vector<DhtValue> values;
    std::size_t given = 0;  // in all
    std::size_t dropped = 0;
    DhtEnd end = DhtEnd::none;
    bool left = false;
    std::shared_ptr<DhtAsk> posted;  // keeps itself alive while it is in the mailbox
  };
  DhtAsk(std::shared_ptr<DhtLoad> load, PermitHold place, Mailbox& home);
  void post(State& state) noexcept;
  void drop_one(State& state) noexcept;
  static void deliver_news(MailItem& item) noexcept;

  std::shared_ptr<DhtLoad> load_;
  PermitHold place_;
  Mailbox& home_;
  Guarded<State, lock_rank::dht_ask> state_;
  WaitList waiting_;  // of the shard
};

// The network's end of an ask. When the last copy goes and nothing was said, the ask has failed.
class DhtCaller {
 public:
  explicit DhtCaller(std::shared_ptr<DhtAsk> ask) : last_(std::make_shared<Last>(std::move(ask))) {}

  // False: no more is wanted.
  bool give(std::uint64_t id, ByteView bytes) const { return last_->ask->give(id, bytes); }
  // A value came that is not given, because it is not one of ours.
  bool drop() const { return last_->ask->drop(); }
  void end(DhtEnd how) const noexcept { last_->ask->end(how); }
  bool wanted() const noexcept { return last_->ask->wanted(); }

 private:
  struct Last {
    explicit Last(std::shared_ptr<DhtAsk> of) noexcept : ask(std::move(of)) {}
    ~Last() { ask->end(DhtEnd::failed); }
    Last(const Last&) = delete;
    Last& operator=(const Last&) = delete;
    std::shared_ptr<DhtAsk> ask;
  };
  std::shared_ptr<Last> last_;
};

// An error when the call was stopped, or its deadline has passed, before it began.
Result<> may_begin(const Call& call, const char* what) noexcept;
// `take` may check a signature for each value: others get a turn after so many.
inline constexpr std::size_t dht_values_per_turn = 8;

// The task's half of a get and of a put, once the ask was handed to the network.
// Cancel: partial — the network goes on by itself.
Task<Result<DhtOutcome>> take_values(Call call, std::shared_ptr<DhtAsk> ask, DhtSink take);
Task<Result<>> wait_for_end(Call call, std::shared_ptr<DhtAsk> ask);

}  // namespace cairn::io
