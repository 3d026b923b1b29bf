// Commits, approvals, genesis and trust roots against arbitrary bytes. What is accepted is written back as
// the very same bytes, and no chain takes a commit that was not signed.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "format/chain_verifier.h"

namespace {

using namespace cairn;
using namespace cairn::format;

const TrustRoots no_roots{};

void check_approval(const Approval& approval) {
  CHECK(decode_approval_cbor(as_bytes(encode(approval))) == approval);
  std::string text, detail;
  codec::JsonWriter json(text);
  write_approval_json(approval, json);
  json.finish();
  CHECK(parse_approval_json(text, detail) == approval);
}

void check_commit(ByteView bytes) {
  const auto commit = decode_commit(bytes);
  if (!commit) {
    CHECK(commit.error().code == ErrorCode::malformed);
    return;
  }
  CHECK(encode(*commit) == as_text(bytes));
  for (const Approval& approval : commit->approvals) check_approval(approval);
  // No input hashes to zero, and no key of this governance has ever signed.
  ChainVerifier from_genesis(no_roots);
  CHECK(!from_genesis.take(bytes, std::nullopt) && !from_genesis.why().empty());
  const Governance governance{1, {{"ada", {}, "ed25519", std::string(32, '\x01')}}, {}};
  ChainVerifier onwards(ChainVerifier::Start{.prev = commit->prev, .governance = governance});
  if (commit->version == 0) {
    CHECK(!onwards.take(bytes, bytes));
  } else {
    CHECK(!onwards.take(bytes, std::nullopt));
  }
  CHECK(!check_quorum(governance, commit->payload_b3, commit->approvals));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteView bytes(reinterpret_cast<const std::byte*>(data), size);
  const std::string_view text = as_text(bytes);
  std::string detail;

  check_commit(bytes);
  if (const auto approval = decode_approval_cbor(bytes)) {
    CHECK(encode(*approval) == text);
    check_approval(*approval);
  }
  if (const auto approval = parse_approval_json(text, detail)) check_approval(*approval);
  if (const auto genesis = decode_genesis(bytes)) {
    CHECK(encode_genesis(*genesis) == text);
    check_commit(as_bytes(genesis->commit));
    if (check_genesis(*genesis)) CHECK(decode_descriptor_set(as_bytes(genesis->payload)).has_value());
  }
  if (const auto roots = parse_trust_roots(text, detail))
    CHECK(parse_trust_roots(format_trust_roots(*roots), detail) == *roots);
  return 0;
}
