#include "services/registry/auditor.h"

#include <algorithm>

#include "runtime/wait.h"
#include "services/registry/recorded_time.h"

namespace cairn::registry {
namespace {

constexpr Duration between_flushes = Duration::seconds(1);
constexpr Duration patience = Duration::seconds(5);
constexpr std::size_t slots_per_look = 256;

}  // namespace

Task<> Auditor::run(Call call, std::function<void(std::uint64_t)> tell) {
  // Readers need to know the newest sequence, even when no event comes.
  (void)co_await open_ring(call.within(patience));
  std::uint64_t told = registry_.status().audit_next;
  while (co_await sleep_for(call, between_flushes)) {
    (void)co_await flush(call, false);
    const std::uint64_t next = registry_.status().audit_next;
    if (std::exchange(told, next) < next) tell(next - 1);
  }
}

// Opens the ring, and finds where it goes on: behind the highest sequence that is in its place.
Task<Result<>> Auditor::open_ring(Call call) {
  io::Disk& disk = machine_.disk.upkeep();
  auto opened = co_await disk.open(call, registry_.audit_path(), io::OpenMode::write);
  if (!opened && opened.error().code == ErrorCode::not_found)
    opened = co_await disk.open(call, registry_.audit_path(), io::OpenMode::create_new);
  if (!opened) co_return fail(opened.error());
  const std::shared_ptr<io::File> file = std::move(*opened);
  const AuditRing& ring = registry_.options().audit;
  CO_TRY(const std::uint64_t size, file->size());
  const std::uint64_t slots = std::min(ring.slots, size / audit_slot_size);
  std::uint64_t last = 0;
  for (std::uint64_t first = 0; first < slots; first += slots_per_look) {
    const std::uint64_t count = std::min<std::uint64_t>(slots_per_look, slots - first);
    auto memory = std::make_shared<HeapBytes>(static_cast<std::size_t>(count * audit_slot_size));
    CO_TRY(const std::size_t got,
           co_await file->read_into(call, first * audit_slot_size, {memory->room(), memory}));
    memory->fill(got);
    const ByteView bytes = std::as_const(*memory).bytes();
    for (std::uint64_t i = 0; (i + 1) * audit_slot_size <= got; ++i)
      if (const auto slot = decode_slot(bytes.subspan(i * audit_slot_size, audit_slot_size));
          slot && ring.place_of(slot->sequence) == first + i)
        last = std::max(last, slot->sequence);
  }
  file_ = file;
  // Sequences that this process used are not used again, even if their slots were lost.
  Status& status = registry_.status();
  status.audit_next = std::max(status.audit_next.load(), last + 1);
  co_return Result<>{};
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): flush waits for it
Task<Result<>> Auditor::write_ring(Call call, const std::vector<AuditEvent>& events) {
  // A file that was removed is made anew.
  if (!file_ || !file_->is_named()) CO_TRY_VOID(co_await open_ring(call));
  const std::shared_ptr<io::File> file = file_;
  Status& status = registry_.status();
  const AuditRing& ring = registry_.options().audit;
  for (std::size_t i = 0; i < events.size();) {
    const std::uint64_t next = status.audit_next, place = ring.place_of(next);
    const std::size_t count = std::min<std::uint64_t>(events.size() - i, ring.slots - place);
    // A full disk's last space is not for the trail: the ring does not grow then.
    CO_TRY(const std::uint64_t size, file->size());
    if (status.full && (place + count) * audit_slot_size > size)
      co_return fail(ErrorCode::storage_full, "the disk is full");
    HeapBytes block(count * audit_slot_size);
    for (std::size_t k = 0; k < count; ++k) block.append(as_bytes(encode_slot({next + k, events[i + k]})));
    std::vector<HeapBytes> blocks;
    blocks.push_back(std::move(block));
    CO_TRY_VOID(co_await file->write_blocks(call, place * audit_slot_size, std::move(blocks), io::Sync::no));
    status.audit_next = next + count;
    i += count;
  }
  co_return Result<>{};
}

Task<Result<>> Auditor::flush(Call call, bool all) {
  Status& status = registry_.status();
  struct Taken {
    std::vector<AuditEvent> events;
    std::uint64_t dropped = 0;
  };
  const Taken taken = registry_.audit().with([&](AuditTable& table) {
    return Taken{table.take(recorded_time(machine_.shard), all), table.take_dropped()};
  });
  status.audit_dropped += taken.dropped;
  if (taken.events.empty()) co_return Result<>{};
  const std::uint64_t before = status.audit_next;
  const Result<> written = co_await write_ring(call.within(patience), taken.events);
  if (!written) {
    // The first events may have been written.
    const std::uint64_t there = before == 0 ? 0 : status.audit_next - before;
    status.audit_dropped += taken.events.size() - std::min<std::uint64_t>(there, taken.events.size());
    file_.reset();
    if (!call.stopped() && !std::exchange(told_, true))
      log_.warn("the audit trail is not written: events are dropped", {{"why", written.error().context}});
  } else if (std::exchange(told_, false)) {
    log_.info("the audit trail is written again");
  }
  co_return written;
}

}  // namespace cairn::registry
