// How people name an object: an address or its beginning, or a name; behind either a path inside a manifest.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "client/index_client.h"
#include "client/storage_client.h"

namespace cairn::client {

inline constexpr std::size_t prefix_digits_min = 6;

struct Reference {
  std::string text;                // `b3:` and 6..64 hex digits, lowercase
  std::optional<Address> address;  // when all 64 are there
  std::string path = {};           // behind the first `/`; empty: the object itself
};

// `b3:abc123`, `b3:…/dir/file`. Nothing when the text is no reference.
std::optional<Reference> parse_reference(std::string_view text);

// The one address that begins with the reference's text. Failures: not_found; conflict when several addresses
// begin so, with a message that lists them. Cancel: clean.
Task<Outcome<Address>> resolve(Call call, StorageClient* storage, Reference reference);

// A name that leads to an object, and what stood behind it.
struct NamedReference {
  Resolved resolved;
  std::string name;
  std::string path = {};  // empty: the object itself
};
// The longest name at the beginning of `text` that the index knows, by whole segments; the rest is the path.
// `name:` may stand before it. Failures: invalid when no name can begin so; not_found. Cancel: clean.
Task<Outcome<NamedReference>> resolve_name(Call call, IndexClient* index, std::string text);

}  // namespace cairn::client
