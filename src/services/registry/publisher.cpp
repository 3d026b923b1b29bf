#include "services/registry/publisher.h"

namespace cairn::registry {

Task<> publish_heads(Call call, Port* port, Publish publish, std::function<void(std::uint64_t)> lagged,
                     PublisherState* state) {
  Broadcast<Head>::Receiver receiver(port->committed());
  for (std::uint64_t next = port->told().version + 1;;) {
    const auto head = co_await receiver.recv(call);
    if (!head && head.error().code == ErrorCode::lagged) continue;
    if (!head) co_return;
    // Missed here, or dropped on their way to this shard: either way versions are left out.
    if (head->version > next) lagged(head->version - next);
    next = head->version + 1;
    // One that cannot be told is like one that was missed: whoever listens asks for the head.
    state->since = current_shard()->now();
    state->failed = !co_await publish(call, *head);
    state->since.reset();
    if (state->failed && !call.stopped()) lagged(1);
  }
}

}  // namespace cairn::registry
