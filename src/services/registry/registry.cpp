#include "services/registry/registry.h"

#include "services/registry/home.h"
#include "services/registry/port.h"

namespace cairn::registry {
namespace {

constexpr Duration slow_memory = Duration::seconds(5);

}  // namespace

Registry::Registry(RegistryOptions options)
    : options_(std::move(options)),
      audit_(options_.queues.audit),
      proposals_(options_.queues.proposals),
      approvals_(options_.queues.approvals),
      commits_(options_.queues.commits) {}
// Its port takes itself off the list, which must still be there.
Registry::~Registry() { home_.reset(); }

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): outlives the registry
Task<Result<>> Registry::open(Call call, io::Machine& machine, observe::Logger log) {
  home_ = std::make_unique<Home>(*this, machine, log);
  auto opened = co_await home_->open(call);
  if (!opened) home_.reset();
  co_return opened;
}

Task<Result<>> Registry::close(Call call) { return home_->close(call); }

std::unique_ptr<Port> Registry::make_port(io::Machine& machine) {
  return std::make_unique<Port>(*this, machine);
}

bool Registry::writable(Instant now) const noexcept {
  if (!status_.open || status_.fenced || status_.full || status_.bad > 0) return false;
  const std::int64_t since = status_.append_since;
  if (since != 0 && now - Instant{since} > options_.slow_sync) return false;
  // A slow one is held against the disk for a while; then the next write shows whether it still is.
  return Duration{status_.append_took} <= options_.slow_sync ||
         now - Instant{status_.append_ended} > slow_memory;
}

std::uint64_t Registry::queue_depth(std::string_view queue) noexcept {
  if (queue == "proposals") return proposals_.taken();
  if (queue == "approvals") return approvals_.taken();
  if (queue == "chores") return chores_.taken();
  if (queue == "audit") return audit_.with([](const AuditTable& table) { return table.waiting(); });
  if (queue == "retention_cmd") return home_->retention_commands();
  return commits_.taken();
}

void Registry::announce(const Head& head) {
  ports_.with([&](PortList& list) {
    for (auto& [port, mailbox] : list.ports) port->push(head, *mailbox);
  });
}

void Registry::forget_segment(std::uint32_t segment) {
  ports_.with([&](PortList& list) {
    for (auto& [port, mailbox] : list.ports) port->push_gone(segment, *mailbox);
  });
}

}  // namespace cairn::registry
