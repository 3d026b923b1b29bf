// How the scrubber handles bad bytes: it names their objects, and releases the objects that are whole again.
#include "crypto/outboard.h"
#include "store/committer.h"
#include "store/kv_walk.h"
#include "store/scrubber.h"
#include "store/second_look.h"
#include "store/segment.h"

namespace cairn::store {
namespace {

constexpr std::size_t page = 256;  // parts

}  // namespace

void Scrubber::note_damage(const Damage& damage) {
  if (damage.lost) {
    parts_.log.error(
        damage.from == 0 ? "a segment of the log is missing" : "the end of a segment is lost",
        {{"segment", damage.segment}, {"from", damage.from}, {"last_sequence", damage.last_sequence}});
    return;
  }
  parts_.store.status().damage.fetch_add(1);
  parts_.damaged[damage.segment] = true;
  parts_.log.error("the log has a damaged place", {{"segment", damage.segment},
                                                   {"from", damage.from},
                                                   {"to", damage.to},
                                                   {"first_sequence", damage.first_sequence},
                                                   {"last_sequence", damage.last_sequence}});
  found_.push_back(damage);
}

Task<Result<>> Scrubber::quarantine(Call call, Address address, std::uint64_t origin, Position at) {
  auto mutation = std::make_unique<Mutation>(Mutation::Kind::quarantine);
  mutation->address = address;
  mutation->origin = origin;
  mutation->at = at;
  parts_.damaged[at.segment] = true;
  CO_TRY_VOID(co_await committer_.submit(call, std::move(mutation)));
  co_return Result<>{};
}

Task<Result<>> Scrubber::quarantine_damage(Call call, Damage damage) {
  const Position at{damage.segment, damage.lost ? 0 : static_cast<std::uint32_t>(damage.from)};
  return quarantine_hurt(
      call, [damage](const Place& place) { return HomeParts::is_hit(place, {&damage, 1}); }, at);
}

Task<Result<>> Scrubber::quarantine_cut(Call call) {
  std::map<std::uint32_t, std::uint64_t> ends;
  for (const SegmentInfo& one : parts_.segments->segments()) {
    if (!one.sealed) continue;  // it grows while it is looked at
    auto file = co_await parts_.files->get(call, one.id);
    if (!file && file.error().code == ErrorCode::not_found) continue;  // compaction may have taken it away
    if (!file) co_return fail(file.error());
    CO_TRY(ends[one.id], (*file)->size());
  }
  const auto is_beyond = [&ends](const Place& place) {
    const auto end = ends.find(place.at.segment);
    return end != ends.end() && place.end() > end->second;
  };
  co_return co_await quarantine_hurt(call, is_beyond, std::nullopt);
}

Task<Result<>> Scrubber::quarantine_hurt(Call call, PlaceTest is_bad, std::optional<Position> at) {
  KvWalk walk(*parts_.kv, object_prefix);
  for (;;) {
    CO_TRY(const auto found, co_await walk.next(call));
    if (found.empty()) co_return Result<>{};
    for (const KvPair& pair : found) {
      ObjectEntry entry;
      if (!decode(as_bytes(pair.value), entry) || entry.quarantined()) continue;
      CO_TRY(const bool hit, co_await parts_.is_hurt(call, entry, is_bad));
      if (hit)
        CO_TRY_VOID(co_await quarantine(call, address_in(pair.key), entry.origin,
                                        at.value_or(Position{entry.place.at.segment, 0})));
    }
  }
}

Task<Result<bool>> Scrubber::is_right_on_disk(
    Call call, std::shared_ptr<io::File> file,
    // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller waits
    const Entry& entry) {
  if (entry.header.data_size == 0) co_return is_data_right(entry.header, as_bytes(entry.meta), {});
  const auto data = co_await read_past_cache(call, std::move(file), entry.data_at(), entry.header.data_size);
  if (!data && data.error().code == ErrorCode::io_failed) co_return false;
  if (!data) co_return fail(data.error());
  co_return is_data_right(entry.header, as_bytes(entry.meta), data->bytes());
}

// The record at a place, if all of it is there and right.
Task<Result<std::optional<Entry>>> Scrubber::whole_record(Call call, Place place) {
  CO_TRY_VOID(co_await pace_.take(call, place.size()));
  auto file = co_await parts_.files->get(call, place.at.segment);
  if (!file && file.error().code == ErrorCode::not_found) co_return std::optional<Entry>();
  if (!file) co_return fail(file.error());
  SegmentScan scan(parts_.machine, *file, place.at.segment, parts_.segments->key_of(place.at.segment),
                   place.at.offset, place.at.offset + place.size());
  scan.look_past_cache();
  CO_TRY(auto found, co_await scan.next(call));
  if (!found.entry || found.entry->header.meta_size != place.meta_size ||
      found.entry->header.data_size != place.data_size)
    co_return std::optional<Entry>();
  CO_TRY(const bool right, co_await is_right_on_disk(call, *file, *found.entry));
  co_return right ? std::move(found.entry) : std::optional<Entry>();
}

Task<Result<bool>> Scrubber::is_whole(Call call, Address address, ObjectEntry entry) {
  CO_TRY(const auto first, co_await whole_record(call, entry.place));
  if (!first || Indexer::address_of(*first) != address) co_return false;
  if (!entry.token) co_return true;
  CommitRecord commit;
  if (!decode(as_bytes(first->meta), commit)) co_return false;
  const bool one = commit.parts.size() == 1;  // its address is not the hash of its part
  if (!one && crypto::merge_all(commit.parts, true) != address.bytes) co_return false;
  for (std::uint32_t next = 0; next < commit.parts.size();) {
    CO_TRY(const auto parts, co_await parts_.indexer->parts(call, *entry.token, next, page));
    if (parts.empty()) co_return false;
    for (const Indexer::NumberedPart& part : parts) {
      if (part.index != next || next >= commit.parts.size()) co_return false;
      CO_TRY(const auto record, co_await whole_record(call, part.entry.place));
      PartRecord said;
      if (!record || !decode(as_bytes(record->meta), said) || said.hash != commit.parts[next])
        co_return false;
      if (one && said.root != address.bytes) co_return false;
      ++next;
    }
  }
  co_return true;
}

// A bad object may be whole again: a file that was brought back, a cable that was mended.
Task<Result<>> Scrubber::look_at_quarantined(Call call) {
  bool lifted = false;
  KvWalk walk(*parts_.kv, quarantine_prefix);
  for (;;) {
    CO_TRY(const auto found, co_await walk.next(call));
    if (found.empty()) break;
    for (const KvPair& pair : found) {
      QuarantineRecord record;
      if (!decode(as_bytes(pair.value), record)) continue;
      CO_TRY(const auto now, co_await parts_.indexer->object(call, record.address));
      if (!now || now->origin != record.object || !now->quarantined()) continue;
      CO_TRY(const bool whole, co_await is_whole(call, record.address, *now));
      if (!whole) continue;
      auto mutation = std::make_unique<Mutation>(Mutation::Kind::lift);
      mutation->address = record.address;
      mutation->origin = now->origin;
      CO_TRY_VOID(co_await committer_.submit(call, std::move(mutation)));
      lifted = true;
    }
  }
  if (!lifted) co_return Result<>{};
  parts_.store.status().lossy = false;
  co_return co_await look_for_losses(call);
}

Task<Result<>> Scrubber::look_for_losses(Call call) {
  KvWalk walk(*parts_.kv, quarantine_prefix);
  for (;;) {
    CO_TRY(const auto found, co_await walk.next(call));
    if (found.empty()) co_return Result<>{};
    for (const KvPair& pair : found) {
      QuarantineRecord record;
      if (!decode(as_bytes(pair.value), record) || !is_gone(record)) continue;
      parts_.store.status().lossy = true;
      parts_.damaged[record.at.segment] =
          true;  // it cannot be compacted: not all that lives in it can be moved
    }
  }
}

}  // namespace cairn::store
