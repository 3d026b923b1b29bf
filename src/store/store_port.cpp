#include "store/store_port.h"

#include <algorithm>
#include <cstring>

#include "codec/media_type.h"
#include "crypto/outboard.h"
#include "runtime/wait.h"
#include "store/object_home.h"
#include "store/second_look.h"

namespace cairn::store {
namespace {

// Memory of a shard for reading whole parts; when it is all in use, groups are read one by one.
constexpr std::size_t blocks_at_once = 16;
constexpr std::size_t block_bytes = crypto::part_size + io::File::direct_alignment;
// One of so many reads of parts that are not in memory goes through the page cache. Parts that are read again
// and again end up there although our own cache has no room for them; parts that are read once mostly do not.
constexpr std::uint64_t page_cached_share = 16;
constexpr std::size_t maps_kept = 4096;
constexpr std::size_t outlines_kept = 16;
// How long a removal waits for room on a full disk, and how often it looks.
constexpr Duration room_patience = Duration::seconds(1), room_step = Duration::millis(5);
constexpr int tries = 3;  // an object may move under a reader, but not again and again

constexpr const char* undecodable = "an index entry does not decode";

std::unexpected<Error> rotten() {
  return fail(ErrorCode::integrity, "stored bytes do not match the address");
}

}  // namespace

std::size_t StorePort::MapKeyHash::operator()(const MapKey& key) const noexcept {
  std::size_t hash = 0;
  std::memcpy(&hash, key.address.bytes.data(), sizeof hash);
  return hash ^ (key.part * 0x9e3779b97f4a7c15u);
}

template <class V>
class StorePort::Recent {
 public:
  explicit Recent(std::size_t most) noexcept : most_(most) {}
  V find(const MapKey& key) {
    const auto found = table_.find(key);
    if (found == table_.end()) return nullptr;
    order_.splice(order_.begin(), order_, found->second);
    return found->second->second;
  }
  void put(const MapKey& key, V value) {
    forget(key);
    order_.emplace_front(key, std::move(value));
    table_[key] = order_.begin();
    if (order_.size() <= most_) return;
    table_.erase(order_.back().first);
    order_.pop_back();
  }
  void forget(const MapKey& key) {
    const auto found = table_.find(key);
    if (found == table_.end()) return;
    order_.erase(found->second);
    table_.erase(found);
  }

