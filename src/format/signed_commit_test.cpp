#include "format/signed_commit.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "codec/base64.h"
#include "format/sample_registry.h"

namespace cairn::format {
namespace {

std::string bytes_of(std::string_view hex) {
  std::string bytes(hex.size() / 2, '\0');
  CHECK(parse_hex_to(hex, std::as_writable_bytes(std::span(bytes))));
  return bytes;
}

const Address payload = *parse_address("b3:d4c011a0d6bdb33ed9a6b5724a4aff3f75c74830cf82db9be05994b1d4e0a526");

Governance governance_of(unsigned m, const std::vector<unsigned>& numbers) {
  return read_governance({sample_signer_set(m, numbers)}).value();
}
Approval approval_by(unsigned number, const Address& of = payload) {
  return sign_approval(sample_key(number), sample_signer_id(number), of, sample_time);
}
ErrorCode quorum(const Governance& governance, const std::vector<Approval>& approvals) {
  const auto right = check_quorum(governance, payload, approvals);
  return right ? ErrorCode::ok : right.error().code;
}

// Signature, bytes and hash come from other programs (Python's cryptography, a small encoder, b3sum).
TEST(SignedCommit, a_small_commit_has_bytes_that_never_change) {
  const std::string golden = bytes_of(
      "a56470726576582000000000000000000000000000000000000000000000000000000000000000006776657273696f6e"
      "0069617070726f76616c7381a46373696758405b5240b94aa335dc5092e91b23e7a87d6824d6d2112165b3f254fbe8ed"
      "79135cfc80e9317b77a5833ca5ea17a3cd4afe39de60db708b9da4d6dc396bdeb6a30764616c676f6765643235353139"
      "697369676e65645f61741b0000019b76daa805697369676e65725f6964636164616a7061796c6f61645f62335820d4c0"
      "11a0d6bdb33ed9a6b5724a4aff3f75c74830cf82db9be05994b1d4e0a5266c636f6d6d69747465645f61741b0000019b"
      "76daa807");
  std::array<std::byte, 32> seed;
  seed.fill(std::byte{1});
  const crypto::Ed25519Key key(seed);
  Commit commit;
  commit.payload_b3 = payload;
  commit.approvals = {sign_approval(key, "ada", payload, WallTime{sample_time.ms + 5})};
  commit.committed_at = WallTime{sample_time.ms + 7};
  EXPECT_EQ(format_hex(as_bytes(encode(commit))), format_hex(as_bytes(golden)));
  EXPECT_EQ(decode_commit(as_bytes(golden)).value(), commit);
  EXPECT_EQ(format_address(commit_b3(as_bytes(golden))),
            "b3:378a0974d251a8e6cfc95d7cf65ae5cb4953d96e3f6852ef456c3d27e709e3d6");
}

TEST(Approval, the_message_is_tag_zero_and_hash) {
  EXPECT_EQ(as_text(approval_message(payload)),
            "cairn-registry-approval-v1" + std::string(1, '\0') + std::string(as_text(payload.bytes)));
}

TEST(Approval, only_the_signer_over_these_bytes_verifies) {
  const Approval approval = approval_by(1);
  const Signer signer = sample_signer(1);
  EXPECT_TRUE(verify_approval(approval, signer, payload));
  EXPECT_FALSE(verify_approval(approval, signer, Address{}));
  Signer other = sample_signer(2);
  EXPECT_FALSE(verify_approval(approval, other, payload));
  other.id = signer.id;
  EXPECT_FALSE(verify_approval(approval, other, payload));
  Approval renamed = approval;
  renamed.signer_id = "signer-2";
  EXPECT_FALSE(verify_approval(renamed, signer, payload));
  Approval tagged = approval;
  tagged.algo = "ml-dsa-65";
  EXPECT_FALSE(verify_approval(tagged, signer, payload));
  Signer tagged_signer = signer;
  tagged_signer.algo = "ml-dsa-65";
  EXPECT_FALSE(verify_approval(tagged, tagged_signer, payload));
  Approval cut = approval;
  cut.sig.pop_back();
  EXPECT_FALSE(verify_approval(cut, signer, payload));
  for (std::size_t bit = 0; bit < 512; ++bit) {
    Approval flipped = approval;
    flipped.sig[bit / 8] = static_cast<char>(flipped.sig[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(verify_approval(flipped, signer, payload)) << bit;
  }
}

TEST(Approval, says_the_same_in_json_and_cbor) {
  Approval approval = approval_by(1);
  approval.signed_at.ms += 5;
  EXPECT_EQ(decode_approval_cbor(as_bytes(encode(approval))).value(), approval);
  std::string text, detail;
  codec::JsonWriter json(text);
  write_approval_json(approval, json);
  json.finish();
  EXPECT_EQ(text, R"({"signer_id":"signer-1","algo":"ed25519","sig":")" +
                      codec::encode_base64(as_bytes(approval.sig)) +
                      R"(","signed_at":"2026-01-01T00:00:00.005Z"})");
  EXPECT_EQ(parse_approval_json(text, detail).value(), approval);
}

TEST(Approval, each_broken_field_is_refused_by_its_name) {
  const std::string sig = codec::encode_base64(as_bytes(approval_by(1).sig));
  const auto refusal = [](const std::string& body) {
    std::string detail;
    const auto approval = parse_approval_json(body, detail);
    EXPECT_TRUE(approval || approval.error().code == ErrorCode::malformed);
    return detail;
  };
  const std::string good = R"("algo":"ed25519","sig":")" + sig + R"(","signed_at":"2026-01-01T00:00:00Z")";
  EXPECT_EQ(refusal(R"({"signer_id":"a",)" + good + "}"), "");
  EXPECT_EQ(refusal("{" + good + "}"), "$.signer_id: required field is missing");
  EXPECT_EQ(refusal(R"({"signer_id":"a",)" + good + R"(,"x":1})"), "$.x: unknown field");
  EXPECT_EQ(refusal(R"({"signer_id":"a b",)" + good + "}"),
            "$.signer_id: expected 1 to 128 characters of [A-Za-z0-9._:@/-]");
  EXPECT_EQ(refusal(R"({"signer_id":"a","algo":"ed25519","sig":"AQI=","signed_at":"2026-01-01T00:00:00Z"})"),
            "$.sig: expected 64 bytes");
  EXPECT_EQ(refusal(R"({"signer_id":"a","algo":"ed25519","sig":"?","signed_at":"2026-01-01T00:00:00Z"})"),
            "$.sig: expected base64");
  EXPECT_EQ(
      refusal(R"({"signer_id":"a","algo":"","sig":")" + sig + R"(","signed_at":"2026-01-01T00:00:00Z"})"),
      "$.algo: expected 1 to 1024 bytes without control characters");
  EXPECT_EQ(refusal(R"({"signer_id":"a","algo":"ed25519","sig":")" + sig + R"(","signed_at":5})"),
            "$.signed_at: expected a string");

  const auto cbor_refusal = [](auto change) -> std::string {
    std::string bytes = encode(approval_by(1));
    change(bytes);
    const auto approval = decode_approval_cbor(as_bytes(bytes));
    return approval ? "" : approval.error().context;
  };
  const auto replace = [](std::string& bytes, std::string_view from, std::string_view to) {
    const std::size_t at = bytes.find(from);
    ASSERT_NE(at, std::string::npos);
    bytes.replace(at, from.size(), to);
  };
  EXPECT_EQ(cbor_refusal([](std::string&) {}), "");
  EXPECT_EQ(cbor_refusal([&](std::string& bytes) { replace(bytes, "sig", "sag"); }),
            "the sig of an approval");
  EXPECT_EQ(cbor_refusal([&](std::string& bytes) { replace(bytes, "algo", "also"); }),
            "the algo of an approval");
  EXPECT_EQ(cbor_refusal([&](std::string& bytes) { replace(bytes, "ed25519", "ed2551\n"); }),
            "the algo of an approval");
  EXPECT_EQ(cbor_refusal([&](std::string& bytes) { replace(bytes, "signed_at", "signed_on"); }),
            "the signed_at of an approval");
  EXPECT_EQ(cbor_refusal([&](std::string& bytes) { replace(bytes, "signer_id", "signer_it"); }),
            "the signer_id of an approval");
  EXPECT_EQ(cbor_refusal([&](std::string& bytes) { replace(bytes, "signer-1", "signer 1"); }),
            "the signer_id of an approval");
  EXPECT_EQ(cbor_refusal([](std::string& bytes) { bytes += '\0'; }), "CBOR: bytes after the item");
}

TEST(SignedCommit, approvals_are_sorted_and_one_per_signer) {
  Commit commit;
  commit.payload_b3 = payload;
  commit.committed_at = sample_time;
  commit.approvals = {approval_by(2), approval_by(1)};
  const std::string bytes = encode(commit);
  const auto back = decode_commit(as_bytes(bytes));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->approvals[0].signer_id, "signer-1");
  EXPECT_EQ(encode(*back), bytes);
  // The same length of ids: renaming them in the bytes puts them out of order.
  for (const auto& [first, second] : {std::pair("signer-3", "signer-2"), std::pair("signer-2", "signer-2")}) {
    std::string wrong = bytes;
    wrong.replace(wrong.find("signer-1"), 8, first);
    const std::size_t at = wrong.rfind("signer-2");
    wrong.replace(at, 8, second);
    const auto refused = decode_commit(as_bytes(wrong));
    ASSERT_FALSE(refused);
    EXPECT_STREQ(refused.error().context, "the order of the approvals of a commit");
  }
}

TEST(SignedCommit, the_largest_commit_fits_into_a_leaf) {
  Commit commit;
  commit.version = ~std::uint64_t{0};
  commit.prev.bytes.fill(std::byte{1});
  commit.committed_at = sample_time;
  for (unsigned i = 0; i < signers_max; ++i) {
    Approval approval = approval_by(i);
    approval.signer_id = std::string(128 - approval.signer_id.size(), 'x') + approval.signer_id;
    commit.approvals.push_back(approval);
  }
  const std::string bytes = encode(commit);
  EXPECT_LT(bytes.size(), commit_size_max / 3);
  EXPECT_EQ(decode_commit(as_bytes(bytes))->approvals.size(), signers_max);
  EXPECT_FALSE(decode_commit(as_bytes(std::string(commit_size_max + 1, '\0'))));
}

TEST(SignedCommit, each_broken_field_is_refused_by_its_name) {
  Commit commit;
  commit.payload_b3 = payload;
  commit.committed_at = sample_time;
  commit.approvals = {approval_by(1)};
  const std::string bytes = encode(commit);
  for (const std::string_view name : {"prev", "version", "approvals", "payload_b3", "committed_at"}) {
    std::string wrong = bytes;
    wrong[wrong.find(name)] = '_';
    const auto refused = decode_commit(as_bytes(wrong));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().context, "the " + std::string(name) + " of a commit");
    EXPECT_EQ(refused.error().code, ErrorCode::malformed);
    wrong = bytes;
    wrong[wrong.find(name) + name.size()] = '\xF6';
    EXPECT_EQ(decode_commit(as_bytes(wrong)).error().context, "the " + std::string(name) + " of a commit");
  }
  EXPECT_FALSE(decode_commit(as_bytes(bytes + '\0')));
  EXPECT_FALSE(decode_commit(as_bytes(bytes).first(bytes.size() - 1)));
  std::string linked = bytes;
  linked[bytes.find("prev") + 6] = 1;  // genesis has nothing before it
  EXPECT_STREQ(decode_commit(as_bytes(linked)).error().context, "the prev of a commit");
}

