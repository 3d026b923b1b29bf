// The kinds of fields that the registry's documents are made of, in CBOR and in JSON
// (docs/formats/registry.md).
//
// Every function that reads CBOR takes a context for its Error, so that a refusal names the field. JSON is
// refused through its JsonValue, so that the reader's detail() has the path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/address.h"
#include "base/bytes.h"
#include "base/result.h"
#include "base/units.h"
#include "codec/cbor.h"
#include "codec/json_reader.h"
#include "crypto/ed25519.h"

namespace cairn::format {

inline constexpr std::size_t registry_id_max = 128;
inline constexpr std::size_t registry_text_max = 1024;
// The last millisecond of the year 9999: the latest time that JSON can express.
inline constexpr WallTime registry_time_max{253'402'300'799'999};
inline constexpr std::string_view registry_schema_version = "1.0.0";

// 1 to 128 bytes of [A-Za-z0-9._:@/-].
bool is_registry_id(std::string_view text) noexcept;
// 1 to 1024 bytes of UTF-8 without control characters.
bool is_registry_text(std::string_view text) noexcept;

std::unexpected<Error> malformed_field(const char* context) noexcept;

Result<std::string_view> read_id_field(codec::CborDecoder& cbor, const char* context);
Result<std::string_view> read_text_field(codec::CborDecoder& cbor, const char* context);
Result<std::uint64_t> read_uint_field(codec::CborDecoder& cbor, const char* context);
Result<ByteView> read_bytes_field(codec::CborDecoder& cbor, const char* context);
Result<Address> read_address_field(codec::CborDecoder& cbor, const char* context);
Result<WallTime> read_time_field(codec::CborDecoder& cbor, const char* context);
// As format/name.h has names.
Result<std::string_view> read_name_field(codec::CborDecoder& cbor, const char* context);
// 32 bytes. Whether a signature can verify under them is not checked.
Result<crypto::Ed25519PublicKey> read_key_field(codec::CborDecoder& cbor, const char* context);
// A time that cannot be expressed, from a clock that is wrong, becomes the nearest one that can.
void write_time_field(codec::CborEncoder& cbor, WallTime time);

Result<std::string_view> parse_id_field(const codec::JsonValue& value);
Result<std::string_view> parse_text_field(const codec::JsonValue& value);
Result<std::string> parse_bytes_field(const codec::JsonValue& value);
Result<Address> parse_address_field(const codec::JsonValue& value);
Result<WallTime> parse_time_field(const codec::JsonValue& value);
Result<std::string_view> parse_name_field(const codec::JsonValue& value);
Result<crypto::Ed25519PublicKey> parse_key_field(const codec::JsonValue& value);

}  // namespace cairn::format
