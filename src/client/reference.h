// Reference: how people name an object: an address or its beginning, and a path inside a manifest.
#pragma once

#include <optional>
#include <string>
#include <string_view>

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

}  // namespace cairn::client