TEST(Quorum, each_wrong_approval_has_its_code) {
  const Governance governance = governance_of(2, {1, 2, 3});
  Governance revoked = governance;
  revoked.revoked = {sample_signer_id(3)};
  EXPECT_EQ(quorum(governance, {approval_by(1), approval_by(2)}), ErrorCode::ok);
  EXPECT_EQ(quorum(governance, {approval_by(3), approval_by(1), approval_by(2)}), ErrorCode::ok);
  EXPECT_EQ(quorum(governance, {}), ErrorCode::quorum_failed);
  EXPECT_EQ(quorum(governance, {approval_by(1)}), ErrorCode::quorum_failed);
  EXPECT_EQ(quorum(governance, {approval_by(1), approval_by(1)}), ErrorCode::duplicate_approval);
  EXPECT_EQ(quorum(governance, {approval_by(1), approval_by(4)}), ErrorCode::invalid_sig);
  EXPECT_EQ(quorum(governance, {approval_by(1), approval_by(2, Address{})}), ErrorCode::invalid_sig);
  EXPECT_EQ(quorum(revoked, {approval_by(1), approval_by(3)}), ErrorCode::revoked_key);
  EXPECT_EQ(quorum(revoked, {approval_by(1), approval_by(2), approval_by(3)}), ErrorCode::revoked_key);
  EXPECT_EQ(quorum(revoked, {approval_by(1), approval_by(2)}), ErrorCode::ok);
  Approval other_algo = approval_by(2);
  other_algo.algo = "ml-dsa-65";
  EXPECT_EQ(quorum(governance, {approval_by(1), other_algo}), ErrorCode::invalid_sig);
  Governance other_signer = governance;
  other_signer.signers[1].algo = "ml-dsa-65";
  EXPECT_EQ(quorum(other_signer, {approval_by(1), other_algo}), ErrorCode::invalid_sig);
  Approval borrowed = approval_by(1);
  borrowed.signer_id = sample_signer_id(2);
  EXPECT_EQ(quorum(governance, {approval_by(1), borrowed}), ErrorCode::invalid_sig);
  EXPECT_EQ(quorum(Governance{}, {}), ErrorCode::quorum_failed);
}

