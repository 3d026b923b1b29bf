// What the index says of records that compaction, a loss or a rebuilding takes away.
#include <algorithm>

#include "store/indexer.h"
#include "store/kv_walk.h"

namespace cairn::store {

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller waits
Task<Result<bool>> Indexer::is_needed(Call call, const Entry& entry, WallTime wall) {
  const ByteView meta = as_bytes(entry.meta);
  const auto here = [&](const Place& place) { return place.at == entry.at; };
  switch (static_cast<RecordKind>(entry.header.kind)) {
    case RecordKind::object: {
      ObjectRecord record;
      if (!decode(meta, record)) co_return false;
      CO_TRY(auto now, co_await object(call, record.address));
      co_return now&& here(now->place);
    }
    case RecordKind::commit: {
      CommitRecord record;
      if (!decode(meta, record)) co_return false;
      CO_TRY(auto now, co_await object(call, record.address));
      co_return now&& here(now->place);
    }
    case RecordKind::part: {
      PartRecord record;
      if (!decode(meta, record)) co_return false;
      CO_TRY(auto now, co_await part(call, record.token, record.index));
      co_return now&& here(now->place);
    }
    case RecordKind::remove: {
      RemoveRecord record;
      if (!decode(meta, record)) co_return false;
      CO_TRY(auto shadow, co_await tombstone(call, record.address));
      // An older copy in this very segment goes together with the record of the removal.
      co_return shadow && shadow->origin == entry.header.origin&& here(shadow->place) &&
          std::any_of(shadow->stale.begin(), shadow->stale.end(),
                      [&](std::uint32_t segment) { return segment != entry.at.segment; });
    }
    case RecordKind::pin: {
      PinRecord record;
      if (!decode(meta, record)) co_return false;
      CO_TRY(auto now, co_await object(call, record.address));
      co_return now && now->pin_origin == entry.header.origin;
    }
    case RecordKind::upload: {
      UploadRecord record;
      if (!decode(meta, record)) co_return false;
      CO_TRY(auto now, co_await upload(call, record.token));
      if (!now || !here(now->place)) co_return false;
      if (!now->committed) co_return true;
      // Kept for a repeated commit; without its object the upload would seem to be open.
      CO_TRY(auto made, co_await object(call, *now->committed));
      co_return made && made->token == record.token;
    }
    case RecordKind::abort: {
      // Without this record the upload would come back when the index is made anew, until it expires.
      AbortRecord record;
      co_return decode(meta, record) && record.expires > wall;
    }
    case RecordKind::quarantine: {
      QuarantineRecord record;
      if (!decode(meta, record)) co_return false;
      CO_TRY(auto now, co_await object(call, record.address));
      co_return now && now->quarantine_origin == entry.header.origin;
    }
  }
  co_return false;
}

std::optional<Address> Indexer::address_of(const Entry& entry) {
  const ByteView meta = as_bytes(entry.meta);
  if (entry.header.kind == static_cast<std::uint8_t>(RecordKind::object)) {
    ObjectRecord record;
    if (decode(meta, record)) return record.address;
  }
  if (entry.header.kind == static_cast<std::uint8_t>(RecordKind::commit)) {
    CommitRecord record;
    if (decode(meta, record)) return record.address;
  }
  return std::nullopt;
}

Task<Result<>> Indexer::segment_gone(Call call, std::uint32_t segment, std::vector<Address> copies) {
  for (const Address& address : copies) {
    CO_TRY(auto shadow, co_await tombstone(call, address));
    if (!shadow) continue;
    std::erase(shadow->stale, segment);
    if (shadow->stale.empty()) count_removal(*shadow, false);
    if (shadow->stale.empty())
      change(tombstone_key(address), std::nullopt);
    else
      change(tombstone_key(address), encode(*shadow));
  }
  erase_live(segment);
  removals_.erase(segment);
  touched_.insert(segment);
  co_return Result<>{};
}

Task<Result<>> Indexer::segments_gone(Call call, std::set<std::uint32_t> segments) {
  KvWalk walk(kv_, tombstone_prefix);
  for (;;) {
    CO_TRY(const auto found, co_await walk.next(call));
    if (found.empty()) break;
    for (const KvPair& pair : found) {
      TombstoneEntry shadow;
      if (!decode(as_bytes(pair.value), shadow)) co_return bad_entry();
      if (std::erase_if(shadow.stale, [&](std::uint32_t id) { return segments.contains(id); }) == 0) continue;
      if (shadow.stale.empty())
        change(pair.key, std::nullopt);
      else
        change(pair.key, encode(shadow));
    }
  }
  for (const std::uint32_t segment : segments) {
    const auto live = live_.find(segment);
    if (live == live_.end() || live->second != 0) continue;  // entries of lost objects still point there
    erase_live(segment);
    touched_.insert(segment);
  }
  co_return Result<>{};
}

Task<Result<>> Indexer::forget_parts(Call call, std::function<bool(const Place&)> is_lost) {
  KvWalk walk(kv_, part_prefix);
  for (;;) {
    CO_TRY(const auto found, co_await walk.next(call));
    if (found.empty()) co_return Result<>{};
    for (const KvPair& pair : found) {
      PartEntry entry;
      if (!decode(as_bytes(pair.value), entry)) co_return bad_entry();
      if (!is_lost(entry.place)) continue;
      CO_TRY(const auto owner, co_await value(call, token_key(token_of(pair.key))));
      if (owner) continue;  // of an object, which is quarantined
      count(entry.place, false);
      grow_upload(token_of(pair.key), 0, entry.place.data_size);
      change(pair.key, std::nullopt);
    }
  }
}

void Indexer::keep_lost(const Address& address, const ObjectEntry& entry, const QuarantineRecord& word) {
  count(entry.place, true);
  ++totals_.objects;
  totals_.bytes += entry.size;
  ++totals_.quarantined;
  if (entry.token) change(token_key(*entry.token), std::string(as_text(address.bytes)));
  change(object_key(address), encode(entry));
  change(quarantine_key(entry.quarantine_origin), encode(word));
}

Task<Result<>> Indexer::end_rebuilding(Call call) {
  CO_TRY_VOID(co_await drop_orphans(call));
  KvWalk walk(kv_, word_prefix);
  for (;;) {
    CO_TRY(const auto found, co_await walk.next(call));
    if (found.empty()) break;
    for (const KvPair& pair : found) change(pair.key, std::nullopt);
  }
  rebuilding_ = false;
  co_return Result<>{};
}

Task<Result<>> Indexer::drop_orphans(Call call) {
  std::string from(1, part_prefix);
  const std::string until = prefix_end(from);
  for (;;) {
    CO_TRY(auto found, co_await kv_.scan(call, from, until, 1));
    if (found.empty()) co_return Result<>{};
    const Ulid token = token_of(found.front().key);
    CO_TRY(auto owner, co_await value(call, token_key(token)));
    CO_TRY(auto began, co_await upload(call, token));
    if (!owner && !(began && !began->committed)) CO_TRY_VOID(co_await drop_parts(call, token));
    from = parts_end(token);
  }
}

}  // namespace cairn::store
