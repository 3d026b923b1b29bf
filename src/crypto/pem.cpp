#include "crypto/pem.h"

#include <algorithm>
#include <optional>
#include <span>

#include "codec/base64url.h"

namespace cairn::crypto {
namespace {

using namespace std::string_view_literals;

// The DER of everything but the key itself: the lengths and the algorithm's identifier (1.3.101.112) are the
// same for every Ed25519 key, so a key of another kind differs in these bytes.
struct Kind {
  std::string_view label;
  std::string_view der_head;
};
constexpr Kind private_kind = {"PRIVATE KEY",
                               "\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20"sv};
constexpr Kind public_kind = {"PUBLIC KEY", "\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00"sv};
constexpr std::size_t key_size = 32;

std::size_t base64_size(const Kind& kind) noexcept { return (kind.der_head.size() + key_size + 2) / 3 * 4; }

// Both DER forms fit one line of 64 characters, so there is never a second line to break.
std::string format_block(const Kind& kind, std::span<const std::byte, key_size> key) {
  std::string der(kind.der_head);
  der.reserve(kind.der_head.size() + key_size);
  der += as_text(key);
  std::string line = codec::encode_base64url(as_bytes(der));
  std::ranges::replace(line, '-', '+');
  std::ranges::replace(line, '_', '/');
  std::string text;
  text.reserve(160);
  text.append("-----BEGIN ").append(kind.label).append("-----\n").append(line);
  text.append(base64_size(kind) - line.size(), '=');
  text.append("\n-----END ").append(kind.label).append("-----\n");
  wipe(der);
  wipe(line);
  return text;
}

bool take(std::string_view& text, std::string_view expected) noexcept {
  if (!text.starts_with(expected)) return false;
  text.remove_prefix(expected.size());
  return true;
}
bool take_line_end(std::string_view& text) noexcept { return take(text, "\n") || take(text, "\r\n"); }

// The one line of base64 inside the block; nullopt when the text is not one such block.
std::optional<std::string_view> find_line(const Kind& kind, std::string_view text) noexcept {
  if (!take(text, "-----BEGIN ") || !take(text, kind.label) || !take(text, "-----") || !take_line_end(text))
    return std::nullopt;
  const std::string_view line = text.substr(0, base64_size(kind));
  text.remove_prefix(line.size());
  if (!take_line_end(text) || !take(text, "-----END ") || !take(text, kind.label) || !take(text, "-----"))
    return std::nullopt;
  take_line_end(text);
  if (!text.empty()) return std::nullopt;
  return line;
}

Result<SecretBytes<key_size>> parse_block(const Kind& kind, std::string_view text) {
  const auto line = find_line(kind, text);
  if (!line || line->find_first_of("-_") != std::string_view::npos)
    return fail(ErrorCode::malformed, "PEM: not one block of the expected kind");
  const std::size_t padding = (3 - (kind.der_head.size() + key_size) % 3) % 3;
  if (line->substr(line->size() - padding) != "=="sv.substr(0, padding))
    return fail(ErrorCode::malformed, "PEM: not one block of the expected kind");
  std::string digits(line->substr(0, line->size() - padding));
  std::ranges::replace(digits, '+', '-');
  std::ranges::replace(digits, '/', '_');
  auto der = codec::decode_base64url(digits);
  wipe(digits);
  if (!der) return fail(ErrorCode::malformed, "PEM: not base64");
  const bool expected = der->starts_with(kind.der_head) && der->size() == kind.der_head.size() + key_size;
  SecretBytes<key_size> key;
  if (expected) std::ranges::copy(as_bytes(*der).last<key_size>(), key.reveal_to_fill().begin());
  wipe(*der);
  if (!expected) return fail(ErrorCode::malformed, "PEM: not an Ed25519 key");
  return key;
}

}  // namespace

std::string format_private_pem(const Ed25519Key& key) {
  return format_block(private_kind, key.reveal_seed());
}
std::string format_public_pem(const Ed25519PublicKey& key) { return format_block(public_kind, key); }

Result<Ed25519Key> parse_private_pem(std::string_view text) {
  TRY(auto seed, parse_block(private_kind, text));
  return Ed25519Key(seed.reveal());
}

Result<Ed25519PublicKey> parse_public_pem(std::string_view text) {
  TRY(auto bytes, parse_block(public_kind, text));
  Ed25519PublicKey key;
  std::ranges::copy(bytes.reveal(), key.begin());
  return key;
}

}  // namespace cairn::crypto
