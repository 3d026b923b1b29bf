#include "services/storage/holdings.h"

#include <algorithm>

namespace cairn::storage {

Task<Result<bool>> StoreHoldings::has(Call call, Address address) {
  auto found = co_await ports_.find(call, address);
  if (!found && found.error().code == ErrorCode::integrity) co_return false;
  if (!found) co_return fail(found.error());
  co_return found->port != nullptr;
}

Task<Result<Holdings::Page>> StoreHoldings::list(Call call, std::optional<Address> after, std::size_t most) {
  CO_TRY(const auto listed, co_await ports_.list(call, "", after, most));
  Page page;
  page.addresses.reserve(listed.size());
  for (const store::Listed& one : listed)
    if (!one.quarantined) page.addresses.push_back(one.address);
  if (listed.size() == most) page.last = listed.back().address;
  co_return page;
}

std::uint64_t StoreHoldings::count() const noexcept {
  std::uint64_t objects = 0;
  for (std::size_t i = 0; i < stores_.size(); ++i) {
    const store::StoreStatus& status = stores_.at(i).status();
    const std::uint64_t all = status.objects, bad = status.quarantined;
    objects += all - std::min(all, bad);
  }
  return objects;
}

}  // namespace cairn::storage
