// The events that GET /registry/audit answers, read from the ring on the disk.
#include <algorithm>

#include "services/registry/port.h"

namespace cairn::registry {

Task<Result<AuditPage>> Port::read_audit(Call call, std::optional<std::uint64_t> after, std::uint64_t limit) {
  AuditPage page;
  const std::uint64_t next = registry_.status().audit_next;
  if (next <= 1) co_return page;
  const AuditRing& ring = registry_.options().audit;
  // Without a sequence to go on from: the newest events.
  const std::uint64_t wanted = after ? std::min(*after, next - 1) + 1 : next - std::min(next - 1, limit);
  const std::uint64_t first = std::max(wanted, ring.oldest(next)), end = std::min(next, first + limit);
  CO_TRY(auto opened, co_await machine_.disk.open(call, registry_.audit_path(), io::OpenMode::read));
  const std::shared_ptr<io::File> file = std::move(opened);
  for (std::uint64_t at = first; at < end;) {
    const std::uint64_t place = ring.place_of(at), count = std::min(end - at, ring.slots - place);
    auto memory = std::make_shared<HeapBytes>(static_cast<std::size_t>(count * audit_slot_size));
    CO_TRY(const std::size_t got,
           co_await file->read_into(call, place * audit_slot_size, {memory->room(), memory}));
    memory->fill(got);
    const ByteView bytes = std::as_const(*memory).bytes();
    // Slots that are torn, or were overwritten meanwhile, are left out.
    for (std::uint64_t i = 0; (i + 1) * audit_slot_size <= got; ++i)
      if (auto slot = decode_slot(bytes.subspan(i * audit_slot_size, audit_slot_size));
          slot && slot->sequence == at + i)
        page.events.push_back(std::move(*slot));
    at += count;
  }
  if (end < next) page.next = end - 1;
  co_return page;
}

}  // namespace cairn::registry
