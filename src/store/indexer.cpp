#include "store/indexer.h"

#include <algorithm>

#include "crypto/outboard.h"
#include "store/encoding.h"

namespace cairn::store {
namespace {

constexpr std::size_t page = 512;

Task<Result<>> refused(const char* why) { co_return fail(ErrorCode::integrity, why); }

std::uint32_t part_index_of(const std::string& key) {
  std::uint32_t index = 0;
  for (std::size_t i = key.size() - 4; i < key.size(); ++i)
    index = index << 8 | static_cast<unsigned char>(key[i]);
  return index;
}
Ulid token_of(const std::string& key) {
  Ulid token;
  for (std::size_t i = 1; i < 9; ++i) token.high = token.high << 8 | static_cast<unsigned char>(key[i]);
  for (std::size_t i = 9; i < 17; ++i) token.low = token.low << 8 | static_cast<unsigned char>(key[i]);
  return token;
}

}  // namespace

std::unexpected<Error> Indexer::bad_entry() noexcept {
  return fail(kv_.distrust("an index entry does not decode"));
}

template <class T>
Result<std::optional<T>> Indexer::decoded(Result<std::optional<std::string>> value) {
  if (!value) return fail(value.error());
  if (!*value) return std::optional<T>();
  T entry;
  if (!decode(as_bytes(**value), entry)) return bad_entry();
  return std::optional<T>(std::move(entry));
}

Task<Result<LogPoint>> Indexer::load(Call call) {
  LogPoint point;
  CO_TRY(auto at, co_await kv_.get(call, log_point_key()));
  CO_TRY(auto unfinished, co_await kv_.get(call, rebuilding_key()));
  rebuilding_ = !at || unfinished;
  if (!at) co_return point;
  if (!decode(as_bytes(*at), point)) co_return bad_entry();
  CO_TRY(auto totals, co_await kv_.get(call, totals_key()));
  if (!totals || !FieldReader(as_bytes(*totals))
                      .number(totals_.objects)
                      .number(totals_.bytes)
                      .number(totals_.uploads)
                      .number(totals_.quarantined)
                      .complete())
    co_return bad_entry();
  CO_TRY_VOID(co_await load_uploads(call));
  const std::string shadows(1, tombstone_prefix);
  CO_TRY(const auto shadow, co_await kv_.scan(call, shadows, prefix_end(shadows), 1));
  has_tombstones_ = !shadow.empty();
  std::string from(1, segment_prefix);
  for (;;) {
    CO_TRY(auto found, co_await kv_.scan(call, from, prefix_end(std::string(1, segment_prefix)), page));
    for (const KvPair& pair : found) {
      std::uint64_t bytes = 0;
      if (!FieldReader(as_bytes(pair.value)).number(bytes).complete()) co_return bad_entry();
      set_live(live_[part_index_of(pair.key)], static_cast<std::int64_t>(bytes));
    }
    if (found.size() < page) break;
    from = found.back().key + '\0';
  }
  co_return point;
}

// --- open uploads

Task<Result<>> Indexer::load_uploads(Call call) {
  open_uploads_.clear();
  upload_bytes_ = 0;
  std::string from(1, upload_prefix);
  const std::string until = prefix_end(from);
  for (;;) {
    CO_TRY(const auto found, co_await kv_.scan(call, from, until, page));
    for (const KvPair& pair : found) {
      UploadEntry entry;
      if (!decode(as_bytes(pair.value), entry)) co_return bad_entry();
      if (!entry.committed) CO_TRY_VOID(co_await open_upload(call, token_of(pair.key), entry.owner.holder));
    }
    if (found.size() < page) co_return Result<>{};
    from = found.back().key + '\0';
  }
}

Task<Result<>> Indexer::open_upload(Call call, Ulid token, Ulid holder) {
  close_upload(token);
  open_uploads_[token] = {.holder = holder};
  for (std::uint32_t first = 0;;) {
    CO_TRY(const auto found, co_await parts(call, token, first, page));
    if (found.empty()) co_return Result<>{};
    for (const NumberedPart& one : found) grow_upload(token, one.entry.place.data_size, 0);
    first = found.back().index + 1;
  }
}

void Indexer::close_upload(const Ulid& token) noexcept {
  const auto open = open_uploads_.find(token);
  if (open == open_uploads_.end()) return;
  upload_bytes_ -= open->second.bytes;
  open_uploads_.erase(open);
}

void Indexer::grow_upload(const Ulid& token, std::uint64_t more, std::uint64_t less) noexcept {
  const auto open = open_uploads_.find(token);
  if (open == open_uploads_.end()) return;
  open->second.bytes += more - less;
  upload_bytes_ += more - less;
}

void Indexer::touch_upload(const Ulid& token, Instant now) noexcept {
  if (const auto open = open_uploads_.find(token); open != open_uploads_.end()) open->second.last_part = now;
}

Result<KvBatch> Indexer::take(const LogPoint& point) {
  for (const std::uint32_t segment : touched_)
    if (const auto found = live_.find(segment); found != live_.end() && found->second < 0)
      return fail(kv_.distrust("more was removed from a segment than it held"));
  KvBatch batch;
  batch.reserve(overlay_.size() + touched_.size() + 3);
  while (!overlay_.empty()) {
    auto change = overlay_.extract(overlay_.begin());
    if (!change.mapped().changed) continue;
    if (change.mapped().value)
      batch.put(std::move(change.key()), std::move(*change.mapped().value));
    else
      batch.remove(std::move(change.key()));
  }
  for (const std::uint32_t segment : touched_) {
    const auto found = live_.find(segment);
    if (found == live_.end()) {
      batch.remove(segment_key(segment));
      continue;
    }
    batch.put(segment_key(segment), FieldWriter().number(static_cast<std::uint64_t>(found->second)).take());
  }
  touched_.clear();
  batch.put(totals_key(), FieldWriter()
                              .number(totals_.objects)
                              .number(totals_.bytes)
                              .number(totals_.uploads)
                              .number(totals_.quarantined)
                              .take());
  if (rebuilding_)
    batch.put(rebuilding_key(), "");
  else
    batch.remove(rebuilding_key());
  batch.put(log_point_key(), encode(point));
  return batch;
}

void Indexer::become(Indexer&& other) {
  overlay_.clear();
  touched_.clear();
  gone_.clear();
  live_ = std::move(other.live_);
  live_bytes_ = other.live_bytes_;
  totals_ = other.totals_;
  for (auto& [token, open] : other.open_uploads_)
    if (const auto known = open_uploads_.find(token); known != open_uploads_.end())
      open.last_part = known->second.last_part;
  open_uploads_ = std::move(other.open_uploads_);
  upload_bytes_ = other.upload_bytes_;
  rebuilding_ = other.rebuilding_;
  removals_ = std::move(other.removals_);
  has_tombstones_ = other.has_tombstones_;
}

Task<Result<std::optional<std::string>>> Indexer::value(Call call, std::string_view key) {
  if (auto found = overlay_.find(key); found != overlay_.end()) co_return found->second.value;
  auto quick = kv_.try_get(key);
  if (quick || quick.error().code != ErrorCode::busy) co_return quick;
  co_return co_await kv_.get(call, std::string(key));
}

void Indexer::change(std::string_view key, std::optional<std::string> value) {
  if (key.front() == tombstone_prefix) has_tombstones_ = true;
  const auto at = overlay_.lower_bound(key);
  if (at != overlay_.end() && at->first == key)
    at->second = Known{std::move(value), true};
  else
    overlay_.emplace_hint(at, key, Known{std::move(value), true});
}

Task<Result<std::optional<ObjectEntry>>> Indexer::object(Call call, Address address) {
  co_return decoded<ObjectEntry>(co_await value(call, object_key(address)));
}
Task<Result<std::optional<ObjectEntry>>> Indexer::object_to_change(Call call, Address address) {
  const AddressKey key = object_key(address);
  auto found = co_await value(call, key);
  if (found) overlay_.try_emplace(std::string(key), *found, false);
  co_return decoded<ObjectEntry>(std::move(found));
}
Task<Result<std::optional<PartEntry>>> Indexer::part(Call call, Ulid token, std::uint32_t index) {
  co_return decoded<PartEntry>(co_await value(call, part_key(token, index)));
}
Task<Result<std::optional<UploadEntry>>> Indexer::upload(Call call, Ulid token) {
  co_return decoded<UploadEntry>(co_await value(call, upload_key(token)));
}
Task<Result<std::optional<TombstoneEntry>>> Indexer::tombstone(Call call, Address address) {
  if (!has_tombstones_) co_return std::optional<TombstoneEntry>();
  co_return decoded<TombstoneEntry>(co_await value(call, tombstone_key(address)));
}

Task<Result<std::vector<Indexer::NumberedPart>>> Indexer::parts(Call call, Ulid token, std::uint32_t first,
                                                                std::size_t limit) {
  const std::string from = part_key(token, first), until = parts_end(token);
  CO_TRY(auto found, co_await kv_.scan(call, from, until, limit));
  // Changes that were applied since override the index.
  std::map<std::string, std::optional<std::string>> merged;
  for (KvPair& pair : found) merged[pair.key] = std::move(pair.value);
  const std::string seen = found.size() < limit ? until : found.back().key + '\0';
  for (auto each = overlay_.lower_bound(from); each != overlay_.end() && each->first < seen; ++each)
    merged[each->first] = each->second.value;
  std::vector<NumberedPart> parts;
  for (const auto& [key, text] : merged) {
    if (!text) continue;
    NumberedPart one{part_index_of(key), {}};
    if (!decode(as_bytes(*text), one.entry)) co_return bad_entry();
    parts.push_back(std::move(one));
  }
  // A full page whose parts are all gone must not look like the end.
  if (parts.empty() && found.size() == limit)
    co_return co_await this->parts(call, token, part_index_of(found.back().key) + 1, limit);
  co_return parts;
}

void Indexer::count(const Place& place, bool alive) {
  const auto bytes = static_cast<std::int64_t>(place.size());
  std::int64_t& live = live_[place.at.segment];
  set_live(live, live + (alive ? bytes : -bytes));
  touched_.insert(place.at.segment);
}

void Indexer::count_removal(const TombstoneEntry& shadow, bool needed) {
  if (shadow.origin == 0) return;  // older copies, and no removal yet
  const auto bytes = static_cast<std::int64_t>(shadow.place.size());
  removals_[shadow.place.at.segment] += needed ? bytes : -bytes;
}

std::uint64_t Indexer::removal_bytes(std::uint32_t segment) const noexcept {
  const auto found = removals_.find(segment);
  return found == removals_.end() || found->second < 0 ? 0 : static_cast<std::uint64_t>(found->second);
}

Task<Result<>> Indexer::count_removals(Call call, std::uint64_t sequence) {
  removals_.clear();
  std::string from(1, tombstone_prefix);
  const std::string until = prefix_end(from);
  while (has_tombstones_) {
    CO_TRY(const auto found, co_await kv_.scan(call, from, until, page));
    for (const KvPair& pair : found) {
      TombstoneEntry shadow;
      if (!decode(as_bytes(pair.value), shadow)) co_return bad_entry();
      if (shadow.origin <= sequence) count_removal(shadow, true);
    }
    if (found.size() < page) break;
    from = found.back().key + '\0';
  }
  co_return Result<>{};
}

void Indexer::set_live(std::int64_t& live, std::int64_t bytes) noexcept {
  const auto counted = [](std::int64_t size) {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(size, 0));
  };
  live_bytes_ += counted(bytes) - counted(live);
  live = bytes;
}

