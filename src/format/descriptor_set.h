// DescriptorSet: the whole content of one version of the registry, and the bytes that signers sign
// (docs/formats/registry.md).
//
// A value: the same set always encodes to the same bytes. Decoding is strict: bytes that encode() would not
// have written are malformed, and so is a set that breaks the rules between its items.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/bytes.h"
#include "base/result.h"
#include "base/units.h"
#include "codec/json_writer.h"
#include "crypto/ed25519.h"
#include "format/descriptor_item.h"

namespace cairn::format {

inline constexpr std::size_t set_items_max = 65'536;
inline constexpr std::size_t descriptor_set_size_max = std::size_t{64} << 20;
// Different keys, among all name_authority items of a set. Each of them is checked when the set is proposed,
// and a check takes as long as a signature.
inline constexpr std::size_t authority_keys_max = 256;

// The rule by which the version after a set is approved: the set's signer_set, and the ids that its
// revocations void.
struct Governance {
  unsigned m = 0;
  std::vector<Signer> signers;
  std::vector<std::string> revoked;  // ids, ascending

  const Signer* find(std::string_view id) const noexcept;
  bool is_revoked(std::string_view id) const noexcept;
  // How many signers can approve: not revoked, and with an algo that can be checked.
  std::size_t in_force() const noexcept;
  friend bool operator==(const Governance&, const Governance&) = default;
};

struct DescriptorSet {
  std::uint64_t version = 0;
  Address prev;                    // commit_b3 of the version before; of genesis zero
  std::vector<std::string> items;  // canonical CBOR each
  WallTime created_at;
  std::optional<WallTime> expiry = {};
  std::optional<std::uint64_t> supersede_of = {};  // the version before, when this one replaces it
  std::optional<std::string> reason = {};          // there exactly with supersede_of

  friend bool operator==(const DescriptorSet&, const DescriptorSet&) = default;
};

// Precondition: items are valid and times lie in 1970..9999.
std::string encode(const DescriptorSet& set);
Result<DescriptorSet> decode_descriptor_set(ByteView bytes);
void write_set_json(const DescriptorSet& set, codec::JsonWriter& json);

// Checks the rules between items that are each valid: names appear once; there is exactly one signer_set,
// with different ids and keys, whose quorum can still be reached.
Result<> check_items(const std::vector<std::string>& items);
// The same for the next set. In addition every key that is to approve, or that has names, must be one under
// which a signature can verify, and at most authority_keys_max different keys have names. Sets that were
// committed before this rule stay readable. `known`: keys that were found good before, and need no second
// check.
class GoodKeys;
Result<> check_next_items(const std::vector<std::string>& items, GoodKeys* known = nullptr);
Result<Governance> read_governance(const std::vector<std::string>& items);

// The next version as users ask for it. The server adds version, prev and created_at.
struct ProposalDraft {
  std::vector<std::string> items;
  std::optional<WallTime> expiry = {};
  std::optional<std::uint64_t> supersede_of = {};
  std::optional<std::string> reason = {};

  friend bool operator==(const ProposalDraft&, const ProposalDraft&) = default;
};

// Both functions check the items and the rules between them. `detail` says which field was refused and why.
Result<ProposalDraft> parse_proposal_json(std::string_view body, std::string& detail,
                                          GoodKeys* known = nullptr);
Result<ProposalDraft> decode_proposal_cbor(ByteView body, GoodKeys* known = nullptr);

// Keys that were found good lately. Checking one takes as long as a signature, and a registry meets the same
// few keys with every proposal.
class GoodKeys {
 public:
  bool is_good(const crypto::Ed25519PublicKey& key) noexcept;

 private:
  std::array<crypto::Ed25519PublicKey, 256> good_{};  // by their first byte; all zeros: none
};
std::string encode(const ProposalDraft& draft);
void write_proposal_json(const ProposalDraft& draft, codec::JsonWriter& json);

}  // namespace cairn::format
