// ProviderTable: what nodes have said to this index: which objects they have, and where they are asked for
// them. Soft state beside the ledger: it is in a map of its own without a log, and a node that hears of a new
// epoch says everything again.
//
//   [PV-1] Of two records of a node for one address the one with the higher sequence is in force, also when
//          it says that the node no longer has the object.
//   [PV-2] Each node has one record per address. An address has at most `providers_max`: while so many are
//          in force, no other node's is taken.
//   [PV-3] A table that may have lost what it took has another epoch than before.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/ulid.h"
#include "io/machine.h"
#include "observe/log.h"
#include "runtime/errand.h"
#include "runtime/permits.h"
#include "services/index/map_port.h"
#include "services/index/provider_set.h"

namespace cairn::index {

// The capacity of `announced`: batches of records that may wait for the table's keeper.
inline constexpr std::uint64_t announced_capacity = 64;
inline constexpr char announced_full[] = "too many announcements wait";

// A record that a reader finds, and when it came here last.
struct KnownProvider : SignedProvider {
  WallTime heard{};
};

struct Announced {
  std::size_t taken = 0;
  std::size_t older = 0;    // another of the node was in force (PV-1)
  std::size_t crowded = 0;  // too many nodes have the object (PV-2)
};
struct Announcement : Errand<Announcement, Announced> {
  std::vector<SignedProvider> records;
};

struct ProviderStatus {
  std::atomic<std::uint64_t> addresses{0};  // about: some may have no record in force any more
  std::atomic<bool> damaged{false};
};

// Whether one of them says that its node has the object.
bool any_stands(const std::vector<KnownProvider>& known) noexcept;
// Takes away the records that one of `known` is in force over.
void drop_superseded(std::vector<SignedProvider>& providers, const std::vector<KnownProvider>& known);

class ProviderPort;

class ProviderTable {
 public:
  // The maker outlives it.
  ProviderTable(std::string directory, std::uint64_t announced_most, store::KvMaker& kv);
  ~ProviderTable();
  ProviderTable(const ProviderTable&) = delete;
  ProviderTable& operator=(const ProviderTable&) = delete;

  // --- on the home shard
  // Cancel: partial — as after a crash.
  Task<Result<>> open(Call call, io::Machine& machine, observe::Logger log);
  // The task, the table's only writer: takes announcements in, and walks slowly over all records to drop
  // those that are over. Cancel: clean.
  Task<> keep(Call call);
  // Precondition: the task has ended, and no port is in use. Cancel: partial — as after a crash.
  Task<Result<>> close(Call call);
  // Called in keep() for each address with a record in force: when one is taken, and when the walk comes to
  // it. Must not wait. Set before keep().
  void on_address(std::function<void(const Address& address)> told) { told_ = std::move(told); }
  // Looks at some records from where the last call ended, for tests; keep() does the same.
  Task<Result<>> sweep_some(Call call, std::size_t most);

  // --- on each shard, after open
  std::unique_ptr<ProviderPort> make_port(io::Machine& machine);

  // --- from any thread, after open
  Ulid epoch() const noexcept { return epoch_; }
  ProviderStatus& status() noexcept { return status_; }
  Permits& announced() noexcept { return announced_; }

 private:
  friend class ProviderPort;
  struct Home;
  void tell(const std::vector<KnownProvider>& all);

  std::string directory_;
  store::KvMaker& kv_maker_;
  Permits announced_;
  ProviderStatus status_;
  Ulid epoch_;
  std::function<void(const Address&)> told_;
  bool first_walk_ = true;
  std::shared_ptr<store::KvEngine> engine_;
  std::unique_ptr<Home> home_;
};

// One shard's way to the table.
class ProviderPort {
 public:
  // Both outlive it.
  ProviderPort(ProviderTable& table, io::Machine& machine);

  // Records that are not over, in the order of the nodes' keys; also those that say that a node no longer has
  // the object: they prove that older ones, which others may still know, are over. From memory only: `busy`
  // when find() has to look on the disk.
  Result<std::vector<KnownProvider>> try_find(const Address& address);
  // Cancel: clean.
  Task<Result<std::vector<KnownProvider>>> find(Call call, Address address);
  ProviderTable& table() noexcept { return table_; }
  // Returns when readers find the records. Cancel: partial — they may be taken all the same.
  Task<Result<Announced>> announce(Call call, std::vector<SignedProvider> records);

 private:
  Result<std::vector<KnownProvider>> not_over(const std::optional<std::string>& found);

  ProviderTable& table_;
  io::Machine& machine_;
  MapPort kv_;
};

}  // namespace cairn::index
