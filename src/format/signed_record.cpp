#include "format/signed_record.h"

#include <algorithm>

#include "codec/cbor.h"

namespace cairn::format {
namespace {

std::string message_of(std::string_view tag, ByteView body) {
  std::string message;
  message.reserve(tag.size() + 1 + body.size());
  message += tag;
  message += '\0';
  message += as_text(body);
  return message;
}

}  // namespace

std::string sign_record(std::string_view tag, std::string_view body, const crypto::Ed25519Key& key) {
  const crypto::Ed25519Signature signature = key.sign(as_bytes(message_of(tag, as_bytes(body))));
  std::string out;
  codec::CborEncoder cbor(out);
  cbor.write_map(2);
  cbor.write_text("sig");
  cbor.write_bytes(signature);
  cbor.write_text("body");
  cbor.write_bytes(as_bytes(body));
  cbor.finish();
  return out;
}

Result<SignedParts> split_record(ByteView record, std::size_t size_max) {
  if (record.size() > size_max) return fail(ErrorCode::malformed, "a record is too large", Side::client);
  codec::CborDecoder cbor(record);
  SignedParts parts;
  TRY(const std::size_t pairs, cbor.read_map());
  if (pairs != 2) return fail(ErrorCode::malformed, "a record is not a map of two fields", Side::client);
  TRY_VOID(cbor.expect_text("sig"));
  TRY(const ByteView signature, cbor.read_bytes());
  if (signature.size() != parts.signature.size())
    return fail(ErrorCode::malformed, "the sig of a record", Side::client);
  std::ranges::copy(signature, parts.signature.begin());
  TRY_VOID(cbor.expect_text("body"));
  TRY(parts.body, cbor.read_bytes());
  TRY_VOID(cbor.finish());
  return parts;
}

bool verify_record(std::string_view tag, const SignedParts& parts,
                   const crypto::Ed25519PublicKey& key) noexcept {
  return crypto::verify_ed25519(key, as_bytes(message_of(tag, parts.body)), parts.signature);
}

}  // namespace cairn::format
