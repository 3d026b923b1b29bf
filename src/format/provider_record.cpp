#include "format/provider_record.h"

#include <algorithm>

#include "codec/cbor.h"
#include "format/registry_field.h"
#include "format/signed_record.h"

namespace cairn::format {
namespace {

const char* find_fault(const ProviderRecord& record) noexcept {
  if (record.expiry < WallTime{0} || record.expiry > registry_time_max) return "the expiry of a record";
  if (record.sequence == 0) return "the sequence of a record";
  const std::vector<Endpoint>& endpoints = record.endpoints;
  if (endpoints.size() > endpoints_max) return "a record has too many endpoints";
  for (auto at = endpoints.begin(); at != endpoints.end(); ++at) {
    if (at->port == 0) return "the port of an endpoint";
    if (std::find(endpoints.begin(), at, *at) != at) return "an endpoint is there twice";
  }
  return nullptr;
}

std::string encode_body(const ProviderRecord& record, const crypto::Ed25519PublicKey& key) {
  std::string body;
  codec::CborEncoder cbor(body);
  cbor.write_map(5);
  cbor.write_text("key");
  cbor.write_bytes(key);
  cbor.write_text("expiry");
  write_time_field(cbor, record.expiry);
  cbor.write_text("address");
  cbor.write_bytes(record.address.bytes);
  cbor.write_text("sequence");
  cbor.write_uint(record.sequence);
  cbor.write_text("endpoints");
  cbor.write_array(record.endpoints.size());
  for (const Endpoint& endpoint : record.endpoints) {
    cbor.write_array(3);
    cbor.write_bytes(endpoint.ip);
    cbor.write_uint(endpoint.port);
    cbor.write_bool(endpoint.tls);
  }
  cbor.finish();
  return body;
}

Result<Endpoint> read_endpoint(codec::CborDecoder& cbor) {
  constexpr std::uint64_t port_max = 65'535;
  Endpoint endpoint;
  TRY(const std::size_t items, cbor.read_array());
  if (items != 3) return malformed_field("an endpoint is not an array of three");
  TRY(const ByteView ip, read_bytes_field(cbor, "the ip of an endpoint"));
  if (ip.size() != endpoint.ip.size()) return malformed_field("the ip of an endpoint");
  std::ranges::copy(ip, endpoint.ip.begin());
  TRY(const std::uint64_t port, read_uint_field(cbor, "the port of an endpoint"));
  if (port > port_max) return malformed_field("the port of an endpoint");
  endpoint.port = static_cast<std::uint16_t>(port);
  TRY(endpoint.tls, cbor.read_bool());
  return endpoint;
}

Result<ProviderRecord> decode_body(ByteView body) {
  codec::CborDecoder cbor(body);
  ProviderRecord record;
  TRY(const std::size_t pairs, cbor.read_map());
  if (pairs != 5) return malformed_field("a record is not a map of five fields");
  TRY_VOID(cbor.expect_text("key"));
  TRY(const ByteView key, read_bytes_field(cbor, "the key of a record"));
  if (key.size() != record.key.size()) return malformed_field("the key of a record");
  std::ranges::copy(key, record.key.begin());
  TRY_VOID(cbor.expect_text("expiry"));
  TRY(record.expiry, read_time_field(cbor, "the expiry of a record"));
  TRY_VOID(cbor.expect_text("address"));
  TRY(record.address, read_address_field(cbor, "the address of a record"));
  TRY_VOID(cbor.expect_text("sequence"));
  TRY(record.sequence, read_uint_field(cbor, "the sequence of a record"));
  TRY_VOID(cbor.expect_text("endpoints"));
  TRY(const std::size_t count, cbor.read_array());
  if (count > endpoints_max) return malformed_field("a record has too many endpoints");
  for (std::size_t i = 0; i < count; ++i) {
    TRY(const Endpoint endpoint, read_endpoint(cbor));
    record.endpoints.push_back(endpoint);
  }
  TRY_VOID(cbor.finish());
  if (const char* fault = find_fault(record)) return malformed_field(fault);
  return record;
}

}  // namespace

Result<std::string> sign_provider_record(const ProviderRecord& record, const crypto::Ed25519Key& key) {
  if (const char* fault = find_fault(record)) return fail(ErrorCode::invalid, fault);
  return sign_record(provider_record_tag, encode_body(record, key.public_key()), key);
}

Result<ProviderRecord> decode_provider_record(ByteView bytes) {
  TRY(const SignedParts parts, split_record(bytes, provider_record_size_max));
  TRY(ProviderRecord record, decode_body(parts.body));
  if (!verify_record(provider_record_tag, parts, record.key))
    return fail(ErrorCode::invalid_sig, "the signature of a record is not its node's", Side::client);
  return record;
}

Result<ProviderRecord> read_provider_record(ByteView bytes) {
  TRY(const SignedParts parts, split_record(bytes, provider_record_size_max));
  return decode_body(parts.body);
}

}  // namespace cairn::format
