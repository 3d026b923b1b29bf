#include "format/name_authority.h"

#include <algorithm>

#include "codec/cbor.h"
#include "format/descriptor_item.h"
#include "format/descriptor_set.h"
#include "format/name.h"
#include "format/registry_field.h"

namespace cairn::format {
namespace {

// The order of names by segments. In the order of bytes `docs-x` would come between `docs` and `docs/a`, so
// `/` is taken for less than every byte of a segment.
bool comes_before(std::string_view a, std::string_view b) noexcept {
  const auto [in_a, in_b] = std::ranges::mismatch(a, b);
  if (in_a == a.end() || in_b == b.end()) return a.size() < b.size();
  if (*in_a == '/' || *in_b == '/') return *in_a == '/';
  return *in_a < *in_b;
}

}  // namespace

Result<NameAuthority> read_name_authority(ByteView item) {
  NameAuthority authority;
  codec::CborDecoder cbor(item);
  TRY(const std::size_t pairs, cbor.read_map());
  if (pairs != 3) return malformed_field("a name_authority has three fields");
  TRY_VOID(cbor.expect_text("key"));
  TRY(authority.key, read_key_field(cbor, "the key of a name_authority"));
  TRY_VOID(cbor.expect_text("type"));
  TRY_VOID(cbor.expect_text(name_authority_type));
  TRY_VOID(cbor.expect_text("prefix"));
  TRY(authority.prefix, read_name_field(cbor, "the prefix of a name_authority"));
  TRY_VOID(cbor.finish());
  return authority;
}

Result<NameAuthorities> NameAuthorities::read(std::span<const std::string> items) {
  if (items.size() > set_items_max) return malformed_field("the items of the set");
  NameAuthorities made;
  std::vector<Entry>& entries = made.entries_;
  for (const std::string& item : items) {
    if (name_of_item(as_bytes(item)).type != name_authority_type) continue;
    TRY(const NameAuthority authority, read_name_authority(as_bytes(item)));
    entries.push_back({std::string(authority.prefix), authority.key});
  }
  std::ranges::sort(entries, comes_before, &Entry::prefix);
  for (std::uint32_t i = 1; i < entries.size(); ++i) {
    if (entries[i].prefix == entries[i - 1].prefix)
      return malformed_field("two items name_authority have the same prefix");
    // Whatever covers this prefix covers the one before it too, or is the one before it.
    std::uint32_t parent = i - 1;
    while (parent != no_parent && !is_covered(entries[i].prefix, entries[parent].prefix))
      parent = entries[parent].parent;
    entries[i].parent = parent;
  }
  return made;
}

std::optional<crypto::Ed25519PublicKey> NameAuthorities::find(std::string_view name) const noexcept {
  // The last prefix that is not behind the name is the one sought, or is covered by it.
  const auto behind = std::ranges::upper_bound(entries_, name, comes_before, &Entry::prefix);
  auto at = static_cast<std::uint32_t>(behind - entries_.begin()) - 1;  // no_parent when there is none
  while (at != no_parent && !is_covered(name, entries_[at].prefix)) at = entries_[at].parent;
  return at != no_parent ? std::optional(entries_[at].key) : std::nullopt;
}

}  // namespace cairn::format
