// Lifecycle: the services of one process from their start to their end, the same in real and simulated ones.
//   [LI-1] A service starts after those before it in the list, on shard 0 before the other shards; it lets
//         requests in when it has started on all of them.
//   [LI-2] The end has one deadline. All services drain at once, on every shard. Then they stop, through the
//         list backwards, each on shard 0 last: a service that others call is there until they have stopped.
//   [LI-3] A service stops exactly where it had started, once, and not while one of its tasks is still alive.
//   [LI-4] Health requests are answered until the last service has stopped.
// The Lifecycle lives on shard 0. It reaches the other shards by mail items that are its own members, so no
// full mailbox refuses them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "serve/node.h"

namespace cairn::serve {

struct LifecycleOutcome {
  const Node* failed = nullptr;  // the service that could not start
  Error failure;
  std::size_t aborted = 0;
  std::vector<std::string> still_alive;  // tasks that outlived their abort; their frames cannot be destroyed
};

struct LifecycleEvents {
  std::function<void()> serving = {};                // every service has started
  std::function<void(Duration within)> ending = {};  // by a signal, or because a service could not start
  // A shard's services, in their order, have drained.
  std::function<void(unsigned shard, const std::vector<DrainResult>& results)> drained = {};
};

class Lifecycle {
 public:
  // The time for a service's stop beyond the deadline of the drain. The rest of the drain's grace is for its
  // abort.
  static constexpr Duration stop_grace = Drain::grace / 2;

  // Each node comes after those it depends on. The nodes are attached and started, on the same shards, and
  // outlive this.
  explicit Lifecycle(std::vector<Node*> nodes, LifecycleEvents events = {});
  ~Lifecycle();
  Lifecycle(const Lifecycle&) = delete;
  Lifecycle& operator=(const Lifecycle&) = delete;

  // Starts the services, waits for end() or a service that cannot start, and ends the services. Cancel:
  // partial — it stops where it is; the caller takes the nodes down.
  Task<Result<LifecycleOutcome>> run(Call call);

  // --- on shard 0
  // On the first signal. A start that is under way is cancelled; that is no failure.
  void end(Duration within);
  // On the second signal.
  void abort();
  bool ending() const noexcept { return ending_; }
  // The longest of the services' timeouts.drain: the one deadline of them all.
  Duration drain_timeout() const noexcept;

 private:
  enum class Step : std::uint8_t { start, drain, stop, leave };
  struct Leg;

  unsigned shards() const noexcept { return static_cast<unsigned>(legs_.size()); }
  Task<Result<>> start_all(Call call);
  Task<Result<>> start_one(Call call, Node& node);
  Task<Result<>> drain_all(Call call);
  Task<Result<>> stop_one(Call call, Node& node);
  Task<Result<>> leave_one(Call call, Node& node);
  void gather(unsigned first, unsigned last);
  // Makes the shards [first, last) do a step of one service, or of all of them, and waits for the reports of
  // all.
  Task<Result<>> order(Call call, Step step, Node* node, unsigned first, unsigned last);
  void reported();

  std::vector<Node*> nodes_;
  LifecycleEvents events_;
  std::vector<std::unique_ptr<Leg>> legs_;  // by shard
  unsigned awaited_ = 0;                    // reports of the step under way
  bool ending_ = false, aborting_ = false;
  Instant deadline_ = Instant::never();
  WaitList waiters_;  // run(), for reports and for the end
  LifecycleOutcome outcome_;
};

}  // namespace cairn::serve
