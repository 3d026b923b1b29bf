// Publisher: puts what was announced here into the DHT, and keeps it there. The DHT searches once for each
// put and forgets a value after ten minutes, so only so many addresses can be there, at a pace.
//
//   [DP-1] At most `keys_most` addresses are covered: those that names lead to, then those that were
//         announced last. The others are counted as uncovered.
//   [DP-2] At most `puts_most` puts are under way.
//   [DP-3] A covered address is put again `renew` after its last put, for as long as a record of it is in
//         force; then it is covered no more. Nothing is ever deleted from the DHT.
// Of one shard, the table's home.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "io/dht.h"
#include "runtime/scope.h"
#include "services/index/provider_table.h"
#include "services/index/reach.h"

namespace cairn::index {

struct PublishPolicy {
  std::size_t keys_most = 10'000;
  std::uint32_t network = 0;
  Reach reach;
};

struct PublishStatus {
  std::atomic<std::uint64_t> covered{0}, uncovered{0};
  std::atomic<std::uint64_t> done{0}, failed{0};  // puts
  std::atomic<std::int64_t> lag{0};               // ns: how long the oldest waits beyond its time
};

class Publisher {
 public:
  static constexpr std::size_t puts_most = 64;
  static constexpr Duration renew = Duration::seconds(480);
  static constexpr Duration again = Duration::seconds(30);  // after a put that failed

  // All outlive it.
  Publisher(Shard& shard, io::Dht& dht, ProviderPort& providers, PublishPolicy policy);

  // The address was announced. One that is covered already is put soon: its records may be others.
  void note(const Address& address);
  // A name leads to it.
  void note_named(const Address& address);
  void set_keys_most(std::size_t most);

  // The task. Cancel: clean — puts under way are left.
  Task<> run(Call call);

  PublishStatus& status() noexcept { return status_; }

 private:
  struct Entry {
    bool named = false;
    std::uint64_t noted = 0;  // rises
    Instant due{};
    std::optional<Instant> put{};  // the last time that it succeeded
    std::uint64_t put_number = 0;  // of the put under way; 0: none
  };
  using Covered = std::map<Address, Entry>;
  using Rank = std::pair<bool, std::uint64_t>;
  static Rank rank_of(const Entry& entry) noexcept { return {entry.named, entry.noted}; }

  void cover(const Address& address, bool named);
  void uncover(Covered::iterator at);
  void start_due(Scope& scope);
  void drop_surplus();
  void schedule(const Address& address, Entry& entry, Instant due);
  Task<> put(Call call, Address address, std::uint64_t number);
  Task<Result<bool>> put_records(Call call, Address address);
  void publish_status();

  Shard& shard_;
  io::Dht& dht_;
  ProviderPort& providers_;
  PublishPolicy policy_;
  PublishStatus status_;
  Covered covered_;
  std::map<Rank, Address> by_rank_;               // the first is given up first
  std::set<std::pair<Instant, Address>> by_due_;  // of those that are not under way
  std::set<Address> named_;                       // as many as may be covered
  std::deque<Address> named_order_;               // the oldest first
  std::uint64_t noted_ = 0, puts_ = 0;
  std::size_t under_way_ = 0;
  WaitList changed_;
};

}  // namespace cairn::index
