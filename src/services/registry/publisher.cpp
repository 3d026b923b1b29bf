#include "services/registry/publisher.h"

namespace cairn::registry {

Task<> publish_heads(Call call, Port* port, Publish publish, std::function<void(std::uint64_t)> lagged,
                     PublisherState* state) {
  Broadcast<Head>::Receiver receiver(port->committed());
  for (std::uint64_t next = port->told().version + 1;;) {
    const auto head = co_await receiver.recv(call);
    if (!head && head.error().code == ErrorCode::lagged) continue;
    if (!head) co_return;
    // Versions were missed here, or dropped on their way to this shard.
    if (head->version > next) lagged(head->version - next);
    next = head->version + 1;
    // A head that cannot be published is like a missed one: listeners ask for the head.
    state->since = current_shard()->now();
    state->failed = !co_await publish(call, *head);
    state->since.reset();
    if (state->failed && !call.stopped()) lagged(1);
  }
}

}  // namespace cairn::registry
