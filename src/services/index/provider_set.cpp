#include "services/index/provider_set.h"

#include <algorithm>
#include <tuple>

namespace cairn::index {

bool is_newer(const SignedProvider& a, const SignedProvider& b) noexcept {
  return std::tie(a.record.sequence, a.record.expiry, a.bytes) >
         std::tie(b.record.sequence, b.record.expiry, b.bytes);
}

bool ProviderSet::add(SignedProvider provider, WallTime now) {
  if (provider.record.address != address_) return false;
  const auto same = std::ranges::find_if(
      records_, [&](const SignedProvider& known) { return known.record.key == provider.record.key; });
  if (same != records_.end()) {
    if (!is_newer(provider, *same)) return false;
    *same = std::move(provider);
    return true;
  }
  if (records_.size() < providers_max) {
    records_.push_back(std::move(provider));
    return true;
  }
  if (!is_fresh(provider.record, now)) return false;
  const auto useless = std::ranges::find_if(
      records_, [now](const SignedProvider& known) { return !is_fresh(known.record, now); });
  if (useless == records_.end()) return false;
  *useless = std::move(provider);
  return true;
}

void ProviderSet::add_all(std::span<const SignedProvider> providers, WallTime now) {
  for (const SignedProvider& provider : providers) add(provider, now);
}

bool ProviderSet::has_fresh(WallTime now) const noexcept {
  return std::ranges::any_of(records_,
                             [now](const SignedProvider& known) { return is_fresh(known.record, now); });
}

}  // namespace cairn::index
