// Holdings: which objects this node has and would serve. What the announcer asks of the stores.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/address.h"
#include "runtime/call.h"
#include "runtime/task.h"
#include "store/store_set.h"

namespace cairn::storage {

class Holdings {
 public:
  virtual ~Holdings() = default;
  // Cancel: clean.
  virtual Task<Result<bool>> has(Call call, Address address) = 0;
  struct Page {
    std::vector<Address> addresses;
    std::optional<Address> last;  // where the next page begins, behind it; none: this is the end
  };
  // In the order of the addresses. A page may be shorter than `most`, and empty, before the end.
  // Cancel: clean.
  virtual Task<Result<Page>> list(Call call, std::optional<Address> after, std::size_t most) = 0;
  virtual std::uint64_t count() const noexcept = 0;
};

// Of the stores of a process, by one shard's ports. An object whose bytes were found bad does not count.
class StoreHoldings final : public Holdings {
 public:
  // Both outlive it.
  StoreHoldings(store::StoreSet& stores, store::SetPort& ports) : stores_(stores), ports_(ports) {}
  Task<Result<bool>> has(Call call, Address address) override;
  Task<Result<Page>> list(Call call, std::optional<Address> after, std::size_t most) override;
  std::uint64_t count() const noexcept override;

 private:
  store::StoreSet& stores_;
  store::SetPort& ports_;
};

}  // namespace cairn::storage
