// StorePort: one shard's way to an object store: verified reads, and changes that are answered when durable.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "io/machine.h"
#include "io/read_block.h"
#include "store/draft.h"
#include "store/group_cache.h"
#include "store/index_port.h"
#include "store/mutation.h"
#include "store/object_store.h"
#include "store/part_map.h"
#include "store/read_ahead.h"

namespace cairn::store {

// An object as the index had it. Compaction may have moved it since: then the port looks again.
struct Located {
  Address address;
  ObjectEntry entry;
  std::shared_ptr<const ObjectFacts> facts;
  std::uint64_t epoch = 0;  // of the cache, when it was looked up
};
using LocatedPtr = std::shared_ptr<const Located>;

struct Listed {
  Address address;
  std::uint64_t size = 0;
  bool pinned = false;
  bool quarantined = false;
};

struct NewUpload {
  std::uint64_t size = 0;  // 0: not said
  std::string media_type = {};
  std::optional<Duration> ttl = {};  // none: as the store's options say
  UploadOwner owner = {};
};

struct UploadState {
  std::uint64_t size = 0;  // 0: not said
  WallTime expires{};
  std::uint64_t contiguous = 0;  // bytes from the start without a gap
  // [first, last] of each gap; without a size, up to the end of the last part that is there.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> missing;
  std::optional<Address> committed;
  UploadOwner owner = {};
};

class StorePort {
 public:
  StorePort(ObjectStore& store, io::Machine& machine);
  ~StorePort();
  StorePort(const StorePort&) = delete;
  StorePort& operator=(const StorePort&) = delete;

  ObjectStore& store() noexcept { return store_; }

  // --- reads. Cancel: clean.
  // Nothing: not here. `integrity`: its bytes were found bad before.
  Task<Result<LocatedPtr>> find(Call call, Address address);
  // Verified before it is given out; from the cache if it is there. `integrity`: the bytes do not match; the
  // object is quarantined.
  Task<Result<GroupBytes>> read_group(Call call, LocatedPtr object, std::uint64_t group);
  // The same for a reader that goes on to group `end`: group `group`, and as many behind it as are at hand.
  // Other groups that were read on the way are in `ahead`, where the reader finds them first. Once some of
  // them were given out, rot behind them is met when its turn comes. `ahead` outlives the call.
  Task<Result<GroupBytes>> read_groups(Call call, LocatedPtr object, std::uint64_t group, std::uint64_t end,
                                       ReadAhead* ahead);
  // The hashes of all parts, checked against the address.
  Task<Result<std::shared_ptr<const std::vector<crypto::Hash>>>> part_hashes(Call call, LocatedPtr object);
  Task<Result<std::shared_ptr<const PartMap>>> part_map(Call call, LocatedPtr object, std::uint64_t part);
  // Addresses after `after` that begin with `prefix`, in order.
  Task<Result<std::vector<Listed>>> list(Call call, std::string prefix, std::optional<Address> after,
                                         std::size_t limit);
  // None: there is no such upload, or its time is over. One look into the index, however many parts it has.
  Task<Result<std::optional<UploadEntry>>> find_upload(Call call, Ulid token);
  // The same with the gaps: looks at every part.
  Task<Result<std::optional<UploadState>>> upload_state(Call call, Ulid token);

  // --- changes. Answered when durable. Cancel: partial — one that was begun may still be done.
  Task<Result<Outcome>> put(Call call, Address address, Draft::Taken taken);
  Task<Result<Outcome>> begin_upload(Call call, NewUpload upload);
  // Ends uploads without a part for long, the longest idle first, if that makes room for `size` bytes. Gives
  // how many bytes they had.
  Task<Result<Outcome>> end_idle_uploads(Call call, std::uint64_t size);
  Task<Result<Outcome>> put_part(Call call, PartRecord part, Draft::Taken taken);
  Task<Result<Outcome>> commit_upload(Call call, Ulid token, std::optional<Address> address,
                                      std::string media_type);
  Task<Result<Outcome>> abort_upload(Call call, Ulid token);
  // The same, without waiting for it. If it cannot be asked for now, the upload ends when its time is over.
  void drop_upload(Ulid token);
  Task<Result<Outcome>> remove(Call call, Address address);
  Task<Result<Outcome>> pin(Call call, Address address, bool pinned);

  void forget_segment(std::uint32_t segment) noexcept { files_.forget(segment); }
  void renew_index() { kv_.renew(); }
  Task<Result<Outcome>> submit(Call call, std::unique_ptr<Mutation> mutation);

 private:
  struct MapKey {
    Address address;
    std::uint64_t part;
    friend bool operator==(const MapKey&, const MapKey&) = default;
  };
  struct MapKeyHash {
    std::size_t operator()(const MapKey& key) const noexcept;
  };
  // A small cache, the least recently used goes first.
  template <class V>
  class Recent;

  // The caller keeps the key until it has the value.
  Task<Result<std::optional<std::string>>> value(Call call, std::string_view key);
  // `again`: past the page cache.
  Task<Result<std::string>> read_meta(Call call, Place place, bool again = false);
  Task<Result<std::shared_ptr<const PartMap>>> load_part_map(Call call, LocatedPtr object,
                                                             std::uint64_t part);
  Task<Result<>> read_verified(Call call, std::shared_ptr<const PartMap> map, std::uint64_t group,
                               std::size_t in_part, io::Region into);
  // Verified, past the page cache.
  Task<Result<Buffer>> read_again(Call call, std::shared_ptr<const PartMap> map, std::uint64_t group,
                                  std::size_t in_part, std::size_t size);
  Task<Result<GroupBytes>> read_one(Call call, LocatedPtr object, std::uint64_t group, bool wanted);
  Task<Result<>> fill(Call call, LocatedPtr object, std::uint64_t group, std::uint64_t end, ReadAhead* ahead);
  Task<Result<>> report_rot(Call call, LocatedPtr object, Place place, bool gone);
  Task<Result<LocatedPtr>> find_again(Call call, const LocatedPtr& object);

  ObjectStore& store_;
  io::Machine& machine_;
  IndexPort kv_;
  SegmentFiles files_;
  io::ReadBlocks blocks_;
  std::uint64_t cold_reads_ = 0;
  std::unique_ptr<Recent<std::shared_ptr<const PartMap>>> maps_;
  std::unique_ptr<Recent<std::shared_ptr<const std::vector<crypto::Hash>>>> outlines_;
};

}  // namespace cairn::store
