// ProcessBus: the events of all services of a process, heard on every shard.
//   [PB-1] An event is heard on every shard; events of one publishing shard are heard in their order. A shard
//         whose mailbox is full does not hear an event of another shard, and the event counts as lost.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "runtime/broadcast.h"
#include "runtime/mailbox.h"
#include "runtime/task.h"
#include "serve/events.h"

namespace cairn::serve {

// The next event of that kind. Other events do not extend the deadline. Errors: those of the receiver.
// Cancel: clean.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller waits
inline Task<Result<Event>> next_of(Call call, Broadcast<Event>::Receiver& receiver, Event::Kind kind) {
  for (;;) {
    // If events come without a pause, recv() never waits, and so never notices the deadline.
    if (call.expired()) co_return fail(ErrorCode::timeout, "an event");
    CO_TRY(const Event event, co_await receiver.recv(call));
    if (event.kind == kind) co_return event;
  }
}

class ProcessBus {
 public:
  // Shards are attached in their order, before any of them runs, and are the same for every service.
  void attach(Shard& shard, Mailbox& mailbox) {
    if (shard.index() < parts_.size()) return;  // by another service
    CHECK(shard.index() == parts_.size());
    parts_.push_back({&mailbox, std::make_shared<Ear>(shard)});
  }
  // The events heard on that shard, for its own tasks.
  Broadcast<Event>& events(unsigned shard) noexcept { return parts_[shard].ear->events; }
  // How many events that shard has lost so far. From any thread.
  std::uint64_t lost(unsigned shard) const noexcept {
    return parts_[shard].ear->lost.load(std::memory_order_relaxed);
  }

  // On an attached shard. Never waits.
  void publish(const Event& event) {
    const unsigned here = current_shard()->index();
    for (unsigned i = 0; i < parts_.size(); ++i) {
      Part& part = parts_[i];
      if (i == here)
        (void)part.ear->events.send(event);
      else if (!part.mailbox->try_post_call([ear = part.ear, event] { (void)ear->events.send(event); }))
        part.ear->lost.fetch_add(1, std::memory_order_relaxed);
    }
  }

 private:
  struct Ear {
    explicit Ear(Shard& shard) : events(shard, events_capacity) {}
    Broadcast<Event> events;
    std::atomic<std::uint64_t> lost{0};  // publishes nothing else
  };
  struct Part {
    Mailbox* mailbox;
    std::shared_ptr<Ear> ear;  // shared with mail that is still on its way when the process ends
  };
  std::vector<Part> parts_;
};

}  // namespace cairn::serve