// What is right is said here again, from the draw alone.
RC_GTEST_PROP(Quorum, exactly_m_different_signers_in_force_suffice, ()) {
  const auto n = *rc::gen::inRange<unsigned>(1, 7);
  std::vector<unsigned> numbers;
  for (unsigned i = 0; i < n; ++i) numbers.push_back(i);
  const auto m = *rc::gen::inRange<unsigned>(1, n + 1);
  Governance governance = governance_of(m, numbers);
  std::vector<bool> revoked(n);
  for (unsigned i = 0; i < n; ++i) {
    revoked[i] = *rc::gen::weightedElement<bool>({{5, false}, {1, true}});
    if (revoked[i]) governance.revoked.push_back(sample_signer_id(i));
  }
  std::vector<Approval> approvals;
  std::vector<bool> seen(n);
  bool right = true;
  for (unsigned i = *rc::gen::inRange<unsigned>(0, n + 2); i > 0; --i) {
    const auto number = *rc::gen::inRange<unsigned>(0, n);
    switch (*rc::gen::weightedElement<int>({{12, 0}, {1, 1}, {1, 2}, {1, 3}})) {
      case 0:
        approvals.push_back(approval_by(number));
        if (seen[number] || revoked[number]) right = false;
        seen[number] = true;
        break;
      case 1:  // a stranger
        approvals.push_back(approval_by(n + number));
        right = false;
        break;
      case 2: {  // a stranger who takes a signer's name
        Approval approval = approval_by(n + number);
        approval.signer_id = sample_signer_id(number);
        approvals.push_back(approval);
        right = false;
        break;
      }
      default:  // over other bytes
        approvals.push_back(approval_by(number, Address{}));
        right = false;
        break;
    }
  }
  const bool enough = static_cast<std::size_t>(std::ranges::count(seen, true)) >= m;
  const auto result = check_quorum(governance, payload, approvals);
  RC_ASSERT(result.has_value() == (right && enough));
  if (!result) RC_ASSERT((result.error().code == ErrorCode::quorum_failed) == right);
}

