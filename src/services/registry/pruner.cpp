#include "services/registry/pruner.h"

#include <algorithm>
#include <set>

#include "runtime/wait.h"
#include "services/registry/recorded_time.h"
#include "store/segment.h"

namespace cairn::registry {
namespace {

constexpr std::size_t copies_per_batch = 256;
constexpr std::size_t copied_bytes_per_batch = 1u << 20;

}  // namespace

Task<> Pruner::run(Call call) {
  while (co_await offers_.recv(call)) {
    auto pruned = co_await run_once(call);
    if (!pruned && !call.stopped()) log_.warn("nothing was pruned", {{"why", pruned.error().context}});
  }
}

void Pruner::offer(std::uint64_t covered) {
  if (retention_.policy == Retention::Policy::none || offers_.try_send(std::uint64_t{covered})) return;
  ++registry_.status().prunes_skipped;
  log_.warn("a round of retention is left out: one is waiting", {{"size", covered}});
}

// The version below which the policy keeps nothing.
std::uint64_t Pruner::prune_limit(const Ledger& ledger) const {
  const std::uint64_t size = ledger.size();
  const std::uint64_t covered = ledger.checkpoint() ? ledger.checkpoint()->size : 0;
  std::uint64_t limit = 0;
  switch (retention_.policy) {
    case Retention::Policy::none:
      break;
    case Retention::Policy::by_count:
      limit = size > retention_.max_count ? size - retention_.max_count : 0;
      break;
    case Retention::Policy::by_age: {
      const std::int64_t oldest = recorded_time(machine_.shard).ms - retention_.max_age.to_millis();
      limit = ledger.first_kept();
      while (limit < size && ledger.version(limit).committed_at.ms < oldest) ++limit;
      break;
    }
    case Retention::Policy::by_size: {
      std::uint64_t bytes = 0;
      for (const store::SegmentInfo& segment : segments_.segments()) bytes += segment.size;
      std::uint32_t last = 0;
      for (const store::SegmentInfo& segment : segments_.segments()) {
        if (bytes <= retention_.target_bytes || !segment.sealed) break;
        bytes -= segment.size;
        last = segment.id;
      }
      limit = ledger.first_kept();
      while (limit < size && ledger.version(limit).commit.at.segment <= last) ++limit;
      break;
    }
  }
  // The leaves of the pruned versions go into one batch of the log, which takes half a segment.
  const std::uint64_t at_once = registry_.options().segment_size / 4 / sizeof(crypto::MerkleHash);
  return std::min({limit, covered, size - 1, ledger.first_kept() + at_once});
}

Task<Result<bool>> Pruner::run_once(Call call) {
  struct Cutting {
    Ledger::Cut cut;
    std::uint64_t first_kept = 0;
  };
  const Cutting cutting = registry_.ledger().with(
      [&](Ledger& ledger) { return Cutting{ledger.cut_at(prune_limit(ledger)), ledger.first_kept()}; });
  const std::uint64_t below = cutting.cut.below;
  bool worked = false;
  if (below > cutting.first_kept) {
    CO_TRY(const auto before, co_await port_.load_version(call, below - 1));
    CO_TRY(format::DescriptorSet set, format::decode_descriptor_set(as_bytes(before->payload)));
    auto mutation = std::make_unique<Mutation>(Mutation::Kind::prune);
    mutation->below = below;
    for (std::string& item : set.items)
      if (is_governor(as_bytes(item))) mutation->governors.push_back(std::move(item));
    CO_TRY_VOID(co_await chores_.ask(call, std::move(mutation)));
    log_.info("versions were pruned", {{"below", below}});
    worked = true;
  } else if (below == 0) {
    co_return false;
  }
  for (const store::SegmentInfo& segment : segments_.segments()) {
    if (segment.id >= cutting.cut.segments_below || !segment.sealed) break;
    CO_TRY(const bool gone, co_await prune_segment(call, segment));
    if (!gone) break;
    worked = true;
  }
  co_return worked;
}

// Copies the records that are still needed to the end of the log, then removes the segment.
Task<Result<bool>> Pruner::prune_segment(Call call, store::SegmentInfo segment) {
  CO_TRY(auto opened,
         co_await machine_.disk.open(call, store::segment_path(registry_.segment_directory(), segment.id),
                                     io::OpenMode::read));
  const std::shared_ptr<io::File> file = std::move(opened);
  store::SegmentScan scan(machine_, file, segment.id, segments_.key_of(segment.id),
                          store::segment_header_size, segment.size);
  auto batch = std::make_unique<Mutation>(Mutation::Kind::relocate);
  const std::size_t most =
      std::min<std::size_t>(copied_bytes_per_batch, registry_.options().segment_size / 8);
  std::size_t bytes = 0;
  std::set<std::uint64_t> copied;  // origins
  for (bool more = true; more;) {
    CO_TRY(auto found, co_await scan.next(call));
    // A damaged segment is kept.
    if (found.damage) co_return false;
    more = found.entry.has_value();
    if (more) {
      store::Entry& entry = *found.entry;
      const bool needed = registry_.ledger().with(
          [&](Ledger& ledger) { return ledger.needs(entry.header.kind, as_bytes(entry.meta), entry.at); });
      // An interrupted copy may have left the same record in the segment twice; one copy is enough.
      if (needed && copied.insert(entry.header.origin).second) {
        bytes += store::record_header_size + entry.meta.size();
        batch->copies.push_back(std::move(entry));
      }
    }
    if (batch->copies.empty() || (more && batch->copies.size() < copies_per_batch && bytes < most)) continue;
    CO_TRY_VOID(co_await chores_.ask(
        call, std::exchange(batch, std::make_unique<Mutation>(Mutation::Kind::relocate))));
    bytes = 0;
  }
  auto gone = std::make_unique<Mutation>(Mutation::Kind::segment_gone);
  gone->segment = segment.id;
  auto removed = co_await chores_.ask(call, std::move(gone));
  if (!removed && removed.error().code == ErrorCode::conflict) co_return false;
  if (!removed) co_return fail(removed.error());
  co_return true;
}

}  // namespace cairn::registry
