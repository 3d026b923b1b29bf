// Tenants: who the gateway's limits are divided among. A tenant is what a token is bound to, else the network
// of the client's address: /24, or /56 of IPv6.
//   [TE-1] At most `addresses_max` tenants that are addresses are known; for a new one the one that has been
//         idle longest is forgotten. A tenant that is used, waits or holds a slot is never forgotten. When
//         none can be, newcomers share one tenant, `others`. With tokens it is the same. The two kinds have
//         a table each: a token's tenant is never an address's, whatever it is called.
//   [TE-2] Weights and quotas of a tenant, `others` too, are the newest configured ones, whatever it was when
//         it came.
//   [TE-3] Once half of the process's places for requests in flight, or of its rate, is used, a tenant has no
//         more of them than its weight's share among the tenants that ask (within a second). A tenant below
//         its share may go an eighth beyond the whole.
//
// Atomics of a tenant and of the sums: each is a number that publishes no other memory, so the order is
// relaxed. Shards that ask at the same moment may each let one request too many pass. Shards' clocks differ
// by a loop turn: seconds and `paid_until` only go forward.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "io/stream.h"
#include "runtime/declaration.h"
#include "runtime/deficit_round_robin.h"
#include "runtime/guarded.h"
#include "runtime/permits.h"
#include "runtime/rate.h"
#include "services/gateway/quota.h"

namespace cairn::gateway {

inline constexpr LockDeclaration tenants_lock{"tenants", 12, "the tenants by name"};

// What the configuration says of tenants.
struct TenantRules {
  std::uint32_t default_weight = 1;
  QuotaLimits default_quota = {};
  struct Named {
    std::string name;
    std::uint32_t weight = 0;  // 0: the default
    std::optional<QuotaLimits> quota = {};
  };
  std::vector<Named> named = {};  // by name
  const Named* find(std::string_view name) const noexcept;
  std::uint32_t weight_of(std::string_view name) const noexcept;
  const QuotaLimits& quota_of(std::string_view name) const noexcept;
};

struct Tenant {
  Tenant(std::string called, bool by_address, std::uint32_t weight, const QuotaLimits& limits)
      : name(std::move(called)), is_address(by_address), turns(weight), quota(limits) {}

  const std::string name;
  const bool is_address;
  DrrTenant turns;
  Quota quota;
  std::size_t label = 0;                    // of its metrics
  std::atomic<std::uint64_t> inside{0};     // requests in flight
  std::atomic<std::int64_t> paid_until{0};  // of its share of the rate, as RateLimiter counts
  std::atomic<std::int64_t> asked_in{-1};   // the last second in which it asked
};
using TenantPtr = std::shared_ptr<Tenant>;

class Tenants {
 public:
  static constexpr std::size_t addresses_max = 65'536, named_max = 65'536;

  explicit Tenants(TenantRules rules);
  Tenants(const Tenants&) = delete;
  Tenants& operator=(const Tenants&) = delete;

  TenantPtr find(std::string_view name, bool is_address);
  // `apply` is called for each tenant with its new weight; quotas are changed here.
  template <class F>
  void set_rules(TenantRules rules, F apply);
  template <class F>
  void for_each(F visit) {
    for (Walk walk; go_on(walk, visit);) {
    }
  }
  // A walk through all of them, a slice at a time: between two slices others may use the table, and a task
  // may wait. It meets each tenant once that was known before it and is known after it.
  struct Walk {
    std::size_t kind = 0, at = 0;
  };
  static constexpr std::size_t slice = 256;
  // False: that was the last slice.
  template <class F>
  bool go_on(Walk& walk, F&& visit);
  // Those that are counted under this label. Only of the last one there are more than one of a kind.
  template <class F>
  void for_each_of(std::size_t label, F visit) {
    table_.with([&](Table& table) {
      if (table.others->label == label) visit(*table.others);
      if (label + 1 == labels_.size()) return;
      for (const Kin& kin : table.kinds)
        if (const auto at = kin.known.find(labels_[label]); at != kin.known.end()) visit(*at->second.tenant);
    });
    if (label + 1 < labels_.size()) return;
    for_each([&](Tenant& tenant) {
      if (tenant.label == label) visit(tenant);
    });
  }
  std::size_t size() {
    return table_.with(
        [](Table& table) { return table.kinds[0].known.size() + table.kinds[1].known.size(); });
  }
  // The names that have metrics of their own; any other is counted as the last, `other`.
  const std::vector<std::string>& labels() const noexcept { return labels_; }

  // --- TE-3
  // This tenant asks now: the weights of those that ask, its own among them.
  std::uint64_t asking(Tenant& tenant, Instant now) noexcept;
  bool try_enter(Tenant& tenant, std::uint64_t asking, Permits& inflight) noexcept;
  void leave(Tenant& tenant, Permits& inflight) noexcept;
  RateVerdict try_take(Tenant& tenant, std::uint64_t asking, RateLimiter& rate, Instant now) noexcept;

 private:
  struct Known {
    TenantPtr tenant;
    std::list<std::string_view>::iterator age;
    std::size_t place = 0;
  };
  struct Kin {
    std::unordered_map<std::string_view, Known> known;  // by the name in the tenant
    std::list<std::string_view> ages;                   // the idlest first
    // For walks: a tenant keeps its place until it is forgotten, and the next one has it then.
    std::vector<Tenant*> places = {};
    std::optional<std::size_t> free_place = {};
  };
  struct Table {
    std::shared_ptr<const TenantRules> rules;
    std::array<Kin, 2> kinds;  // those with a token, addresses
    TenantPtr others;
  };
  TenantPtr make(const Table& table, std::string_view name, bool is_address) const;
  static bool forget_one(Kin& kin);

  std::vector<std::string> labels_;
  Guarded<Table, tenants_lock.rank> table_;
  // The weights of those that asked in the present second, and in the one before.
  alignas(64) std::atomic<std::int64_t> second_{-1};
  std::atomic<std::uint64_t> now_{0}, before_{0};
};

template <class F>
bool Tenants::go_on(Walk& walk, F&& visit) {
  return table_.with([&](Table& table) {
    const Kin& kin = table.kinds[walk.kind];
    const std::size_t end = std::min(kin.places.size(), walk.at + slice);
    for (; walk.at < end; ++walk.at)
      if (Tenant* tenant = kin.places[walk.at]; tenant != nullptr) visit(*tenant);
    if (walk.at < kin.places.size()) return true;
    walk = {walk.kind + 1, 0};
    return walk.kind < table.kinds.size();
  });
}

// Those that come meanwhile have the new rules already.
template <class F>
void Tenants::set_rules(TenantRules rules, F apply) {
  const auto shared = std::make_shared<const TenantRules>(std::move(rules));
  const auto renew = [&](Tenant& tenant) {
    tenant.quota.set_limits(shared->quota_of(tenant.name));
    apply(tenant, shared->weight_of(tenant.name));
  };
  table_.with([&](Table& table) {
    table.rules = shared;
    renew(*table.others);
  });
  for_each(renew);
}

// `203.0.113.0/24`, `2001:db8:0:100::/56`, or `local` for a Unix peer.
std::string format_tenant_address(const io::PeerAddress& peer);
// The bytes of that network: equal for peers of one tenant.
std::array<std::uint64_t, 2> tenant_network(const io::PeerAddress& peer) noexcept;

}  // namespace cairn::gateway
