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
      commits_(options_.queues.commits) {
  note_verifier_.name = format_address(crypto::hash_object(as_bytes(options_.genesis.payload)));
  note_verifier_.key = options_.log_key->public_key();
}
// The home's port removes itself from the list of ports, which must still be there.
Registry::~Registry() { home_.reset(); }

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): outlives the registry
Task<Result<>> Registry::open(Call call, io::Machine& machine, observe::Logger log) {
  CO_TRY(home_, co_await Home::open(call, *this, machine, log));
  co_return Result<>{};
}

Task<Result<>> Registry::close(Call call) { return home_->close(call); }

std::unique_ptr<Port> Registry::make_port(io::Machine& machine) {
  return std::make_unique<Port>(*this, machine);
}

bool Registry::writable(Instant now) const noexcept {
  if (!status_.open || status_.fenced || status_.full || status_.bad > 0) return false;
  const std::int64_t since = status_.append_since;
  if (since != 0 && now - Instant{since} > options_.slow_sync) return false;
  // A slow append closes writes for a while; then the next write shows whether the disk is still slow.
  return Duration{status_.append_took} <= options_.slow_sync ||
         now - Instant{status_.append_ended} > slow_memory;
}

std::uint64_t Registry::queue_depth(std::string_view queue) noexcept {
  if (queue == "proposals") return proposals_.taken();
  if (queue == "approvals") return approvals_.taken();
  if (queue == "chores") return chores_.taken();
  if (queue == "audit") return audit_.with([](const AuditTable& table) { return table.waiting(); });
  if (queue == "retention_cmd") return home_->pruner().offers();
  return commits_.taken();
}

void Registry::publish_status(const store::Log& log) {
  ledger_.with([&](Ledger& ledger) {
    status_.versions = ledger.size();
    status_.first_kept = ledger.first_kept();
    status_.pending = ledger.pending().size();
    status_.bad = ledger.bad().size();
    status_.verified = ledger.verified();
    if (ledger.checkpoint()) {
      status_.checkpoint_at = ledger.checkpoint()->at.ms;
      status_.checkpoint_size = ledger.checkpoint()->size;
    }
  });
  std::uint64_t bytes = 0, count = 0;
  for (const store::SegmentInfo& segment : log.segments()) bytes += segment.size, ++count;
  status_.log_bytes = bytes;
  status_.segments = count;
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