void Indexer::erase_live(std::uint32_t segment) {
  set_live(live_[segment], 0);
  live_.erase(segment);
}

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
    CO_TRY(auto found, co_await parts(call, token, first, page));
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
  change(object_key(record.address), encode(*now));
  if (now->whole_again) co_return Result<>{};
  ++totals_.quarantined;
  gone_.push_back(record.address);
  change(quarantine_key(header.origin), encode(record));
  co_return Result<>{};
}

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
  std::string from(1, tombstone_prefix);
  const std::string until = prefix_end(from);
  for (;;) {
    CO_TRY(auto found, co_await kv_.scan(call, from, until, page));
    for (const KvPair& pair : found) {
      TombstoneEntry shadow;
      if (!decode(as_bytes(pair.value), shadow)) co_return bad_entry();
      if (std::erase_if(shadow.stale, [&](std::uint32_t id) { return segments.contains(id); }) == 0) continue;
      if (shadow.stale.empty())
        change(pair.key, std::nullopt);
      else
        change(pair.key, encode(shadow));
    }
    if (found.size() < page) break;
    from = found.back().key + '\0';
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
  std::string from(1, part_prefix);
  const std::string until = prefix_end(from);
  for (;;) {
    CO_TRY(const auto found, co_await kv_.scan(call, from, until, page));
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
    if (found.size() < page) co_return Result<>{};
    from = found.back().key + '\0';
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
  std::string from(1, word_prefix);
  const std::string until = prefix_end(from);
  for (;;) {
    CO_TRY(auto found, co_await kv_.scan(call, from, until, page));
    for (const KvPair& pair : found) change(pair.key, std::nullopt);
    if (found.size() < page) break;
    from = found.back().key + '\0';
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
