// Mailbox: the only way into a shard from another thread. Its owner drains it once a loop turn.
//   [I-1] A posted item is delivered exactly once, on the owner, in the order of posting.
//   [I-2] No wake-up is lost: an item posted after arm() succeeded calls notify; one posted before makes
//         arm() fail.
//   [I-3] Nothing here grows without bound: each MailItem is part of something bounded (a pool job, a
//         grant), and at most `call_capacity` free-standing calls wait at a time.
//
// Atomic protocol, one word: awake -> armed (owner, before it sleeps) -> mail (a poster) -> awake (owner,
// before it takes the list). A poster first links its item under the lock, then exchanges the word to
// `mail`, and notifies if it was `armed`. The owner goes to sleep only if its compare-and-swap awake ->
// armed succeeds. Both act on the same word, so one of them comes first in its modification order: either
// the owner sees `mail` and stays up, or the poster sees `armed` and notifies. The release of the exchange
// pairs with the owner's acquire; the list itself is under its lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>

#include "base/result.h"
#include "runtime/guarded.h"

namespace cairn {

// The base of an object that is posted. The object's owner keeps it alive until `deliver` is called, and may
// reuse it after.
struct MailItem {
  MailItem* next = nullptr;
  void (*deliver)(MailItem& item) = nullptr;
};

class Mailbox {
 public:
  static constexpr std::size_t default_call_capacity = 1024;

  // `notify` is called from posting threads, at most once for each arm(): it must not block (an eventfd
  // write; nothing in simulation, whose driver polls the mailboxes).
  explicit Mailbox(std::function<void()> notify, std::size_t call_capacity = default_call_capacity);
  ~Mailbox();  // precondition: no more posters, and drained
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  // From any thread. Precondition: item.deliver is set and the item is not posted already.
  void post(MailItem& item) noexcept;
  // From any thread: runs `call` on the owner. `busy` when call_capacity calls wait already.
  Result<> try_post_call(std::function<void()> call);

  // --- the owner, with its shard current
  // Delivers the items that have arrived by now and returns how many. An item posted by a delivery waits for
  // the next drain.
  std::size_t drain();
  // Before sleeping. False: there is mail, do not sleep. True: a post will notify. drain() disarms.
  [[nodiscard]] bool arm() noexcept;
  // Calls that wait. From any thread.
  std::size_t calls() const;
  bool has_mail() const noexcept { return state_.load(std::memory_order_acquire) == State::mail; }

 private:
  enum class State : std::uint8_t { awake, armed, mail };
  struct Queue {
    MailItem* first = nullptr;
    MailItem* last = nullptr;
    std::size_t calls = 0;

    void append(MailItem& item) noexcept;
  };
  struct CallItem;
  void announce() noexcept;
  void touch() const noexcept;

  std::function<void()> notify_;
  std::size_t call_capacity_;
  std::uint64_t identity_ = 0;
  std::atomic<State> state_{State::awake};
  Guarded<Queue, lock_rank::mailbox> queue_;
};

}  // namespace cairn
