// ChangeFeed: the addresses of a process's stores whose bytes began or ceased to be served, on their way from
// the committers, each on its own shard, to one reader. The feed says that something has changed at an
// address, and not what: the reader looks, and so no order of news can mislead it.
//
//   [CF-1] What was told is taken, or the reader is told that anything may have changed.
//   [CF-2] A committer never waits for the reader: it copies addresses under a short lock, into memory that
//         is there.
//   [CF-3] A reader that waits is woken by what is told after it had looked.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/address.h"
#include "base/units.h"
#include "runtime/guarded.h"
#include "runtime/mailbox.h"
#include "runtime/task.h"
#include "runtime/wait.h"
#include "store/locks.h"

namespace cairn::store {

// The capacity of `changed`.
inline constexpr std::uint64_t changed_capacity = 4096;
inline constexpr char changed_full[] = "more has changed than there is room for: anything may have";

class ChangeFeed {
 public:
  explicit ChangeFeed(std::size_t capacity = changed_capacity);
  ChangeFeed(const ChangeFeed&) = delete;
  ChangeFeed& operator=(const ChangeFeed&) = delete;

  // --- from any shard
  void tell(std::span<const Address> addresses, Instant now) noexcept;
  // Anything may have changed.
  void tell_all(Instant now) noexcept;

  // --- from any thread
  struct Depth {
    std::size_t changes = 0;
    std::optional<Instant> oldest;  // when the first that waits was told, or that anything may have changed
    bool all = false;
    std::uint64_t dropped = 0;  // ever: what there was no room for
  };
  Depth depth() const noexcept;

  // --- the reader, one task of one shard
  // Before the first wait(). `mailbox` is the shard's; it delivers no mail once the feed is gone.
  void listen(Mailbox& mailbox) noexcept;
  struct Taken {
    std::vector<Address> changed;   // in order; an address that was told often is there as often
    std::optional<Instant> oldest;  // when the first of them was told
    // When anything may have changed; said once.
    std::optional<Instant> all;
  };
  Taken take(std::size_t most);
  // Waits until there is something to take. Cancel: clean.
  Task<Result<>> wait(Call call);

 private:
  struct Change {
    Address address;
    Instant told;
  };
  struct State {
    std::unique_ptr<Change[]> ring;
    std::size_t first = 0, size = 0;
    std::optional<Instant> all;
    std::uint64_t dropped = 0;
    Mailbox* reader = nullptr;
    bool waits = false;   // the reader does
    bool posted = false;  // the mail that wakes it is under way

    bool is_empty() const noexcept { return size == 0 && !all; }
  };
  struct Mail : MailItem {
    ChangeFeed* feed = nullptr;
  };
  void wake_reader(State& state) noexcept;
  void delivered() noexcept;

  const std::size_t capacity_;
  Guarded<State, changed_lock.rank> state_;
  Mail mail_;
  WaitList waiting_;  // of the reader's shard
};

}  // namespace cairn::store
