// How each kind of record changes the index.
#include <algorithm>

#include "crypto/outboard.h"
#include "store/encoding.h"
#include "store/indexer.h"

namespace cairn::store {
namespace {

Task<Result<>> refused(const char* why) { co_return fail(ErrorCode::integrity, why); }

}  // namespace

// No coroutine: a frame with room for records of all kinds would be the largest of all, for every record.
Task<Result<>> Indexer::apply(Call call, RecordHeader header, Position at, std::string meta) {
  const Place place{at, header.meta_size, header.data_size};
  const ByteView bytes = as_bytes(meta);
  const auto unreadable = [] { return refused("a sealed record does not decode"); };
  switch (static_cast<RecordKind>(header.kind)) {
    case RecordKind::object: {
      ObjectRecord record;
      if (!decode(bytes, record)) return unreadable();
      ObjectEntry entry;
      entry.size = header.data_size;
      entry.media_type = std::move(record.media_type);
      entry.pinned = record.pinned;
      return apply_object(call, header, place, std::move(entry), record.address);
    }
    case RecordKind::commit: {
      CommitRecord record;
      if (!decode(bytes, record)) return unreadable();
      ObjectEntry entry;
      entry.size = record.size;
      entry.media_type = std::move(record.media_type);
      entry.token = record.token;
      entry.pinned = record.pinned;
      return apply_object(call, header, place, std::move(entry), record.address);
    }
    case RecordKind::part: {
      PartRecord record;
      if (!decode(bytes, record)) return unreadable();
      return apply_part(call, header, place, std::move(record));
    }
    case RecordKind::remove: {
      RemoveRecord record;
      if (!decode(bytes, record)) return unreadable();
      return apply_remove(call, header, place, record);
    }
    case RecordKind::pin: {
      PinRecord record;
      if (!decode(bytes, record)) return unreadable();
      return apply_pin(call, header, record);
    }
    case RecordKind::upload: {
      UploadRecord record;
      if (!decode(bytes, record)) return unreadable();
      return apply_upload(call, header, place, std::move(record));
    }
    case RecordKind::abort: {
      AbortRecord record;
      if (!decode(bytes, record)) return unreadable();
      return apply_abort(call, record);
    }
    case RecordKind::quarantine: {
      QuarantineRecord record;
      if (!decode(bytes, record)) return unreadable();
      return apply_quarantine(call, header, record);
    }
  }
  return refused("a record of a kind that is not known");
}

void Indexer::remember_stale(TombstoneEntry& shadow, std::uint32_t segment) {
  const auto at = std::lower_bound(shadow.stale.begin(), shadow.stale.end(), segment);
  if (at == shadow.stale.end() || *at != segment) shadow.stale.insert(at, segment);
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller waits
Task<Result<>> Indexer::retire(Call call, Address address, ObjectEntry entry, TombstoneEntry& shadow) {
  count(entry.place, false);
  remember_stale(shadow, entry.place.at.segment);
  --totals_.objects;
  totals_.bytes -= entry.size;
  if (entry.quarantined()) {
    --totals_.quarantined;
    change(quarantine_key(entry.quarantine_origin), std::nullopt);
  }
  gone_.push_back(address);
  if (!entry.token) co_return Result<>{};
  change(token_key(*entry.token), std::nullopt);
  co_return co_await drop_parts(call, *entry.token);
}

Task<Result<>> Indexer::drop_parts(Call call, Ulid token) {
  std::uint32_t first = 0;
  for (;;) {
    CO_TRY(auto found, co_await parts(call, token, first, parts_page));
    if (found.empty()) co_return Result<>{};
    for (const NumberedPart& one : found) {
      count(one.entry.place, false);
      change(part_key(token, one.index), std::nullopt);
    }
    first = found.back().index + 1;
  }
}

Task<Result<>> Indexer::apply_object(Call call, RecordHeader header, Place place, ObjectEntry fresh,
                                     Address address) {
  CO_TRY(auto now, co_await object(call, address));
  CO_TRY(auto shadow, co_await tombstone(call, address));
  const bool removed = shadow && shadow->origin > header.origin;
  if ((now && now->origin > header.origin) || (!now && removed)) {
    // A copy that another record overrules matters only because a tombstone must outlive it.
    if (!shadow) shadow.emplace();
    remember_stale(*shadow, place.at.segment);
    change(tombstone_key(address), encode(*shadow));
    co_return Result<>{};
  }
  if (now && now->origin == header.origin) {  // compaction moved it
    if (now->place.at.segment != place.at.segment) {
      if (!shadow) shadow.emplace();
      remember_stale(*shadow, now->place.at.segment);
      change(tombstone_key(address), encode(*shadow));
    }
    count(now->place, false);
    count(place, true);
    now->place = place;
    change(object_key(address), encode(*now));
    co_return Result<>{};
  }
  if (now) {
    if (!shadow) shadow.emplace();
    CO_TRY_VOID(co_await retire(call, address, *now, *shadow));
    change(tombstone_key(address), encode(*shadow));
  }
  fresh.origin = header.origin;
  fresh.place = place;
  count(place, true);
  ++totals_.objects;
  totals_.bytes += fresh.size;
  note_change(address);
  if (fresh.token) {
    change(token_key(*fresh.token), std::string(as_text(address.bytes)));
    CO_TRY(auto began, co_await upload(call, *fresh.token));
    if (began && !began->committed) {
      --totals_.uploads;
      close_upload(*fresh.token);
      began->committed = address;
      change(upload_key(*fresh.token), encode(*began));
    }
  }
  change(object_key(address), encode(fresh));
  if (rebuilding_) co_return co_await apply_words(call, address, header.origin);
  co_return Result<>{};
}

Task<Result<>> Indexer::keep_word(Call call, RecordHeader header, Address address, std::uint64_t object,
                                  std::string meta) {
  const std::string key = word_key(address, static_cast<RecordKind>(header.kind));
  CO_TRY(const auto kept, co_await value(call, key));
  std::uint64_t kept_object = 0, kept_origin = 0;
  if (kept) FieldReader(as_bytes(*kept)).number(kept_object).number(kept_origin);
  if (std::pair(kept_object, kept_origin) < std::pair(object, header.origin))
    change(key, FieldWriter().number(object).number(header.origin).take() + meta);
  co_return Result<>{};
}

Task<Result<>> Indexer::apply_words(Call call, Address address, std::uint64_t object) {
  for (const RecordKind kind : {RecordKind::pin, RecordKind::quarantine}) {
    const std::string key = word_key(address, kind);
    CO_TRY(const auto kept, co_await value(call, key));
    if (!kept) continue;
    std::uint64_t said_of = 0;
    RecordHeader header;
    header.kind = static_cast<std::uint8_t>(kind);
    if (!FieldReader(as_bytes(*kept)).number(said_of).number(header.origin).good()) co_return bad_entry();
    if (said_of > object) continue;
    change(key, std::nullopt);
    if (said_of == object)
      CO_TRY_VOID(co_await apply(call, header, {}, kept->substr(sizeof said_of + sizeof header.origin)));
  }
  co_return Result<>{};
}

Task<Result<>> Indexer::apply_part(Call call, RecordHeader header, Place place, PartRecord record) {
  CO_TRY(auto now, co_await part(call, record.token, record.index));
  if (now && now->origin > header.origin) co_return Result<>{};
  if (now) count(now->place, false);
  count(place, true);
  grow_upload(record.token, place.data_size, now ? now->place.data_size : 0);
  change(part_key(record.token, record.index),
         encode(PartEntry{header.origin, place, record.hash, record.root}));
  co_return Result<>{};
}

Task<Result<>> Indexer::apply_remove(Call call, RecordHeader header, Place place, RemoveRecord record) {
  CO_TRY(auto now, co_await object(call, record.address));
  CO_TRY(auto shadow, co_await tombstone(call, record.address));
  if (now && now->origin < header.origin) {
    if (!shadow) shadow.emplace();
    CO_TRY_VOID(co_await retire(call, record.address, *now, *shadow));
    change(object_key(record.address), std::nullopt);
    note_change(record.address);
  }
  // With no older copy anywhere there is nothing to shadow.
  if (!shadow || shadow->origin > header.origin) co_return Result<>{};
  count_removal(*shadow, false);
  shadow->origin = header.origin;
  shadow->place = place;
  count_removal(*shadow, true);
  change(tombstone_key(record.address), encode(*shadow));
  co_return Result<>{};
}

Task<Result<>> Indexer::apply_pin(Call call, RecordHeader header, PinRecord record) {
  CO_TRY(auto now, co_await object(call, record.address));
  if (rebuilding_ && (!now || now->origin < record.object))
    co_return co_await keep_word(call, header, record.address, record.object, encode(record));
  if (!now || now->origin != record.object || now->pin_origin > header.origin) co_return Result<>{};
  now->pinned = record.pinned;
  now->pin_origin = header.origin;
  change(object_key(record.address), encode(*now));
  co_return Result<>{};
}

Task<Result<>> Indexer::apply_upload(Call call, RecordHeader header, Place place, UploadRecord record) {
  CO_TRY(auto owner, co_await value(call, token_key(record.token)));
  CO_TRY(auto now, co_await upload(call, record.token));
  if (now) {
    now->place = place;
    change(upload_key(record.token), encode(*now));
    co_return Result<>{};
  }
  UploadEntry entry;
  entry.origin = header.origin;
  entry.place = place;
  entry.size = record.size;
  entry.expires = record.expires;
  entry.media_type = std::move(record.media_type);
  entry.owner = record.owner;
  if (owner) {
    Address address;
    std::copy_n(as_bytes(*owner).begin(), std::min(owner->size(), address.bytes.size()),
                address.bytes.begin());
    entry.committed = address;
  } else {
    ++totals_.uploads;
    // Compaction may have moved the upload behind its parts.
    if (rebuilding_)
      CO_TRY_VOID(co_await open_upload(call, record.token, record.owner.holder));
    else
      open_uploads_[record.token] = {.holder = record.owner.holder};
  }
  change(upload_key(record.token), encode(entry));
  co_return Result<>{};
}

Task<Result<>> Indexer::apply_abort(Call call, AbortRecord record) {
  CO_TRY(auto owner, co_await value(call, token_key(record.token)));
  CO_TRY(auto now, co_await upload(call, record.token));
  if (owner) co_return Result<>{};  // its parts are an object's now
  if (now) {
    if (!now->committed) --totals_.uploads;
    close_upload(record.token);
    change(upload_key(record.token), std::nullopt);
  }
  co_return co_await drop_parts(call, record.token);
}

Task<Result<>> Indexer::apply_quarantine(Call call, RecordHeader header, QuarantineRecord record) {
  CO_TRY(auto now, co_await object(call, record.address));
  if (rebuilding_ && (!now || now->origin < record.object))
    co_return co_await keep_word(call, header, record.address, record.object, encode(record));
  if (!now || now->origin != record.object || now->quarantine_origin > header.origin) co_return Result<>{};
  if (now->quarantined()) {
    --totals_.quarantined;
    change(quarantine_key(now->quarantine_origin), std::nullopt);
  }
  now->quarantine_origin = header.origin;
  now->whole_again = record.lifts();
  note_change(record.address);
  change(object_key(record.address), encode(*now));
  if (now->whole_again) co_return Result<>{};
  ++totals_.quarantined;
  gone_.push_back(record.address);
  change(quarantine_key(header.origin), encode(record));
  co_return Result<>{};
}

}  // namespace cairn::store
