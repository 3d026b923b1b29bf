// SignedRecord: bytes together with the signature of the key that answers for them. Each kind of record has a
// tag of its own, which is signed with it, so that one kind never passes for another.
//
// Strict like all formats here: a record has one encoding, and bytes that sign_record() would not have
// written are malformed.
#pragma once

#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "crypto/ed25519.h"

namespace cairn::format {

// `tag` is a literal without a zero byte.
std::string sign_record(std::string_view tag, std::string_view body, const crypto::Ed25519Key& key);

// The two parts, as views of the bytes. Nothing is checked but the form.
struct SignedParts {
  ByteView body;
  crypto::Ed25519Signature signature;
};
Result<SignedParts> split_record(ByteView record, std::size_t size_max);
bool verify_record(std::string_view tag, const SignedParts& parts,
                   const crypto::Ed25519PublicKey& key) noexcept;

}  // namespace cairn::format
