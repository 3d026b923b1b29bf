#include "services/registry/publisher.h"

namespace cairn::registry {

Task<> publish_heads(Call call, Port* port, Publish publish, std::function<void(std::uint64_t)> lagged) {
  Broadcast<Head>::Receiver receiver(port->committed());
  for (;;) {
    const auto head = co_await receiver.recv(call);
    if (!head && head.error().code == ErrorCode::lagged) {
      lagged(receiver.missed());
      continue;
    }
    if (!head) co_return;
    // One that cannot be told is like one that was missed: whoever listens asks for the head.
    if (!co_await publish(call, *head) && !call.stopped()) lagged(1);
  }
}

}  // namespace cairn::registry
