// Capabilities against arbitrary bytes: the input as a macaroon, as a token, as one caveat, as an identifier,
// as a file of root keys and as a PEM block. What is accepted must be written back as the very same bytes,
// and nothing that was not minted may be authorized.
#include "crypto/macaroon.h"

#include "base/check.h"
#include "codec/base64url.h"
#include "crypto/key_ring.h"
#include "crypto/pem.h"

namespace {

using namespace cairn;
using namespace cairn::crypto;

const CapabilityRequest request{.op = "storage.put",
                                .service = "storage",
                                .tenant = "home",
                                .address = Address{},
                                .name = "maps/europe",
                                .now = {1'769'860'800'000},
                                .bytes = 1000,
                                .ip = std::array<std::uint8_t, 16>{}};

void check_macaroon(ByteView input) {
  auto macaroon = decode_macaroon(input);
  if (!macaroon) {
    CHECK(macaroon.error().code == ErrorCode::malformed);
    return;
  }
  CHECK(macaroon->caveats.size() <= max_caveats);
  CHECK(encode_macaroon(*macaroon) == as_text(input));
  CHECK(parse_token(format_token(*macaroon)).value() == *macaroon);
  const bool allowed = check_caveats(*macaroon, request).has_value();
  if (auto narrower = attenuate(*macaroon, "op = storage.put")) {
    CHECK(check_caveats(*narrower, request).has_value() == allowed);
    CHECK(decode_macaroon(as_bytes(encode_macaroon(*narrower))).value() == *narrower);
    narrower->caveats.push_back({"op = storage.get"});
    CHECK(!check_caveats(*narrower, request));
  }
  CHECK(!verify_signature(*macaroon, as_bytes("a key that no input knows")));
}

void check_caveat(std::string_view text) {
  Macaroon macaroon;
  macaroon.caveats.push_back({std::string(text)});
  // What is allowed was understood: only a word of a newer version may be unknown to the validator.
  if (check_caveats(macaroon, request) && !validate_caveat(text))
    CHECK(text.starts_with("op = ") || text.starts_with("svc = "));
}

void check_authorize(std::string_view token) {
  const KeyRing ring(make_root_key(std::array<std::byte, 40>{}, {}));
  auto result = authorize(ring, token, request);
  CHECK(!result && result.error().code == ErrorCode::unauthorized);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteView input(reinterpret_cast<const std::byte*>(data), size);
  const std::string_view text = as_text(input);

  check_macaroon(input);
  check_caveat(text);
  check_authorize(text);
  if (auto macaroon = parse_token(text)) CHECK(format_token(*macaroon) == text);
  if (auto identifier = parse_identifier(text)) CHECK(format_identifier(*identifier) == text);
  if (auto ring = KeyRing::parse(text)) CHECK(ring->format() == text);
  if (auto key = parse_private_pem(text))
    CHECK(parse_private_pem(format_private_pem(*key))->public_key() == key->public_key());
  if (auto key = parse_public_pem(text)) CHECK(parse_public_pem(format_public_pem(*key)).value() == *key);
  return 0;
}