TEST(Genesis, is_approved_by_every_signer_and_checks) {
  const SampleRegistry registry(2, {1, 2, 3}, {sample_item(R"({"type":"region","id":"eu"})")});
  const Genesis& genesis = registry.versions[0];
  ASSERT_TRUE(check_genesis(genesis));
  const Commit commit = decode_commit(as_bytes(genesis.commit)).value();
  EXPECT_EQ(commit.approvals.size(), 3u);
  EXPECT_EQ(commit.version, 0u);
  EXPECT_EQ(decode_descriptor_set(as_bytes(genesis.payload))->items.size(), 2u);
  EXPECT_EQ(decode_genesis(as_bytes(encode_genesis(genesis))).value(), genesis);
}

TEST(Genesis, what_could_never_be_followed_is_not_made) {
  const crypto::Ed25519Key one = sample_key(1), two = sample_key(2);
  const auto make = [](unsigned m, std::vector<std::pair<std::string, const crypto::Ed25519Key*>> signers,
                       std::vector<std::string> items = {}) -> std::string {
    const auto genesis = make_genesis(m, std::move(signers), std::move(items), sample_time);
    return genesis ? "" : genesis.error().context;
  };
  EXPECT_EQ(make(1, {{"a", &one}}), "");
  EXPECT_EQ(make(1, {}), "a signer_set has 1 to 64 signers");
  EXPECT_EQ(make(0, {{"a", &one}}), "the m of the signer_set is 0");
  EXPECT_EQ(make(2, {{"a", &one}}), "the m of the signer_set is more than the signers in force");
  EXPECT_EQ(make(1, {{"a", &one}, {"a", &two}}), "two signers have the same id");
  EXPECT_EQ(make(1, {{"a", &one}, {"b", &one}}), "two signers have the same key");
  EXPECT_EQ(make(1, {{"\xFF", &one}}), "the id of a signer");
  EXPECT_EQ(make(1, {{"a", &one}}, {"\xA0"}), "the type of an item");
  EXPECT_EQ(make(1, {{"signer-1", &one}}, {sample_revocation(1)}),
            "the m of the signer_set is more than the signers in force");
}

