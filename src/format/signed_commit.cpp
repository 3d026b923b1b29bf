#include "format/signed_commit.h"

#include <algorithm>
#include <optional>

#include "base/check.h"
#include "codec/base64.h"
#include "codec/cbor.h"
#include "codec/json_reader.h"
#include "crypto/blake3.h"
#include "format/registry_field.h"

namespace cairn::format {
namespace {

constexpr std::string_view approval_tag = "cairn-registry-approval-v1";
constexpr std::size_t signature_size = 64;
static_assert(approval_tag.size() + 1 + sizeof(Address) == 59);

std::unexpected<Error> refuse(ErrorCode code, const char* context) noexcept {
  return fail(code, context, Side::client);
}

void write_approval(const Approval& approval, codec::CborEncoder& cbor) {
  CHECK(approval.sig.size() == signature_size);
  cbor.write_map(4);
  cbor.write_text("sig");
  cbor.write_bytes(as_bytes(approval.sig));
  cbor.write_text("algo");
  cbor.write_text(approval.algo);
  cbor.write_text("signed_at");
  write_time_field(cbor, approval.signed_at);
  cbor.write_text("signer_id");
  cbor.write_text(approval.signer_id);
}

// The next keys must be these, in this order: the layouts here are fixed.
Result<> read_key(codec::CborDecoder& cbor, std::string_view key, const char* context) {
  if (!cbor.expect_text(key)) return malformed_field(context);
  return {};
}

Result<Approval> take_approval(codec::CborDecoder& cbor) {
  constexpr const char* sig_context = "the sig of an approval";
  constexpr const char* algo_context = "the algo of an approval";
  constexpr const char* time_context = "the signed_at of an approval";
  constexpr const char* id_context = "the signer_id of an approval";
  Approval approval;
  const auto pairs = cbor.read_map();
  if (!pairs || *pairs != 4) return malformed_field("an approval is not a map of four fields");
  TRY_VOID(read_key(cbor, "sig", sig_context));
  TRY(const ByteView sig, read_bytes_field(cbor, sig_context));
  if (sig.size() != signature_size) return malformed_field(sig_context);
  approval.sig = as_text(sig);
  TRY_VOID(read_key(cbor, "algo", algo_context));
  TRY(const std::string_view algo, read_text_field(cbor, algo_context));
  approval.algo = algo;
  TRY_VOID(read_key(cbor, "signed_at", time_context));
  TRY(approval.signed_at, read_time_field(cbor, time_context));
  TRY_VOID(read_key(cbor, "signer_id", id_context));
  TRY(const std::string_view id, read_id_field(cbor, id_context));
  approval.signer_id = id;
  return approval;
}

Result<Approval> parse_approval(const codec::JsonValue& root) {
  Approval approval;
  TRY(codec::JsonObject object, root.object());
  TRY(const codec::JsonValue id, object.required("signer_id"));
  TRY(const std::string_view id_text, parse_id_field(id));
  approval.signer_id = id_text;
  TRY(const codec::JsonValue algo, object.required("algo"));
  TRY(const std::string_view algo_text, parse_text_field(algo));
  approval.algo = algo_text;
  TRY(const codec::JsonValue sig, object.required("sig"));
  TRY(approval.sig, parse_bytes_field(sig));
  if (approval.sig.size() != signature_size) return sig.refuse("expected 64 bytes");
  TRY(const codec::JsonValue at, object.required("signed_at"));
  TRY(approval.signed_at, parse_time_field(at));
  TRY_VOID(object.finish());
  return approval;
}

Result<TrustRoots> parse_roots(const codec::JsonValue& root) {
  TrustRoots roots;
  TRY(codec::JsonObject object, root.object());
  TRY(const std::uint64_t version, object.required_uint("version"));
  if (version != 1) return object.refuse("version", "expected 1");
  TRY(const codec::JsonValue payload, object.required("genesis_payload_b3"));
  TRY(roots.genesis_payload_b3, parse_address_field(payload));
  TRY(const codec::JsonValue commit, object.required("genesis_commit_b3"));
  TRY(roots.genesis_commit_b3, parse_address_field(commit));
  TRY(const codec::JsonValue key, object.required("log_key"));
  TRY(const std::string_view key_text, parse_text_field(key));
  roots.log_key = key_text;
  TRY_VOID(object.finish());
  return roots;
}

template <class T>
Result<T> parse_json(std::string_view text, std::string& detail,
                     Result<T> (*parse)(const codec::JsonValue&)) {
  codec::JsonReader reader;
  const auto root = reader.parse(text);
  auto value = root ? parse(*root) : fail(root.error());
  if (!value) detail = reader.detail();
  return value;
}

// Checks one approval of a quorum, alone and against those before it.
Result<> check_approval(const Governance& governance, const Address& payload_b3, const Approval& approval,
                        std::span<const Approval> before) {
  const Signer* signer = governance.find(approval.signer_id);
  if (signer == nullptr)
    return refuse(ErrorCode::invalid_sig, "an approval by no signer of the set in force");
  if (std::ranges::find(before, approval.signer_id, &Approval::signer_id) != before.end())
    return refuse(ErrorCode::duplicate_approval, "two approvals by the same signer");
  if (!signer->can_approve() || approval.algo != approving_algo)
    return refuse(ErrorCode::invalid_sig, "an approval with an algo that cannot be checked");
  if (!verify_approval(approval, *signer, payload_b3))
    return refuse(ErrorCode::invalid_sig,
                  "the signature of an approval is not its signer's over this payload");
  if (governance.is_revoked(approval.signer_id))
    return refuse(ErrorCode::revoked_key, "an approval by a revoked key");
  return {};
}

}  // namespace

std::array<std::byte, 59> approval_message(const Address& payload_b3) noexcept {
  std::array<std::byte, 59> message{};
  std::ranges::copy(as_bytes(approval_tag), message.begin());
  std::ranges::copy(payload_b3.bytes, message.begin() + approval_tag.size() + 1);
  return message;
}

Approval sign_approval(const crypto::Ed25519Key& key, std::string signer_id, const Address& payload_b3,
                       WallTime at) {
  const crypto::Ed25519Signature sig = key.sign(approval_message(payload_b3));
  return {std::move(signer_id), std::string(approving_algo), std::string(as_text(sig)), at};
}

bool verify_approval(const Approval& approval, const Signer& signer, const Address& payload_b3) noexcept {
  if (approval.signer_id != signer.id || approval.algo != signer.algo || !signer.can_approve()) return false;
  crypto::Ed25519PublicKey key;
  crypto::Ed25519Signature sig;
  if (signer.key.size() != key.size() || approval.sig.size() != sig.size()) return false;
  std::ranges::copy(as_bytes(signer.key), key.begin());
  std::ranges::copy(as_bytes(approval.sig), sig.begin());
  return crypto::verify_ed25519(key, approval_message(payload_b3), sig);
}

std::string encode(const Approval& approval) {
  std::string out;
  codec::CborEncoder cbor(out);
  write_approval(approval, cbor);
  cbor.finish();
  return out;
}

Result<Approval> decode_approval_cbor(ByteView bytes) {
  codec::CborDecoder cbor(bytes);
  TRY(Approval approval, take_approval(cbor));
  TRY_VOID(cbor.finish());
  return approval;
}

Result<Approval> parse_approval_json(std::string_view body, std::string& detail) {
  return parse_json(body, detail, &parse_approval);
}

Result<Approval> read_approval(const codec::JsonValue& value) { return parse_approval(value); }
Result<Approval> read_approval(codec::CborDecoder& cbor) { return take_approval(cbor); }

void write_approval_json(const Approval& approval, codec::JsonWriter& json) {
  json.begin_object()
      .field("signer_id", approval.signer_id)
      .field("algo", approval.algo)
      .field("sig", codec::encode_base64(as_bytes(approval.sig)))
      .field("signed_at", format_rfc3339(approval.signed_at))
      .end_object();
}

std::string encode(Commit commit) {
  std::ranges::sort(commit.approvals, {}, &Approval::signer_id);
  CHECK(std::ranges::adjacent_find(commit.approvals, {}, &Approval::signer_id) == commit.approvals.end());
  std::string out;
  codec::CborEncoder cbor(out);
  cbor.write_map(5);
  cbor.write_text("prev");
  cbor.write_bytes(commit.prev.bytes);
  cbor.write_text("version");
  cbor.write_uint(commit.version);
  cbor.write_text("approvals");
  cbor.write_array(commit.approvals.size());
  for (const Approval& approval : commit.approvals) write_approval(approval, cbor);
  cbor.write_text("payload_b3");
  cbor.write_bytes(commit.payload_b3.bytes);
  cbor.write_text("committed_at");
  write_time_field(cbor, commit.committed_at);
  cbor.finish();
  CHECK(commit.approvals.size() <= signers_max && out.size() <= commit_size_max);
  return out;
}

Result<Commit> decode_commit(ByteView bytes) {
  constexpr const char* prev_context = "the prev of a commit";
  constexpr const char* version_context = "the version of a commit";
  constexpr const char* approvals_context = "the approvals of a commit";
  constexpr const char* payload_context = "the payload_b3 of a commit";
  constexpr const char* time_context = "the committed_at of a commit";
  if (bytes.size() > commit_size_max) return malformed_field("a commit is too large");
  codec::CborDecoder cbor(bytes);
  Commit commit;
  const auto pairs = cbor.read_map();
  if (!pairs || *pairs != 5) return malformed_field("a commit is not a map of five fields");
  TRY_VOID(read_key(cbor, "prev", prev_context));
  TRY(commit.prev, read_address_field(cbor, prev_context));
  TRY_VOID(read_key(cbor, "version", version_context));
  TRY(commit.version, read_uint_field(cbor, version_context));
  if (commit.version == 0 && commit.prev != Address{}) return malformed_field(prev_context);
  TRY_VOID(read_key(cbor, "approvals", approvals_context));
  const auto count = cbor.read_array();
  if (!count || *count > signers_max) return malformed_field(approvals_context);
  for (std::size_t i = 0; i < *count; ++i) {
    TRY(Approval approval, take_approval(cbor));
    if (i > 0 && commit.approvals.back().signer_id >= approval.signer_id)
      return malformed_field("the order of the approvals of a commit");
    commit.approvals.push_back(std::move(approval));
  }
  TRY_VOID(read_key(cbor, "payload_b3", payload_context));
  TRY(commit.payload_b3, read_address_field(cbor, payload_context));
  TRY_VOID(read_key(cbor, "committed_at", time_context));
  TRY(commit.committed_at, read_time_field(cbor, time_context));
  TRY_VOID(cbor.finish());
  return commit;
}

Address commit_b3(ByteView encoded) noexcept { return crypto::hash_object(encoded); }

Result<> check_quorum(const Governance& governance, const Address& payload_b3,
                      std::span<const Approval> approvals) {
  for (std::size_t i = 0; i < approvals.size(); ++i)
    TRY_VOID(check_approval(governance, payload_b3, approvals[i], approvals.first(i)));
  if (governance.m == 0 || approvals.size() < governance.m)
    return refuse(ErrorCode::quorum_failed, "fewer approvals than the signer_set asks for");
  return {};
}

std::string encode_genesis(const Genesis& genesis) {
  std::string out;
  codec::CborEncoder cbor(out);
  cbor.write_map(2);
  cbor.write_text("commit");
  cbor.write_bytes(as_bytes(genesis.commit));
  cbor.write_text("payload");
  cbor.write_bytes(as_bytes(genesis.payload));
  cbor.finish();
  return out;
}

Result<Genesis> decode_genesis(ByteView bytes) {
  codec::CborDecoder cbor(bytes);
  Genesis genesis;
  const auto pairs = cbor.read_map();
  if (!pairs || *pairs != 2) return malformed_field("genesis is not a map of two fields");
  TRY_VOID(read_key(cbor, "commit", "the commit of genesis"));
  TRY(const ByteView commit, read_bytes_field(cbor, "the commit of genesis"));
  genesis.commit = as_text(commit);
  TRY_VOID(read_key(cbor, "payload", "the payload of genesis"));
  TRY(const ByteView payload, read_bytes_field(cbor, "the payload of genesis"));
  genesis.payload = as_text(payload);
  TRY_VOID(cbor.finish());
  return genesis;
}

Result<Genesis> make_genesis(unsigned m,
                             std::vector<std::pair<std::string, const crypto::Ed25519Key*>> signers,
                             std::vector<std::string> more_items, WallTime now) {
  if (now.ms < 0 || now > registry_time_max) return malformed_field("the created_at of the set");
  std::vector<Signer> members;
  for (const auto& [id, key] : signers) {
    CHECK(key != nullptr);
    members.push_back(
        {id, std::nullopt, std::string(approving_algo), std::string(as_text(key->public_key()))});
  }
  DescriptorSet set;
  set.created_at = now;
  TRY(std::string signer_set, encode_signer_set(m, members));
  set.items.push_back(std::move(signer_set));
  for (std::string& item : more_items) {
    TRY_VOID(validate_item(as_bytes(item)));
    set.items.push_back(std::move(item));
  }
  TRY_VOID(check_next_items(set.items));
  Genesis genesis{.payload = encode(set), .commit = {}};
  Commit commit;
  commit.payload_b3 = crypto::hash_object(as_bytes(genesis.payload));
  commit.committed_at = now;
  for (auto& [id, key] : signers)
    commit.approvals.push_back(sign_approval(*key, std::move(id), commit.payload_b3, now));
  genesis.commit = encode(std::move(commit));
  TRY_VOID(check_genesis(genesis));
  return genesis;
}

Result<> check_genesis(const Genesis& genesis) {
  TRY(const Commit commit, decode_commit(as_bytes(genesis.commit)));
  if (commit.version != 0) return refuse(ErrorCode::chain_mismatch, "the commit of genesis is not version 0");
  if (crypto::hash_object(as_bytes(genesis.payload)) != commit.payload_b3)
    return refuse(ErrorCode::integrity, "the payload of genesis is not the one its commit names");
  TRY(const DescriptorSet set, decode_descriptor_set(as_bytes(genesis.payload)));
  if (set.version != 0) return refuse(ErrorCode::chain_mismatch, "the payload of genesis is not version 0");
  if (set.expiry && commit.committed_at > *set.expiry)
    return refuse(ErrorCode::chain_mismatch, "genesis was committed after its expiry");
  TRY(const Governance governance, read_governance(set.items));
  return check_quorum(governance, commit.payload_b3, commit.approvals);
}

Result<TrustRoots> parse_trust_roots(std::string_view text, std::string& detail) {
  return parse_json(text, detail, &parse_roots);
}

std::string format_trust_roots(const TrustRoots& roots) {
  std::string out;
  codec::JsonWriter json(out);
  json.begin_object()
      .field("version", 1u)
      .field("genesis_payload_b3", format_address(roots.genesis_payload_b3))
      .field("genesis_commit_b3", format_address(roots.genesis_commit_b3))
      .field("log_key", roots.log_key)
      .end_object()
      .finish();
  return out += '\n';
}

}  // namespace cairn::format
