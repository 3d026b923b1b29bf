// Macaroon: a bearer token that its holder can narrow without asking the issuer, in the V2 binary form that
// the macaroon libraries share. docs/formats/capability.md has the bytes.
//
// The meaning of caveats is in caveat.h, the root keys in key_ring.h.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "base/ulid.h"
#include "base/units.h"
#include "crypto/hmac.h"
#include "crypto/secret_bytes.h"

namespace cairn::crypto {

constexpr std::size_t max_caveats = 64;
constexpr std::size_t max_macaroon_bytes = 8 * 1024;
constexpr std::size_t max_location_bytes = 255;
constexpr std::size_t key_id_size = 16;

// The secret that the MACs of a family of tokens start from. Its id travels in the tokens, the secret never.
struct RootKey {
  std::string id;  // key_id_size lowercase hex digits
  WallTime created;
  bool revoked = false;
  SecretBytes<32> secret;
};

bool is_key_id(std::string_view text) noexcept;
// The caller brings the randomness: 8 bytes become the id, 32 the secret.
RootKey make_root_key(std::span<const std::byte, 40> entropy, WallTime created);

struct Caveat {
  std::string text;           // the predicate; of a third-party caveat its opaque identifier
  std::string location = {};  // third-party only
  std::string vid = {};       // third-party only, and then never empty

  bool third_party() const noexcept { return !vid.empty(); }
  friend bool operator==(const Caveat&, const Caveat&) = default;
};

struct Macaroon {
  std::string location;
  std::string identifier;
  std::vector<Caveat> caveats;
  Mac signature{};

  friend bool operator==(const Macaroon&, const Macaroon&) = default;
};

// The parts of an identifier of ours: `v1 KEYID ULID LOCATION`. The location is repeated in it because the
// MAC covers the identifier but not a macaroon's location field. Views into the identifier.
struct TokenIdentifier {
  std::string_view key_id;
  Ulid nonce;
  std::string_view location;
};
std::string format_identifier(const TokenIdentifier& identifier);
// Strict: one spelling for each value.
std::optional<TokenIdentifier> parse_identifier(std::string_view text) noexcept;

// A token of `key` that allows everything. The location is a non-empty UTF-8 text of at most
// max_location_bytes; the nonce makes it differ from every other (the caller brings time and randomness).
Macaroon mint(const RootKey& key, std::string location, const Ulid& nonce);
// The same token with one more condition. Fails with `malformed` when no server would accept the result: too
// many caveats, too many bytes, or an empty caveat.
Result<Macaroon> attenuate(Macaroon macaroon, std::string caveat);
// Whether the signature is the one that `root_secret` gives; third-party caveats are part of the chain.
bool verify_signature(const Macaroon& macaroon, ByteView root_secret) noexcept;

// The V2 binary form. Decoding is strict, so that a macaroon has one encoding: shortest varints, no empty
// location or vid, no location in a first-party caveat, nothing after the signature; more than max_caveats
// or max_macaroon_bytes is `malformed` like the rest.
std::string encode_macaroon(const Macaroon& macaroon);
Result<Macaroon> decode_macaroon(ByteView bytes);

// base64url without padding of that form. Text that is not a token is `malformed`.
std::string format_token(const Macaroon& macaroon);
Result<Macaroon> parse_token(std::string_view token);

}  // namespace cairn::crypto
