#include "crypto/macaroon.h"

#include <algorithm>

#include "base/check.h"
#include "base/utf8.h"
#include "codec/base64url.h"

namespace cairn::crypto {
namespace {

constexpr char version = 2;
enum class Field : std::uint8_t { end = 0, location = 1, identifier = 2, vid = 4, signature = 6 };
constexpr std::string_view identifier_version = "v1 ";
constexpr std::size_t max_token_size = (max_macaroon_bytes * 4 + 2) / 3;

// Replaces `signature` by the one after `caveat`; no intermediate value stays behind, because each is the
// signature of a token that allows more.
void chain(Mac& signature, const Caveat& caveat) noexcept {
  if (!caveat.third_party()) {
    signature = hmac_sha256(signature, as_bytes(caveat.text));
    return;
  }
  std::array<std::byte, 64> both;
  const Mac vid = hmac_sha256(signature, as_bytes(caveat.vid));
  const Mac text = hmac_sha256(signature, as_bytes(caveat.text));
  std::ranges::copy(text, std::ranges::copy(vid, both.begin()).out);
  signature = hmac_sha256(signature, both);
}

Mac first_signature(ByteView root_secret, std::string_view identifier) noexcept {
  Mac derived = hmac_sha256(as_bytes("macaroons-key-generator"), root_secret);
  Mac signature = hmac_sha256(derived, as_bytes(identifier));
  wipe(derived);
  return signature;
}

void write_varint(std::string& out, std::size_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void write_field(std::string& out, Field field, std::string_view data) {
  out += static_cast<char>(field);
  write_varint(out, data.size());
  out += data;
}

std::unexpected<Error> refuse(const char* context) noexcept {
  return fail(ErrorCode::malformed, context, Side::client);
}

// Reads the fields of one macaroon. All of it is at most max_macaroon_bytes, so no length needs more than
// two bytes.
class Reader {
 public:
  explicit Reader(std::string_view rest) noexcept : rest_(rest) {}

  bool done() const noexcept { return rest_.empty(); }
  bool at(Field field) const noexcept { return !rest_.empty() && rest_[0] == static_cast<char>(field); }

  Result<std::string_view> read(Field field) noexcept {
    if (!at(field)) return refuse("macaroon: a field is missing or out of order");
    rest_.remove_prefix(1);
    TRY(std::size_t size, read_varint());
    if (size > rest_.size()) return refuse("macaroon: a field goes past the end");
    std::string_view data = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return data;
  }
  // For fields that are left out when they are empty.
  Result<std::string_view> read_optional(Field field) noexcept {
    if (!at(field)) return std::string_view();
    TRY(std::string_view data, read(field));
    if (data.empty()) return refuse("macaroon: an empty location or vid");
    return data;
  }
  Result<> read_end() noexcept {
    if (!at(Field::end)) return refuse("macaroon: an unknown field, or one out of order");
    rest_.remove_prefix(1);
    return {};
  }

 private:
  Result<std::size_t> read_varint() noexcept {
    std::size_t value = 0;
    for (unsigned shift = 0; shift <= 7 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_[0]);
      rest_.remove_prefix(1);
      value |= static_cast<std::size_t>(byte & 0x7f) << shift;
      if (byte < 0x80) {
        if (byte == 0 && shift > 0) return refuse("macaroon: a length is not in its shortest form");
        return value;
      }
    }
    return refuse("macaroon: a length is cut off or too large");
  }

  std::string_view rest_;
};

Result<Caveat> read_caveat(Reader& reader) {
  TRY(std::string_view location, reader.read_optional(Field::location));
  TRY(std::string_view text, reader.read(Field::identifier));
  TRY(std::string_view vid, reader.read_optional(Field::vid));
  if (!location.empty() && vid.empty()) return refuse("macaroon: a first-party caveat has a location");
  TRY_VOID(reader.read_end());
  return Caveat{std::string(text), std::string(location), std::string(vid)};
}

bool is_location(std::string_view text) noexcept {
  return !text.empty() && text.size() <= max_location_bytes && is_utf8(text);
}

}  // namespace

bool is_key_id(std::string_view text) noexcept {
  return text.size() == key_id_size &&
         std::ranges::all_of(text, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

RootKey make_root_key(std::span<const std::byte, 40> entropy, WallTime created) {
  return {format_hex(entropy.first<8>()), created, false, SecretBytes<32>(entropy.last<32>())};
}

std::string format_identifier(const TokenIdentifier& identifier) {
  std::string text(identifier_version);
  text += identifier.key_id;
  text += ' ';
  text += format_ulid(identifier.nonce);
  text += ' ';
  text += identifier.location;
  return text;
}

std::optional<TokenIdentifier> parse_identifier(std::string_view text) noexcept {
  constexpr std::size_t nonce_at = identifier_version.size() + key_id_size + 1;
  constexpr std::size_t location_at = nonce_at + ulid_text_size + 1;
  if (text.size() <= location_at || !text.starts_with(identifier_version) || text[nonce_at - 1] != ' ' ||
      text[location_at - 1] != ' ')
    return std::nullopt;
  const std::string_view key_id = text.substr(identifier_version.size(), key_id_size);
  const std::string_view nonce_text = text.substr(nonce_at, ulid_text_size);
  const std::string_view location = text.substr(location_at);
  const auto nonce = parse_ulid(nonce_text);
  const bool lower_case = std::ranges::any_of(nonce_text, [](char c) { return c >= 'a' && c <= 'z'; });
  if (!is_key_id(key_id) || !nonce || lower_case || !is_location(location)) return std::nullopt;
  return TokenIdentifier{key_id, *nonce, location};
}

Macaroon mint(const RootKey& key, std::string location, const Ulid& nonce) {
  CHECK(is_key_id(key.id) && is_location(location));
  std::string identifier = format_identifier({key.id, nonce, location});
  const Mac signature = first_signature(key.secret.reveal(), identifier);
  return {std::move(location), std::move(identifier), {}, signature};
}

Result<Macaroon> attenuate(Macaroon macaroon, std::string caveat) {
  if (caveat.empty()) return fail(ErrorCode::malformed, "capability: an empty caveat", Side::client);
  if (macaroon.caveats.size() >= max_caveats)
    return fail(ErrorCode::malformed, "capability: more than 64 caveats", Side::client);
  macaroon.caveats.push_back({.text = std::move(caveat)});
  if (encode_macaroon(macaroon).size() > max_macaroon_bytes)
    return fail(ErrorCode::malformed, "capability: more than 8 KiB", Side::client);
  chain(macaroon.signature, macaroon.caveats.back());
  return macaroon;
}

bool verify_signature(const Macaroon& macaroon, ByteView root_secret) noexcept {
  Mac expected = first_signature(root_secret, macaroon.identifier);
  for (const Caveat& caveat : macaroon.caveats) chain(expected, caveat);
  const bool same = equal_constant_time(expected, macaroon.signature);
  // For a forged token, `expected` is the signature that would have made it genuine.
  wipe(expected);
  return same;
}

std::string encode_macaroon(const Macaroon& macaroon) {
  std::string out(1, version);
  if (!macaroon.location.empty()) write_field(out, Field::location, macaroon.location);
  write_field(out, Field::identifier, macaroon.identifier);
  out += static_cast<char>(Field::end);
  for (const Caveat& caveat : macaroon.caveats) {
    if (!caveat.location.empty()) write_field(out, Field::location, caveat.location);
    write_field(out, Field::identifier, caveat.text);
    if (caveat.third_party()) write_field(out, Field::vid, caveat.vid);
    out += static_cast<char>(Field::end);
  }
  out += static_cast<char>(Field::end);
  write_field(out, Field::signature, as_text(macaroon.signature));
  return out;
}

Result<Macaroon> decode_macaroon(ByteView bytes) {
  if (bytes.size() > max_macaroon_bytes) return refuse("macaroon: more than 8 KiB");
  const std::string_view text = as_text(bytes);
  if (!text.starts_with(version)) return refuse("macaroon: not of version 2");
  Reader reader(text.substr(1));
  Macaroon macaroon;
  TRY(macaroon.location, reader.read_optional(Field::location));
  TRY(macaroon.identifier, reader.read(Field::identifier));
  TRY_VOID(reader.read_end());
  while (!reader.at(Field::end)) {
    if (macaroon.caveats.size() == max_caveats) return refuse("macaroon: more than 64 caveats");
    TRY(Caveat caveat, read_caveat(reader));
    macaroon.caveats.push_back(std::move(caveat));
  }
  TRY_VOID(reader.read_end());
  TRY(std::string_view signature, reader.read(Field::signature));
  if (signature.size() != macaroon.signature.size()) return refuse("macaroon: the signature is not 32 bytes");
  if (!reader.done()) return refuse("macaroon: something follows the signature");
  std::ranges::copy(as_bytes(signature), macaroon.signature.begin());
  return macaroon;
}

std::string format_token(const Macaroon& macaroon) {
  return codec::encode_base64url(as_bytes(encode_macaroon(macaroon)));
}

Result<Macaroon> parse_token(std::string_view token) {
  if (token.size() > max_token_size) return refuse("macaroon: more than 8 KiB");
  TRY(std::string bytes, codec::decode_base64url(token));
  return decode_macaroon(as_bytes(bytes));
}

}  // namespace cairn::crypto
