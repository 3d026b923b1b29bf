// KeyRing: the root keys of capabilities, as the file keys/capability-root.key holds them
// (docs/formats/capability-root.md). A value: the caller reads and writes the file.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "crypto/caveat.h"
#include "crypto/macaroon.h"

namespace cairn::crypto {

// Invariants:
// 1. There is at least one key and at most max_keys; no two have the same id.
// 2. Keys stand in the order in which they were added; the last that is not revoked mints.
// 3. A revoked key stays revoked.
class KeyRing {
 public:
  static constexpr std::size_t max_keys = 256;

  explicit KeyRing(RootKey first);

  // Accepts only the output of format(). A damaged or newer file is an error (`malformed`), never an empty
  // ring, because a ring made afresh would silently void every token.
  static Result<KeyRing> parse(std::string_view text);
  // Holds the secrets: wipe() it after use.
  std::string format() const;

  std::span<const RootKey> keys() const noexcept { return keys_; }
  const RootKey* find(std::string_view id) const noexcept;
  // The key for new tokens; nullptr when all are revoked.
  const RootKey* find_minting() const noexcept;

  // From now on `key` mints; tokens of the older ones stay good. `conflict` for an id that is taken,
  // `invalid` for a ring that is full or a key that comes revoked.
  Result<> rotate(RootKey key);
  // Voids every token under the id. Revoking it again changes nothing; an unknown id is `not_found`.
  Result<> revoke(std::string_view id);

 private:
  KeyRing() = default;

  std::vector<RootKey> keys_;
};

// Whether the bearer of `token` (the text after `Bearer `; empty when there is none) may do `request`.
// `unauthorized` for no token, a token that does not decode, one with an unknown or revoked key, and one with
// a wrong MAC. The answer and the work are the same for the last three, so that ids cannot be probed.
// `forbidden` when the token is genuine and a caveat does not hold.
Result<> authorize(const KeyRing& ring, std::string_view token, const CapabilityRequest& request);
// Returns the token's contents, if it is genuine, without checking its caveats.
Result<Macaroon> authenticate(const KeyRing& ring, std::string_view token);

}  // namespace cairn::crypto
