#include "runtime/mailbox.h"

#include <memory>
#include <utility>

namespace cairn {

struct Mailbox::CallItem : MailItem {
  explicit CallItem(std::function<void()> what) : call(std::move(what)) {
    deliver = [](MailItem& item) {
      std::unique_ptr<CallItem> self(static_cast<CallItem*>(&item));
      self->call();
    };
  }
  std::function<void()> call;
};

void Mailbox::Queue::append(MailItem& item) noexcept {
  item.next = nullptr;
  (last == nullptr ? first : last->next) = &item;
  last = &item;
}

Mailbox::Mailbox(std::function<void()> notify, std::size_t call_capacity)
    : notify_(std::move(notify)), call_capacity_(call_capacity) {
  if (Shard* shard = current_shard()) identity_ = shard->new_identity();
}

Mailbox::~Mailbox() {
  CHECK(queue_.with([](const Queue& queue) { return queue.first == nullptr; }));
}

void Mailbox::touch() const noexcept {
  if (Shard* shard = current_shard()) shard->trace(identity_, Access::write);
}

void Mailbox::announce() noexcept {
  if (state_.exchange(State::mail, std::memory_order_acq_rel) == State::armed) notify_();
}

void Mailbox::post(MailItem& item) noexcept {
  touch();
  queue_.with([&](Queue& queue) { queue.append(item); });
  announce();
}

std::size_t Mailbox::calls() const {
  return queue_.with([](const Queue& queue) { return queue.calls; });
}

Result<> Mailbox::try_post_call(std::function<void()> call) {
  touch();
  auto item = std::make_unique<CallItem>(std::move(call));
  const bool accepted = queue_.with([&](Queue& queue) {
    if (queue.calls >= call_capacity_) return false;
    ++queue.calls;
    queue.append(*item);
    return true;
  });
  if (!accepted) return fail(ErrorCode::busy, "mailbox");
  (void)item.release();  // deletes itself on delivery
  announce();
  return {};
}

std::size_t Mailbox::drain() {
  touch();
  // A stale `awake` is harmless here: arm() decides before any sleep, and it sees the newest value.
  if (state_.load(std::memory_order_relaxed) == State::awake) return 0;
  // `awake` first, then the list: an item linked in between is taken now and merely announces an empty list
  // later. The other order would lose its wake-up.
  if (state_.exchange(State::awake, std::memory_order_acq_rel) != State::mail) return 0;
  Queue taken = queue_.with([](Queue& queue) { return std::exchange(queue, Queue{}); });
  std::size_t delivered = 0;
  for (MailItem* item = taken.first; item != nullptr; ++delivered) {
    MailItem* next = item->next;
    item->deliver(*item);  // may free or post the item again
    item = next;
  }
  return delivered;
}

bool Mailbox::arm() noexcept {
  touch();
  State expected = State::awake;
  return state_.compare_exchange_strong(expected, State::armed, std::memory_order_acq_rel) ||
         expected == State::armed;
}

}  // namespace cairn