 private:
  using Order = std::list<std::pair<MapKey, V>>;
  std::size_t most_;
  Order order_;
  std::unordered_map<MapKey, typename Order::iterator, MapKeyHash> table_;
};

StorePort::StorePort(ObjectStore& store, io::Machine& machine)
    : store_(store),
      machine_(machine),
      kv_(store, machine, Lane::read),
      files_(machine, store.segment_directory()),
      blocks_(block_bytes, blocks_at_once),
      maps_(std::make_unique<Recent<std::shared_ptr<const PartMap>>>(maps_kept)),
      outlines_(std::make_unique<Recent<std::shared_ptr<const std::vector<crypto::Hash>>>>(outlines_kept)) {
  store_.ports_->with([&](ObjectStore::PortList& list) { list.ports.emplace_back(this, &machine.mailbox); });
}

StorePort::~StorePort() {
  store_.ports_->with([this](ObjectStore::PortList& list) {
    std::erase_if(list.ports, [this](const auto& one) { return one.first == this; });
  });
}

// --- reads

Task<Result<std::optional<std::string>>> StorePort::value(Call call, std::string_view key) {
  auto quick = kv_.try_get(key);
  if (quick || quick.error().code != ErrorCode::busy) co_return quick;
  co_return co_await kv_.get(call, std::string(key));
}

Task<Result<LocatedPtr>> StorePort::find(Call call, Address address) {
  auto located = std::make_shared<Located>();
  located->address = address;
  located->epoch = store_.cache_.erase_epoch(address);
  CO_TRY(const auto found, co_await value(call, object_key(address)));
  if (!found) co_return LocatedPtr();
  if (!decode(as_bytes(*found), located->entry)) co_return fail(kv_.distrust(undecodable));
  if (located->entry.quarantined()) co_return rotten();
  auto facts = std::make_shared<ObjectFacts>();
  facts->size = located->entry.size;
  const std::string& type = located->entry.media_type;
  facts->media_type = codec::is_media_type(type) ? type : codec::unknown_media_type;
  facts->active = codec::is_active_type(facts->media_type);
  facts->etag = '"' + format_address(address) + '"';
  located->facts = std::move(facts);
  co_return LocatedPtr(std::move(located));
}

// The object as it is now, after compaction took away the records that it was made of.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller waits
Task<Result<LocatedPtr>> StorePort::find_again(Call call, const LocatedPtr& object) {
  CO_TRY(LocatedPtr now, co_await find(call, object->address));
  if (!now) co_return fail(ErrorCode::not_found, "the object was removed meanwhile");
  co_return now;
}

Task<Result<std::string>> StorePort::read_meta(Call call, Place place, bool again) {
  CO_TRY(auto file, co_await files_.get(call, place.at.segment));
  if (again) {
    CO_TRY(const HeapBytes bytes,
           co_await read_past_cache(call, file, place.at.offset + record_header_size, place.meta_size));
    co_return std::string(as_text(bytes.bytes()));
  }
  auto memory = std::make_shared<HeapBytes>(place.meta_size);
  const std::uint64_t from = place.at.offset + record_header_size;
  auto got = file->try_read_into(from, memory->room());
  if (!got || *got < place.meta_size) {
    got = co_await file->read_into(call, from, {memory->room(), memory});
  }
  if (!got) co_return fail(got.error());
  memory->fill(*got);
  co_return std::string(as_text(std::as_const(*memory).bytes()));
}

Task<Result<std::shared_ptr<const std::vector<crypto::Hash>>>> StorePort::part_hashes(Call call,
                                                                                      LocatedPtr object) {
  using Outline = std::shared_ptr<const std::vector<crypto::Hash>>;
  const MapKey key{object->address, 0};
  if (Outline known = outlines_->find(key)) co_return known;
  if (!object->entry.token) {
    co_return std::make_shared<const std::vector<crypto::Hash>>(1, object->address.bytes);
  }
  bool again = false;
  for (int attempt = 0;; ++attempt) {
    auto meta = co_await read_meta(call, object->entry.place, again);
    const bool gone = !meta && meta.error().code == ErrorCode::not_found;
    if (gone) {
      CO_TRY(object, co_await find_again(call, object));
      if (attempt < tries) continue;
    }
    if (!meta && !gone) co_return fail(meta.error());
    CommitRecord record;
    if (gone || !decode(as_bytes(*meta), record) || record.address != object->address ||
        record.size != object->entry.size ||
        (record.parts.size() > 1 && crypto::merge_all(record.parts, true) != object->address.bytes)) {
      if (!gone && !std::exchange(again, true)) continue;  // one bad read is not rot
      CO_TRY_VOID(co_await report_rot(call, object, object->entry.place, gone));
      co_return rotten();
    }
    // The only part of an object has the object's hash, which is another than that of a part.
    if (record.parts.size() == 1) record.parts[0] = object->address.bytes;
    auto outline = std::make_shared<const std::vector<crypto::Hash>>(std::move(record.parts));
    outlines_->put(key, outline);
    co_return outline;
  }
}

Task<Result<std::shared_ptr<const PartMap>>> StorePort::part_map(Call call, LocatedPtr object,
                                                                 std::uint64_t part) {
  const MapKey key{object->address, part};
  if (auto known = maps_->find(key); known && known->origin == object->entry.origin) co_return known;
  for (int attempt = 0;; ++attempt) {
    auto loaded = co_await load_part_map(call, object, part);
    if (loaded) {
      maps_->put(key, *loaded);
      co_return loaded;
    }
    if (loaded.error().code != ErrorCode::not_found) co_return loaded;
    CO_TRY(object, co_await find_again(call, object));
    if (attempt < tries) continue;
    // Compaction did not move it: the log has lost it.
    CO_TRY_VOID(co_await report_rot(call, object, object->entry.place, true));
    co_return rotten();
  }
}

Task<Result<std::shared_ptr<const PartMap>>> StorePort::load_part_map(Call call, LocatedPtr object,
                                                                      std::uint64_t part) {
  auto map = std::make_shared<PartMap>();
  map->origin = object->entry.origin;
  const std::uint64_t groups = crypto::group_count(object->entry.size);
  map->root = groups == 1;
  bool right = false;
  if (!object->entry.token) {
    map->place = object->entry.place;
    if (groups == 1) {
      map->groups.push_back(object->address.bytes);
      co_return std::shared_ptr<const PartMap>(std::move(map));
    }
    for (const bool again : {false, true}) {
      if (right) break;
      CO_TRY(const std::string meta, co_await read_meta(call, map->place, again));
      ObjectRecord record;
      right = decode(as_bytes(meta), record) && record.groups.size() == groups &&
              crypto::merge_all(record.groups, true) == object->address.bytes;
      map->groups = std::move(record.groups);
    }
  } else {
    CO_TRY(const auto outline, co_await part_hashes(call, object));
    CO_TRY(const auto found,
           co_await value(call, part_key(*object->entry.token, static_cast<std::uint32_t>(part))));
    PartEntry entry;
    if (!found || part >= outline->size()) co_return fail(ErrorCode::not_found, "a part was moved");
    if (!decode(as_bytes(*found), entry)) co_return fail(kv_.distrust(undecodable));
    map->place = entry.place;
    const bool only = outline->size() == 1;
    for (const bool again : {false, true}) {
      if (right) break;
      CO_TRY(const std::string meta, co_await read_meta(call, map->place, again));
      PartRecord record;
      right = decode(as_bytes(meta), record);
      map->groups = std::move(record.groups);
      if (map->root)
        map->groups.assign(1, object->address.bytes);
      else
        right = right && crypto::merge_all(map->groups, only) == (*outline)[part];
    }
  }
  if (!right) {
    CO_TRY_VOID(co_await report_rot(call, object, map->place, false));
    co_return rotten();
  }
  co_return std::shared_ptr<const PartMap>(std::move(map));
}

Task<Result<>> StorePort::read_verified(Call call, std::shared_ptr<const PartMap> map, std::uint64_t group,
                                        std::size_t in_part, io::Region into) {
  CO_TRY(auto file, co_await files_.get(call, map->place.at.segment));
  const std::uint64_t from = map->place.data_at() + in_part * crypto::group_size;
  auto got = file->try_read_into(from, into.bytes);
  if (!got || *got < into.bytes.size()) {
    got = co_await file->read_into(call, from, into);
  }
  if (!got) co_return fail(got.error());
  store_.status_.groups_read.fetch_add(1, std::memory_order_relaxed);
  if (*got < into.bytes.size() || in_part >= map->groups.size() ||
      crypto::hash_group(into.bytes, group, map->root) != map->groups[in_part])
    co_return rotten();
  co_return Result<>{};
}

Task<Result<GroupBytes>> StorePort::read_group(Call call, LocatedPtr object, std::uint64_t group) {
  GroupBytes out;
  out.ref = store_.cache_.find(object->address, group);
  if (out.ref) co_return out;
  const std::size_t size = crypto::group_length(object->entry.size, group);
  const bool wanted = store_.cache_.wants(object->address, group, size);
  co_return co_await read_one(call, std::move(object), group, wanted);
}

Task<Result<GroupBytes>> StorePort::read_one(Call call, LocatedPtr object, std::uint64_t group, bool wanted) {
  GroupBytes out;
  const std::uint64_t part = group / crypto::groups_per_part;
  const auto in_part = static_cast<std::size_t>(group % crypto::groups_per_part);
  const std::size_t size = crypto::group_length(object->entry.size, group);
  for (int attempt = 0;; ++attempt) {
    CO_TRY(auto map, co_await part_map(call, object, part));
    Result<> read;
    if (wanted) {
      auto slot = std::make_shared<GroupCache::Reservation>(
          store_.cache_.reserve(object->address, group, size, map->groups.size()));
      if (*slot) {
        read = co_await read_verified(call, map, group, in_part, {slot->bytes(), slot});
        if (read) {
          out.ref = std::move(*slot).publish(object->facts, object->epoch);
          co_return out;
        }
      } else {
        slot.reset();
      }
      if (!slot) read = fail(ErrorCode::busy, "no slot");
    } else {
      read = fail(ErrorCode::busy, "not worth a slot");
    }
    if (!read && read.error().code == ErrorCode::busy) {
      auto own = std::make_shared<Buffer>(machine_.slab.take(std::max<std::size_t>(size, 1)));
      read = co_await read_verified(call, map, group, in_part, {own->room().first(size), own});
      if (read) {
        own->fill(size);
        out.buffer = std::move(*own);
        co_return out;
      }
    }
    // The file is gone, or what is left of it is bad: compaction may have moved the record.
    const bool bad = read.error().code == ErrorCode::integrity;
    if (!bad && read.error().code != ErrorCode::not_found) co_return fail(read.error());
    maps_->forget({object->address, part});
    CO_TRY(object, co_await find_again(call, object));
    if (attempt < tries) {
      CO_TRY(const auto now, co_await part_map(call, object, part));
      if (now->place.at != map->place.at) continue;
    }
    if (bad) {
      auto again = co_await read_again(call, map, group, in_part, size);
      if (again) {
        out.buffer = std::move(*again);
        co_return out;
      }
      if (again.error().code != ErrorCode::integrity) co_return fail(again.error());
    }
    CO_TRY_VOID(co_await report_rot(call, object, map->place, !bad));
    co_return rotten();
  }
}

// The page cache may have bytes that the disk has not: only bad bytes on the disk are rot.
Task<Result<Buffer>> StorePort::read_again(Call call, std::shared_ptr<const PartMap> map, std::uint64_t group,
                                           std::size_t in_part, std::size_t size) {
  CO_TRY(auto file, co_await files_.get(call, map->place.at.segment));
  const std::uint64_t from = map->place.data_at() + in_part * crypto::group_size;
  CO_TRY(const HeapBytes bytes, co_await read_past_cache(call, file, from, size));
  if (bytes.size() < size || in_part >= map->groups.size() ||
      crypto::hash_group(bytes.bytes(), group, map->root) != map->groups[in_part])
    co_return rotten();
  Buffer buffer = machine_.slab.take(std::max<std::size_t>(size, 1));
  std::copy_n(bytes.bytes().begin(), size, buffer.room().begin());
  buffer.fill(size);
  co_return buffer;
}

Task<Result<GroupBytes>> StorePort::read_groups(Call call, LocatedPtr object, std::uint64_t group,
                                                std::uint64_t end, ReadAhead* ahead) {
  if (auto taken = ahead->take(group, end)) co_return std::move(*taken);
  GroupBytes out;
  out.ref = store_.cache_.find(object->address, group);
  if (out.ref) co_return out;
  const std::size_t size = crypto::group_length(object->entry.size, group);
  const bool wanted = store_.cache_.wants(object->address, group, size);
  // Groups that get a slot of the cache are read one by one, and a single group needs no read ahead.
  end = std::min(end, (group / crypto::groups_per_part + 1) * crypto::groups_per_part);
  if (!wanted && end - group > 1) {
    CO_TRY_VOID(co_await fill(call, object, group, end, ahead));
    if (auto taken = ahead->take(group, end)) co_return std::move(*taken);
  }
  // Also when bytes that were read are bad: read_one() finds out what is wrong.
  co_return co_await read_one(call, std::move(object), group, wanted);
}

// Reads groups from `group` on into `ahead`: a step of them when they are in the page cache, else all up to
// `end`. Groups behind the first are not looked up in the cache, but counted as missed. It may read nothing.
Task<Result<>> StorePort::fill(Call call, LocatedPtr object, std::uint64_t group, std::uint64_t end,
                               ReadAhead* ahead) {
  *ahead = ReadAhead();
  auto block = std::make_shared<io::ReadBlock>(blocks_.try_take());
  if (!*block) co_return Result<>{};
  CO_TRY(auto map, co_await part_map(call, object, group / crypto::groups_per_part));
  const std::size_t in_part = group % crypto::groups_per_part;
  auto file = co_await files_.get(call, map->place.at.segment);
  if (!file && (file.error().code == ErrorCode::timeout || call.stopped())) co_return fail(file.error());
  if (!file || in_part + (end - group) > map->groups.size() || end > crypto::group_count(object->entry.size))
    co_return Result<>{};
  const std::uint64_t from = map->place.data_at() + in_part * crypto::group_size;
  const auto length = [&](std::uint64_t until) {
    return static_cast<std::size_t>(std::min(until * crypto::group_size, object->entry.size) -
                                    group * crypto::group_size);
  };
  const auto before_cached = [&](std::uint64_t from_group, std::uint64_t until_group) {
    while (from_group < until_group && !store_.cache_.find(object->address, from_group)) ++from_group;
    return from_group;
  };
  std::uint64_t until = before_cached(group + 1, std::min(end, group + ReadAhead::step_groups));
  if (until == group + 1) co_return Result<>{};
  MutableByteView into = block->bytes().first(length(until));
  Result<std::size_t> got = std::size_t{0};
  if ((*file)->is_resident(from, into.size())) got = (*file)->try_read_into(from, into);
  if (!got || *got < into.size()) {
    if (until == group + ReadAhead::step_groups) until = before_cached(until, end);
    if (++cold_reads_ % page_cached_share == 0) {
      into = block->bytes().first(length(until));
      got = co_await (*file)->read_into(call, from, {into, block});
    } else {
      into = block->bytes().subspan(from % io::File::direct_alignment, length(until));
      got = co_await (*file)->read_direct(call, from, into.size(), {block->bytes(), block});
    }
    if (!got && (got.error().code == ErrorCode::timeout || call.stopped())) co_return fail(got.error());
  }
  if (!got || *got < into.size()) co_return Result<>{};
  store_.status_.groups_read.fetch_add(until - group, std::memory_order_relaxed);
  for (std::uint64_t behind = group + 1; behind < until; ++behind)
    (void)store_.cache_.wants(object->address, behind, crypto::group_length(object->entry.size, behind));
  *ahead = ReadAhead(block->share(), into, std::move(map), group);
  co_return Result<>{};
}

// The quarantine is durable before the reader is told: the next reader is refused without a look. `gone`: the
// bytes are not bad, but not there, like those behind the end of their segment.
Task<Result<>> StorePort::report_rot(Call call, LocatedPtr object, Place place, bool gone) {
  store_.status_.rot.fetch_add(1);
  maps_->forget({object->address, 0});
  outlines_->forget({object->address, 0});
  auto mutation = std::make_unique<Mutation>(Mutation::Kind::quarantine);
  mutation->address = object->address;
  mutation->origin = object->entry.origin;
  if (!gone) {
    const auto file = co_await files_.get(call, place.at.segment);
    const auto size = file ? (*file)->size() : Result<std::uint64_t>(fail(file.error()));
    gone = size ? place.end() > *size : size.error().code == ErrorCode::not_found;
  }
  mutation->at = {place.at.segment, gone ? 0 : place.at.offset};
  // A store that cannot write still reports the rot, by the answer and the count.
  (void)co_await submit(call, std::move(mutation));
  co_return Result<>{};
}

Task<Result<std::vector<Listed>>> StorePort::list(Call call, std::string prefix, std::optional<Address> after,
                                                  std::size_t limit) {
  // `prefix` is bytes of the address.
  std::string from = std::string(1, object_prefix) + prefix;
  const std::string until = prefix_end(from);
  if (after) from = std::max(from, std::string(object_key(*after)) + '\0');
  std::vector<Listed> out;
  if (from >= until) co_return out;
  CO_TRY(const auto found, co_await kv_.scan(call, from, until, limit));
  for (const KvPair& pair : found) {
    ObjectEntry entry;
    if (!decode(as_bytes(pair.value), entry) || pair.key.size() != 1 + sizeof(Address))
      co_return fail(kv_.distrust(undecodable));
    Listed one;
    std::memcpy(one.address.bytes.data(), pair.key.data() + 1, one.address.bytes.size());
    one.size = entry.size;
    one.pinned = entry.pinned;
    one.quarantined = entry.quarantined();
    out.push_back(one);
  }
  co_return out;
}

Task<Result<std::optional<UploadEntry>>> StorePort::find_upload(Call call, Ulid token) {
  CO_TRY(const auto found, co_await value(call, upload_key(token)));
  if (!found) co_return std::optional<UploadEntry>();
  UploadEntry entry;
  if (!decode(as_bytes(*found), entry)) co_return fail(kv_.distrust(undecodable));
  if (!entry.committed && entry.expires <= machine_.shard.wall()) co_return std::optional<UploadEntry>();
  co_return entry;
}

Task<Result<std::optional<UploadState>>> StorePort::upload_state(Call call, Ulid token) {
  CO_TRY(const auto entry, co_await find_upload(call, token));
  if (!entry) co_return std::optional<UploadState>();
  UploadState state;
  state.size = entry->size;
  state.expires = entry->expires;
  state.committed = entry->committed;
  state.owner = entry->owner;
  std::uint64_t at = 0;  // everything before it is there, or told as missing
  bool gap = false;
  const auto missing = [&](std::uint64_t first, std::uint64_t end) {
    gap = true;
    if (!state.missing.empty() && state.missing.back().second + 1 == first)
      state.missing.back().second = end - 1;
    else
      state.missing.emplace_back(first, end - 1);
  };
  std::string from = part_key(token, 0);
  const std::string until = parts_end(token);
  for (;;) {
    CO_TRY(const auto page, co_await kv_.scan(call, from, until, 512));
    for (const KvPair& pair : page) {
      PartEntry part;
      if (!decode(as_bytes(pair.value), part)) co_return fail(kv_.distrust(undecodable));
      const std::uint64_t begin = std::uint64_t{number_in(pair.key)} * crypto::part_size;
      if (begin > at) missing(at, begin);
      at = begin + part.place.data_size;
      if (!gap) state.contiguous = at;
    }
    if (page.size() < 512) break;
    from = page.back().key + '\0';
  }
  if (entry->size > at) missing(at, entry->size);
  co_return state;
}

// --- changes

Task<Result<Outcome>> StorePort::submit(Call call, std::unique_ptr<Mutation> mutation) {
  return store_.home_->committer().errands().ask(call, std::move(mutation), machine_.mailbox,
                                                 &store_.pending_);
}

Task<Result<Outcome>> StorePort::put(Call call, Address address, Draft::Taken taken) {
  auto mutation = std::make_unique<Mutation>(Mutation::Kind::put);
  mutation->address = address;
  mutation->record = std::move(taken.record);
  mutation->bytes = std::move(taken.hold);
  return submit(call, std::move(mutation));
}

Task<Result<Outcome>> StorePort::begin_upload(Call call, NewUpload upload) {
  auto mutation = std::make_unique<Mutation>(Mutation::Kind::begin);
  // A token must not be guessed: a client that knows it may write to the upload.
  std::array<std::uint64_t, 2> random{};
  machine_.entropy.fill(std::as_writable_bytes(std::span(random)));
  mutation->token = make_ulid(machine_.shard.wall(), random[0], random[1]);
  mutation->size = upload.size;
  mutation->media_type = std::move(upload.media_type);
  mutation->expires =
      WallTime{machine_.shard.wall().ms + upload.ttl.value_or(store_.options_.upload_ttl).to_millis()};
  mutation->owner = std::move(upload.owner);
  return submit(call, std::move(mutation));
}

Task<Result<Outcome>> StorePort::end_idle_uploads(Call call, std::uint64_t size) {
  auto mutation = std::make_unique<Mutation>(Mutation::Kind::end_idle);
  mutation->size = size;
  return submit(call, std::move(mutation));
}

Task<Result<Outcome>> StorePort::put_part(Call call, PartRecord part, Draft::Taken taken) {
  auto mutation = std::make_unique<Mutation>(Mutation::Kind::part);
  mutation->part = std::move(part);
  mutation->record = std::move(taken.record);
  mutation->bytes = std::move(taken.hold);
  return submit(call, std::move(mutation));
}

Task<Result<Outcome>> StorePort::commit_upload(Call call, Ulid token, std::optional<Address> address,
                                               std::string media_type) {
  auto mutation = std::make_unique<Mutation>(Mutation::Kind::commit);
  mutation->token = token;
  mutation->address = address;
  mutation->media_type = std::move(media_type);
  return submit(call, std::move(mutation));
}

Task<Result<Outcome>> StorePort::abort_upload(Call call, Ulid token) {
  auto mutation = std::make_unique<Mutation>(Mutation::Kind::abort);
  mutation->token = token;
  return submit(call, std::move(mutation));
}

void StorePort::drop_upload(Ulid token) {
  auto mutation = std::make_unique<Mutation>(Mutation::Kind::abort);
  mutation->token = token;
  (void)store_.home_->committer().errands().leave(std::move(mutation), machine_.mailbox, &store_.pending_);
}

Task<Result<Outcome>> StorePort::remove(Call call, Address address) {
  // Compaction may have much to copy: a delete that waits too long is told to come again [OH-5].
  const Instant until = machine_.shard.now() + room_patience;
  for (;;) {
    if (!store_.status().making_room) {
      auto mutation = std::make_unique<Mutation>(Mutation::Kind::remove);
      mutation->address = address;
      auto removed = co_await submit(call, std::move(mutation));
      // The index may have found the disk full in the moment before it merges, or before a segment goes. Dead
      // bytes will make room.
      const bool full = !removed && removed.error().code == ErrorCode::storage_full;
      if (!full || store_.status().dead_bytes == 0) co_return removed;
    }
    if (machine_.shard.now() >= until)
      co_return fail(ErrorCode::busy, "the disk is full, and room is being made");
    CO_TRY_VOID(co_await sleep_for(call, room_step));
  }
}

Task<Result<Outcome>> StorePort::pin(Call call, Address address, bool pinned) {
  auto mutation = std::make_unique<Mutation>(Mutation::Kind::pin);
  mutation->address = address;
  mutation->flag = pinned;
  return submit(call, std::move(mutation));
}

}  // namespace cairn::store
