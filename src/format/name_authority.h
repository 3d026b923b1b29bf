// NameAuthorities: which key may change which names, as the items `name_authority` of a descriptor set say
// (docs/formats/registry.md).
//
// Whoever takes a change of a name from elsewhere asks here under which key it must be signed. There may be
// as many authorities as a set has items, and there are many more names: a lookup is one binary search and
// allocates nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "crypto/ed25519.h"

namespace cairn::format {

inline constexpr std::string_view name_authority_type = "name_authority";

// One such item: the names that `prefix` covers (format/name.h) are changed by `key` alone, except for those
// that a longer prefix covers. The prefix is a view of the item.
struct NameAuthority {
  std::string_view prefix;
  crypto::Ed25519PublicKey key = {};
};
// `malformed` when the bytes are no item name_authority.
Result<NameAuthority> read_name_authority(ByteView item);

//   [NA-1] Of the prefixes that cover a name the longest decides.
//   [NA-2] A prefix covers whole segments: `docs` has `docs` and `docs/a`, and never `docs2`.
//   [NA-3] Two are equal exactly when the same prefixes have the same keys, in whatever order the items were.
class NameAuthorities {
 public:
  NameAuthorities() = default;

  // Items of other types are passed over. `malformed` when two have the same prefix, or when there are more
  // than a set can have.
  static Result<NameAuthorities> read(std::span<const std::string> items);

  // The key that changes `name`, which is_name(); nothing when no prefix covers it.
  std::optional<crypto::Ed25519PublicKey> find(std::string_view name) const noexcept;
  std::size_t size() const noexcept { return entries_.size(); }

  friend bool operator==(const NameAuthorities&, const NameAuthorities&) = default;

 private:
  static constexpr std::uint32_t no_parent = ~std::uint32_t{0};
  struct Entry {
    std::string prefix;
    crypto::Ed25519PublicKey key = {};
    std::uint32_t parent = no_parent;  // the longest other prefix that covers this one

    friend bool operator==(const Entry&, const Entry&) = default;
  };

  // By segments: a prefix comes directly before all that it covers.
  std::vector<Entry> entries_;
};

}  // namespace cairn::format
