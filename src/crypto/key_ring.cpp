#include "crypto/key_ring.h"

#include <sodium.h>

#include <algorithm>
#include <ranges>

#include "base/check.h"

namespace cairn::crypto {
namespace {

constexpr std::string_view magic = "cairn-capability-root ";
constexpr std::string_view version = "1.0 ";
constexpr std::string_view digest_head = "sha256:";

std::string digest_of(std::string_view text) {
  std::array<std::byte, crypto_hash_sha256_BYTES> digest;
  crypto_hash_sha256(reinterpret_cast<unsigned char*>(digest.data()),
                     reinterpret_cast<const unsigned char*>(text.data()), text.size());
  return format_hex(digest);
}

// Whether the file can hold the key: the text of its time must parse to the same time.
bool can_be_kept(const RootKey& key) {
  const auto read_back = parse_rfc3339(format_rfc3339(key.created));
  return is_key_id(key.id) && read_back && *read_back == key.created;
}

std::string_view state_of(const RootKey& key) noexcept { return key.revoked ? "revoked" : "active"; }

// The part of `line` up to the next blank (or the end), which is taken off it.
std::string_view take_word(std::string_view& line) noexcept {
  const std::size_t blank = std::min(line.find(' '), line.size());
  const std::string_view word = line.substr(0, blank);
  line.remove_prefix(std::min(blank + 1, line.size()));
  return word;
}

// Takes more than format() gives; parse() compares the whole text afterwards.
std::optional<RootKey> parse_line(std::string_view line) {
  RootKey key;
  if (take_word(line) != "key") return std::nullopt;
  key.id = take_word(line);
  const auto created = parse_rfc3339(take_word(line));
  key.revoked = take_word(line) == "revoked";
  if (!is_key_id(key.id) || !created || !parse_hex_to(line, key.secret.reveal_to_fill())) return std::nullopt;
  key.created = *created;
  return key;
}

std::unexpected<Error> refuse(const char* context) noexcept { return fail(ErrorCode::malformed, context); }

}  // namespace

KeyRing::KeyRing(RootKey first) {
  CHECK(can_be_kept(first) && !first.revoked);
  keys_.push_back(std::move(first));
}

Result<KeyRing> KeyRing::parse(std::string_view text) {
  if (!text.starts_with(magic)) return refuse("capability-root.key: not a file of root keys");
  if (!text.substr(magic.size()).starts_with(version))
    return refuse("capability-root.key: written by another version");
  const std::size_t end = text.find('\n');
  if (end == std::string_view::npos || !text.ends_with('\n')) return refuse("capability-root.key: cut off");
  std::string_view head = text.substr(0, end);
  std::string_view body = text.substr(end + 1);
  head.remove_prefix(magic.size() + version.size());
  if (!head.starts_with(digest_head) || head.substr(digest_head.size()) != digest_of(body))
    return refuse("capability-root.key: damaged: the checksum does not fit");

  KeyRing ring;
  while (!body.empty()) {
    const std::size_t line_end = body.find('\n');
    auto key = parse_line(body.substr(0, line_end));
    if (!key) return refuse("capability-root.key: a line is not a key");
    if (ring.find(key->id) != nullptr) return refuse("capability-root.key: two keys of one id");
    if (ring.keys_.size() == max_keys) return refuse("capability-root.key: too many keys");
    ring.keys_.push_back(std::move(*key));
    body.remove_prefix(line_end + 1);
  }
  if (ring.keys_.empty()) return refuse("capability-root.key: holds no key");
  std::string again = ring.format();
  const bool same = again == text;
  wipe(again);
  if (!same) return refuse("capability-root.key: a line is not in its exact form");
  return ring;
}

std::string KeyRing::format() const {
  // Sized beforehand, so that no reallocation leaves a copy of a secret behind.
  std::string body;
  body.reserve(keys_.size() * 160);
  for (const RootKey& key : keys_) {
    body += "key ";
    body += key.id;
    body += ' ';
    body += format_rfc3339(key.created);
    body += ' ';
    body += state_of(key);
    body += ' ';
    std::array<char, 64> hex;
    format_hex_to(key.secret.reveal(), hex.data());
    body.append(hex.data(), hex.size());
    wipe(std::as_writable_bytes(std::span(hex)));
    body += '\n';
  }
  std::string text;
  text.reserve(body.size() + 128);
  text += magic;
  text += version;
  text += digest_head;
  text += digest_of(body);
  text += '\n';
  text += body;
  wipe(body);
  return text;
}

const RootKey* KeyRing::find(std::string_view id) const noexcept {
  const auto found = std::ranges::find(keys_, id, &RootKey::id);
  return found == keys_.end() ? nullptr : &*found;
}

const RootKey* KeyRing::find_minting() const noexcept {
  for (const RootKey& key : keys_ | std::views::reverse)
    if (!key.revoked) return &key;
  return nullptr;
}

Result<> KeyRing::rotate(RootKey key) {
  if (!can_be_kept(key) || key.revoked) return fail(ErrorCode::invalid, "key ring: not a fresh key");
  if (find(key.id) != nullptr) return fail(ErrorCode::conflict, "key ring: the id is taken");
  if (keys_.size() == max_keys) return fail(ErrorCode::invalid, "key ring: full");
  keys_.push_back(std::move(key));
  return {};
}

Result<> KeyRing::revoke(std::string_view id) {
  const auto found = std::ranges::find(keys_, id, &RootKey::id);
  if (found == keys_.end()) return fail(ErrorCode::not_found, "key ring: no such key", Side::client);
  found->revoked = true;
  return {};
}

Result<Macaroon> authenticate(const KeyRing& ring, std::string_view token) {
  auto macaroon = parse_token(token);
  if (!macaroon)
    return fail(ErrorCode::unauthorized, "capability: no token, or not one that decodes", Side::client);
  const auto identifier = parse_identifier(macaroon->identifier);
  const RootKey* key = identifier ? ring.find(identifier->key_id) : nullptr;
  const bool usable = key != nullptr && !key->revoked && identifier->location == macaroon->location;
  // Without a key the MAC is computed all the same, with a stand-in, so that time does not tell which ids
  // exist.
  static constexpr std::array<std::byte, 32> stand_in{};
  const bool genuine =
      verify_signature(*macaroon, key != nullptr ? key->secret.reveal() : std::span(stand_in));
  if (!usable || !genuine)
    return fail(ErrorCode::unauthorized, "capability: the token is not genuine", Side::client);
  return macaroon;
}

Result<> authorize(const KeyRing& ring, std::string_view token, const CapabilityRequest& request) {
  TRY(Macaroon macaroon, authenticate(ring, token));
  return check_caveats(macaroon, request);
}

}  // namespace cairn::crypto
