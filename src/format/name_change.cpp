#include "format/name_change.h"

#include <algorithm>

#include "codec/cbor.h"
#include "format/registry_field.h"
#include "format/signed_record.h"

namespace cairn::format {
namespace {

bool is_note(std::string_view text) noexcept {
  return text.empty() || (text.size() <= note_size_max && is_registry_text(text));
}

const char* find_fault(const NameChange& change) noexcept {
  if (!is_name(change.name)) return "the name of a change";
  if (!is_note(change.note)) return "the note of a change";
  if (change.at < WallTime{0} || change.at > registry_time_max) return "the time of a change";
  if (change.sequence == 0) return "the sequence of a change";
  return nullptr;
}

std::string encode_body(const NameChange& change, const crypto::Ed25519PublicKey& key) {
  std::string body;
  codec::CborEncoder cbor(body);
  cbor.write_map(std::uint64_t{4} + !change.note.empty() + change.manifest.has_value());
  cbor.write_text("at");
  write_time_field(cbor, change.at);
  cbor.write_text("key");
  cbor.write_bytes(key);
  cbor.write_text("name");
  cbor.write_text(change.name);
  if (!change.note.empty()) {
    cbor.write_text("note");
    cbor.write_text(change.note);
  }
  if (change.manifest) {
    cbor.write_text("manifest");
    cbor.write_bytes(change.manifest->bytes);
  }
  cbor.write_text("sequence");
  cbor.write_uint(change.sequence);
  cbor.finish();
  return body;
}

Result<NameChange> decode_body(ByteView body) {
  codec::CborDecoder cbor(body);
  NameChange change;
  TRY(const std::size_t pairs, cbor.read_map());
  if (pairs < 4 || pairs > 6) return malformed_field("a change is a map of four to six fields");
  std::size_t left = pairs - 4;  // of the optional ones
  TRY_VOID(cbor.expect_text("at"));
  TRY(change.at, read_time_field(cbor, "the time of a change"));
  TRY_VOID(cbor.expect_text("key"));
  TRY(const ByteView key, read_bytes_field(cbor, "the key of a change"));
  if (key.size() != change.key.size()) return malformed_field("the key of a change");
  std::ranges::copy(key, change.key.begin());
  TRY_VOID(cbor.expect_text("name"));
  TRY(const std::string_view name, cbor.read_text());
  change.name = name;
  if (left > 0 && cbor.expect_text("note")) {
    TRY(const std::string_view note, cbor.read_text());
    if (note.empty()) return malformed_field("the note of a change");
    change.note = note;
    --left;
  }
  if (left > 0) {
    TRY_VOID(cbor.expect_text("manifest"));
    TRY(change.manifest, read_address_field(cbor, "the manifest of a change"));
    --left;
  }
  TRY_VOID(cbor.expect_text("sequence"));
  TRY(change.sequence, read_uint_field(cbor, "the sequence of a change"));
  TRY_VOID(cbor.finish());
  if (left > 0) return malformed_field("the fields of a change");
  if (const char* fault = find_fault(change)) return malformed_field(fault);
  return change;
}

}  // namespace

Result<std::string> sign_name_change(const NameChange& change, const crypto::Ed25519Key& key) {
  if (const char* fault = find_fault(change)) return fail(ErrorCode::invalid, fault);
  return sign_record(name_change_tag, encode_body(change, key.public_key()), key);
}

Result<NameChange> decode_name_change(ByteView record) {
  TRY(const SignedParts parts, split_record(record, name_change_size_max));
  TRY(NameChange change, decode_body(parts.body));
  if (!verify_record(name_change_tag, parts, change.key))
    return fail(ErrorCode::invalid_sig, "the signature of a change is not its key's", Side::client);
  return change;
}

Result<NameChange> read_name_change(ByteView record) {
  TRY(const SignedParts parts, split_record(record, name_change_size_max));
  return decode_body(parts.body);
}

}  // namespace cairn::format
