// StoreSet: the object stores of several data directories as one. Each is whole by itself: its own log, its
// own index. An address belongs to the directory that rendezvous hashing prefers among those that can take
// writes; it is found wherever it is.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "store/object_store.h"
#include "store/store_port.h"

namespace cairn::store {

class StoreSet {
 public:
  // One store for each directory, with otherwise the same options. `kv` and `cache` outlive it.
  StoreSet(const std::vector<std::string>& directories, const StoreOptions& options, KvMaker& kv,
           GroupCache& cache);

  std::size_t size() const noexcept { return stores_.size(); }
  ObjectStore& at(std::size_t index) noexcept { return *stores_[index]; }
  bool takes_writes(Instant now) noexcept;  // one of them does
  bool whole() noexcept;                    // no store knows of a loss
  bool index_damaged() noexcept;            // of any

 private:
  std::vector<std::unique_ptr<ObjectStore>> stores_;
};

class SetPort {
 public:
  // It may be asked after every store was opened, and lives no longer than the set.
  SetPort(StoreSet& set, io::Machine& machine);

  struct Found {
    StorePort* port = nullptr;  // nothing: not here
    LocatedPtr object;
  };
  // `integrity` only when no store has a good copy. Cancel: clean.
  Task<Result<Found>> find(Call call, Address address);
  // From every store that has it, good or bad; how many that were. `pinned`: one store keeps a pinned copy.
  // Cancel: partial — some may have removed it.
  Task<Result<std::size_t>> remove(Call call, Address address);
  // In every store that has it, good or bad; how many that were. Not in one alone: a copy that stayed pinned
  // could not be removed, nor be found to be unpinned. Cancel: partial — some may have it.
  Task<Result<std::size_t>> pin(Call call, Address address, bool pinned);
  // The store where an object of this address is, or is to go. `degraded` or `storage_full`: none.
  // Cancel: clean.
  Task<Result<StorePort*>> for_put(Call call, Address address);
  struct Begun {
    StorePort* port = nullptr;
    Outcome upload;
  };
  // Begins an upload in a store where its size fits (0: not said), if need be in place of idle uploads.
  // `storage_full`: no store.
  // Cancel: partial — it may have begun.
  Task<Result<Begun>> begin_upload(Call call, std::uint64_t random, NewUpload upload);
  // The store that has this upload. Cancel: clean.
  struct FoundUpload {
    StorePort* port = nullptr;
    UploadEntry entry;
  };
  Task<Result<FoundUpload>> find_upload(Call call, Ulid token);
  // Merged in order of address. Cancel: clean.
  Task<Result<std::vector<Listed>>> list(Call call, std::string prefix, std::optional<Address> after,
                                         std::size_t limit);

 private:
  Result<StorePort*> for_write(std::uint64_t random);
  template <class F>
  StorePort* preferred(std::uint64_t key, F suits) const;

  std::vector<std::unique_ptr<StorePort>> ports_;
};

}  // namespace cairn::store
