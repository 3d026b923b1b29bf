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

// `b3:abc123`, `b3:…/dir/file`. Nothing when it is not that.
std::optional<Reference> parse_reference(std::string_view text);

// The address that the reference's text begins. Failures: not_found, and conflict for one that several
// begin with, whose message lists them. Cancel: clean.
Task<Outcome<Address>> resolve(Call call, StorageClient* storage, Reference reference);

}  // namespace cairn::client
