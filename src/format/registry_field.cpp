#include "format/registry_field.h"

#include "base/ascii.h"

#include <algorithm>

#include "base/utf8.h"
#include "codec/base64.h"
#include "format/name.h"

namespace cairn::format {
namespace {

bool is_id_character(char c) noexcept {
  return is_letter_or_digit(c) || std::string_view("._:@/-").find(c) != std::string_view::npos;
}

// U+0000 to U+001F, U+007F, and U+0080 to U+009F, which UTF-8 writes C2 80 to C2 9F.
bool has_control_character(std::string_view text) noexcept {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 || byte == 0x7F) return true;
    if (byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0) return true;
  }
  return false;
}

}  // namespace

bool is_registry_id(std::string_view text) noexcept {
  return !text.empty() && text.size() <= registry_id_max && std::ranges::all_of(text, is_id_character);
}

bool is_registry_text(std::string_view text) noexcept {
  return !text.empty() && text.size() <= registry_text_max && is_utf8(text) && !has_control_character(text);
}

std::unexpected<Error> malformed_field(const char* context) noexcept {
  return fail(ErrorCode::malformed, context, Side::client);
}

Result<std::string_view> read_id_field(codec::CborDecoder& cbor, const char* context) {
  const auto text = cbor.read_text();
  if (!text || !is_registry_id(*text)) return malformed_field(context);
  return *text;
}

Result<std::string_view> read_text_field(codec::CborDecoder& cbor, const char* context) {
  const auto text = cbor.read_text();
  if (!text || !is_registry_text(*text)) return malformed_field(context);
  return *text;
}

Result<std::uint64_t> read_uint_field(codec::CborDecoder& cbor, const char* context) {
  const auto number = cbor.read_uint();
  if (!number) return malformed_field(context);
  return *number;
}

Result<ByteView> read_bytes_field(codec::CborDecoder& cbor, const char* context) {
  const auto bytes = cbor.read_bytes();
  if (!bytes) return malformed_field(context);
  return *bytes;
}

Result<Address> read_address_field(codec::CborDecoder& cbor, const char* context) {
  TRY(const ByteView bytes, read_bytes_field(cbor, context));
  Address address;
  if (bytes.size() != address.bytes.size()) return malformed_field(context);
  std::ranges::copy(bytes, address.bytes.begin());
  return address;
}

Result<WallTime> read_time_field(codec::CborDecoder& cbor, const char* context) {
  TRY(const std::uint64_t ms, read_uint_field(cbor, context));
  if (ms > static_cast<std::uint64_t>(registry_time_max.ms)) return malformed_field(context);
  return WallTime{static_cast<std::int64_t>(ms)};
}

Result<std::string_view> read_name_field(codec::CborDecoder& cbor, const char* context) {
  const auto text = cbor.read_text();
  if (!text || !is_name(*text)) return malformed_field(context);
  return *text;
}

Result<crypto::Ed25519PublicKey> read_key_field(codec::CborDecoder& cbor, const char* context) {
  TRY(const ByteView bytes, read_bytes_field(cbor, context));
  crypto::Ed25519PublicKey key;
  if (bytes.size() != key.size()) return malformed_field(context);
  std::ranges::copy(bytes, key.begin());
  return key;
}

void write_time_field(codec::CborEncoder& cbor, WallTime time) {
  cbor.write_uint(static_cast<std::uint64_t>(std::clamp(time, WallTime{0}, registry_time_max).ms));
}

Result<std::string_view> parse_id_field(const codec::JsonValue& value) {
  TRY(const std::string_view text, value.as_string());
  if (!is_registry_id(text)) return value.refuse("expected 1 to 128 characters of [A-Za-z0-9._:@/-]");
  return text;
}

Result<std::string_view> parse_text_field(const codec::JsonValue& value) {
  TRY(const std::string_view text, value.as_string());
  if (!is_registry_text(text)) return value.refuse("expected 1 to 1024 bytes without control characters");
  return text;
}

Result<std::string> parse_bytes_field(const codec::JsonValue& value) {
  TRY(const std::string_view text, value.as_string());
  auto bytes = codec::decode_base64(text);
  if (!bytes) return value.refuse("expected base64");
  return std::move(*bytes);
}

Result<Address> parse_address_field(const codec::JsonValue& value) {
  TRY(const std::string_view text, value.as_string());
  const auto address = cairn::parse_address(text);
  if (!address) return value.refuse("expected b3: and 64 hex digits");
  return *address;
}

Result<WallTime> parse_time_field(const codec::JsonValue& value) {
  TRY(const std::string_view text, value.as_string());
  const auto time = parse_rfc3339(text);
  if (!time || time->ms < 0 || *time > registry_time_max)
    return value.refuse("expected an RFC 3339 time of 1970 or later");
  return *time;
}

Result<std::string_view> parse_name_field(const codec::JsonValue& value) {
  TRY(const std::string_view text, value.as_string());
  if (!is_name(text)) return value.refuse("expected a name: segments of [a-z0-9._-] between single slashes");
  return text;
}

Result<crypto::Ed25519PublicKey> parse_key_field(const codec::JsonValue& value) {
  TRY(const std::string bytes, parse_bytes_field(value));
  crypto::Ed25519PublicKey key;
  if (bytes.size() != key.size()) return value.refuse("expected base64 of the 32 bytes of an Ed25519 key");
  std::ranges::copy(as_bytes(bytes), key.begin());
  return key;
}

}  // namespace cairn::format
