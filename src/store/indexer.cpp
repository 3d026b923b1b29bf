#include "store/indexer.h"

#include <algorithm>

#include "crypto/outboard.h"
#include "store/encoding.h"
#include "store/kv_walk.h"

namespace cairn::store {
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
  KvWalk walk(kv_, segment_prefix);
  for (;;) {
    CO_TRY(const auto found, co_await walk.next(call));
    if (found.empty()) break;
    for (const KvPair& pair : found) {
      std::uint64_t bytes = 0;
      if (!FieldReader(as_bytes(pair.value)).number(bytes).complete()) co_return bad_entry();
      set_live(live_[number_in(pair.key)], static_cast<std::int64_t>(bytes));
    }
  }
  co_return point;
}

// --- open uploads

Task<Result<>> Indexer::load_uploads(Call call) {
  open_uploads_.clear();
  upload_bytes_ = 0;
  KvWalk walk(kv_, upload_prefix);
  for (;;) {
    CO_TRY(const auto found, co_await walk.next(call));
    if (found.empty()) co_return Result<>{};
    for (const KvPair& pair : found) {
      UploadEntry entry;
      if (!decode(as_bytes(pair.value), entry)) co_return bad_entry();
      if (!entry.committed) CO_TRY_VOID(co_await open_upload(call, token_of(pair.key), entry.owner.holder));
    }
  }
}

Task<Result<>> Indexer::open_upload(Call call, Ulid token, Ulid holder) {
  close_upload(token);
  open_uploads_[token] = {.holder = holder};
  for (std::uint32_t first = 0;;) {
    CO_TRY(const auto found, co_await parts(call, token, first, parts_page));
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
    NumberedPart one{number_in(key), {}};
    if (!decode(as_bytes(*text), one.entry)) co_return bad_entry();
    parts.push_back(std::move(one));
  }
  // A full page whose parts are all gone must not look like the end.
  if (parts.empty() && found.size() == limit)
    co_return co_await this->parts(call, token, number_in(found.back().key) + 1, limit);
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
  KvWalk walk(kv_, tombstone_prefix);
  while (has_tombstones_) {
    CO_TRY(const auto found, co_await walk.next(call));
    if (found.empty()) break;
    for (const KvPair& pair : found) {
      TombstoneEntry shadow;
      if (!decode(as_bytes(pair.value), shadow)) co_return bad_entry();
      if (shadow.origin <= sequence) count_removal(shadow, true);
    }
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

}  // namespace cairn::store
