// ProviderSet: what is known of the providers of one address. A value.
//   [PT-1] Of each node key it has one record, the one with the highest sequence of all that were added.
//   [PT-2] It has at most providers_max records. A newcomer to a full set takes the place of a record that is
//         of no use any more, and of no other: a flood of new keys pushes nobody out.
// Withdrawn and expired records are kept, because they say that older ones are over.
#pragma once

#include <span>
#include <vector>

#include "services/index/target.h"

namespace cairn::index {

inline constexpr std::size_t providers_max = 32;

// Whether the node says that it has the object, and still stands by it.
inline bool is_fresh(const format::ProviderRecord& record, WallTime now) noexcept {
  return !record.is_withdrawal() && record.expiry > now;
}
// Whether `a` is in force over `b`, of the same node and address. A node that signs two records with one
// sequence gets the same one of them everywhere.
bool is_newer(const SignedProvider& a, const SignedProvider& b) noexcept;

class ProviderSet {
 public:
  explicit ProviderSet(const Address& address) noexcept : address_(address) {}

  // False: it changes nothing.
  bool add(SignedProvider provider, WallTime now);
  void add_all(std::span<const SignedProvider> providers, WallTime now);

  bool has_fresh(WallTime now) const noexcept;
  const std::vector<SignedProvider>& records() const noexcept { return records_; }
  std::vector<SignedProvider> take() && noexcept { return std::move(records_); }

 private:
  Address address_;
  std::vector<SignedProvider> records_;
};

}  // namespace cairn::index