TEST(Genesis, one_that_does_not_belong_together_is_refused) {
  const SampleRegistry registry(1, {1}), other(1, {2});
  EXPECT_EQ(check_genesis({other.versions[0].payload, registry.versions[0].commit}).error().code,
            ErrorCode::integrity);
  // A good payload that its own signers did not approve.
  Commit commit = decode_commit(as_bytes(registry.versions[0].commit)).value();
  commit.approvals = {approval_by(2, commit.payload_b3)};
  EXPECT_EQ(check_genesis({registry.versions[0].payload, encode(commit)}).error().code,
            ErrorCode::invalid_sig);
  commit.approvals.clear();
  EXPECT_EQ(check_genesis({registry.versions[0].payload, encode(commit)}).error().code,
            ErrorCode::quorum_failed);
  // Version 1 is no genesis.
  SampleRegistry longer(1, {1});
  longer.append({sample_signer_set(1, {1})}, {1});
  EXPECT_EQ(check_genesis(longer.versions[1]).error().code, ErrorCode::chain_mismatch);
}

TEST(TrustRoots, are_read_as_they_were_written) {
  const TrustRoots roots = SampleRegistry(1, {1}).roots();
  const std::string text = format_trust_roots(roots);
  std::string detail;
  EXPECT_EQ(parse_trust_roots(text, detail).value(), roots);
  EXPECT_EQ(text, R"({"version":1,"genesis_payload_b3":")" + format_address(roots.genesis_payload_b3) +
                      R"(","genesis_commit_b3":")" + format_address(roots.genesis_commit_b3) +
                      R"(","log_key":"log+00000000+AA=="})" + "\n");
  const auto refusal = [&](std::string_view from, std::string_view to) {
    std::string wrong = text;
    wrong.replace(wrong.find(from), from.size(), to);
    std::string why;
    EXPECT_FALSE(parse_trust_roots(wrong, why));
    return why;
  };
  EXPECT_EQ(refusal(R"("version":1)", R"("version":2)"), "$.version: expected 1");
  EXPECT_EQ(refusal("b3:", "b4:"), "$.genesis_payload_b3: expected b3: and 64 hex digits");
  EXPECT_EQ(refusal("log_key", "log_kex"), "$.log_key: required field is missing");
  EXPECT_EQ(refusal("}", ",\"x\":1}"), "$.x: unknown field");
}

}  // namespace
}  // namespace cairn::format
