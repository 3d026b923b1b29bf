#include "services/gateway/tenants.h"

#include <algorithm>

#include <fmt/format.h>

namespace cairn::gateway {
namespace {

constexpr std::int64_t second = 1'000'000'000;
constexpr std::size_t labels_max = 64;
constexpr std::string_view label_of_the_rest = "other";
constexpr std::uint64_t beyond_part = 8;

bool is_v4(const io::PeerAddress& peer) noexcept {
  static constexpr std::uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::equal(std::begin(mapped), std::end(mapped), peer.bytes);
}

bool is_idle(const TenantPtr& tenant) noexcept {
  return tenant.use_count() == 1 && tenant->turns.held() == 0 &&
         tenant->turns.uses.load(std::memory_order_acquire) == 0;
}

std::uint64_t share_of(std::uint64_t all, std::uint64_t weight, std::uint64_t asking) noexcept {
  return std::max<std::uint64_t>(1, all * weight / std::max(weight, asking));
}

}  // namespace

const TenantRules::Named* TenantRules::find(std::string_view name) const noexcept {
  const auto at = std::ranges::lower_bound(named, name, {}, &Named::name);
  return at != named.end() && at->name == name ? &*at : nullptr;
}
std::uint32_t TenantRules::weight_of(std::string_view name) const noexcept {
  const Named* own = find(name);
  return own != nullptr && own->weight > 0 ? own->weight : default_weight;
}
const QuotaLimits& TenantRules::quota_of(std::string_view name) const noexcept {
  const Named* own = find(name);
  return own != nullptr && own->quota ? *own->quota : default_quota;
}

Tenants::Tenants(TenantRules rules) {
  for (const TenantRules::Named& named : rules.named)
    if (labels_.size() < labels_max && named.name != label_of_the_rest) labels_.push_back(named.name);
  labels_.emplace_back(label_of_the_rest);
  table_.with([&](Table& table) {
    table.rules = std::make_shared<const TenantRules>(std::move(rules));
    table.others = make(table, "others", false);
  });
}

TenantPtr Tenants::make(const Table& table, std::string_view name, bool is_address) const {
  auto tenant = std::make_shared<Tenant>(std::string(name), is_address, table.rules->weight_of(name),
                                         table.rules->quota_of(name));
  const auto label = std::ranges::find(labels_, name);
  tenant->label = static_cast<std::size_t>(label == labels_.end() ? labels_.end() - 1 - labels_.begin()
                                                                  : label - labels_.begin());
  return tenant;
}

// Of the idlest only a few are looked at: a new tenant costs the same however many are known.
bool Tenants::forget_one(Kin& kin) {
  int looks = 16;
  for (auto at = kin.ages.begin(); at != kin.ages.end() && looks-- > 0; ++at) {
    const auto known = kin.known.find(*at);
    if (!is_idle(known->second.tenant)) continue;
    kin.ages.erase(at);
    kin.places[known->second.place] = nullptr;
    kin.free_place = known->second.place;
    kin.known.erase(known);  // and with it the name that the key is
    return true;
  }
  return false;
}

TenantPtr Tenants::find(std::string_view name, bool is_address) {
  return table_.with([&](Table& table) -> TenantPtr {
    Kin& kin = table.kinds[is_address ? 1 : 0];
    if (const auto at = kin.known.find(name); at != kin.known.end()) {
      kin.ages.splice(kin.ages.end(), kin.ages, at->second.age);
      return at->second.tenant;
    }
    if (kin.known.size() >= (is_address ? addresses_max : named_max) && !forget_one(kin)) return table.others;
    TenantPtr tenant = make(table, name, is_address);
    std::list<std::string_view> age{tenant->name};
    if (!kin.free_place) {
      kin.places.push_back(nullptr);
      kin.free_place = kin.places.size() - 1;
    }
    kin.known.emplace(tenant->name, Known{tenant, age.begin(), *kin.free_place});
    // Behind all that may throw.
    kin.places[*kin.free_place] = tenant.get();
    kin.free_place.reset();
    kin.ages.splice(kin.ages.end(), age);
    return tenant;
  });
}

// The present second is the latest that any shard has seen, and a tenant is counted once in it: a shard whose
// clock is behind would else count it anew, and make every share smaller.
std::uint64_t Tenants::asking(Tenant& tenant, Instant now) noexcept {
  std::int64_t present = now.ns / second;
  std::int64_t known = second_.load(std::memory_order_relaxed);
  if (present > known && second_.compare_exchange_strong(known, present, std::memory_order_relaxed)) {
    const std::uint64_t last = now_.exchange(0, std::memory_order_relaxed);
    before_.store(present == known + 1 ? last : 0, std::memory_order_relaxed);
  }
  present = std::max(present, known);
  const std::uint64_t weight = tenant.turns.weight();
  std::int64_t asked = tenant.asked_in.load(std::memory_order_relaxed);
  while (asked < present)
    if (tenant.asked_in.compare_exchange_weak(asked, present, std::memory_order_relaxed)) {
      now_.fetch_add(weight, std::memory_order_relaxed);
      break;
    }
  return std::max({weight, now_.load(std::memory_order_relaxed), before_.load(std::memory_order_relaxed)});
}

bool Tenants::try_enter(Tenant& tenant, std::uint64_t asking, Permits& inflight) noexcept {
  const std::uint64_t weight = tenant.turns.weight(), limit = inflight.limit();
  const bool below = tenant.inside.load(std::memory_order_relaxed) < share_of(limit, weight, asking);
  if (!below && inflight.taken() >= limit / 2) return false;
  if (!inflight.try_take(below && asking > weight ? limit / beyond_part : 0)) return false;
  tenant.inside.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void Tenants::leave(Tenant& tenant, Permits& inflight) noexcept {
  CHECK(tenant.inside.fetch_sub(1, std::memory_order_relaxed) != 0);
  inflight.give();
}

// What a tenant takes beyond its share does not count against it later: `paid_until` stays within the share.
// It never goes back: to a shard whose clock is behind the share's end looks nearer than it is.
RateVerdict Tenants::try_take(Tenant& tenant, std::uint64_t asking, RateLimiter& rate, Instant now) noexcept {
  const std::uint64_t weight = tenant.turns.weight(), all = rate.rate();
  const auto share = static_cast<std::int64_t>(share_of(all, weight, asking));
  const std::int64_t interval = (second + share - 1) / share;
  const std::int64_t horizon = now.ns + interval * share;
  std::int64_t paid = tenant.paid_until.load(std::memory_order_relaxed);
  const std::int64_t next = std::max(paid, now.ns) + interval;
  const bool below = next <= horizon;
  if (!below && rate.half_used(now)) return {false, Duration::nanos(next - horizon)};
  const RateVerdict verdict = rate.try_take(now, below && asking > weight ? all / beyond_part : 0);
  if (!verdict) return verdict;
  const auto paid_for = [&] { return std::max(paid, std::min(std::max(paid, now.ns) + interval, horizon)); };
  while (!tenant.paid_until.compare_exchange_weak(paid, paid_for(), std::memory_order_relaxed)) {
  }
  return verdict;
}

std::array<std::uint64_t, 2> tenant_network(const io::PeerAddress& peer) noexcept {
  std::array<std::uint64_t, 2> words{};
  if (peer.local) return {~std::uint64_t{0}, ~std::uint64_t{0}};
  if (is_v4(peer)) {
    words[1] = 0xffff;
    for (int i = 12; i < 15; ++i) words[1] = words[1] << 8 | peer.bytes[i];
  } else {
    for (int i = 0; i < 7; ++i) words[0] = words[0] << 8 | peer.bytes[i];
    words[0] <<= 8;
  }
  return words;
}

std::string format_tenant_address(const io::PeerAddress& peer) {
  const std::uint8_t* b = peer.bytes;
  if (peer.local) return "local";
  if (is_v4(peer)) return fmt::format("{}.{}.{}.0/24", b[12], b[13], b[14]);
  const auto group = [&](int i) { return static_cast<unsigned>(b[2 * i] << 8 | b[2 * i + 1]); };
  return fmt::format("{:x}:{:x}:{:x}:{:x}::/56", group(0), group(1), group(2), group(3) & 0xff00u);
}

}  // namespace cairn::gateway
