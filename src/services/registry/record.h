// The registry's records in its log, and their encodings (docs/formats/registry.md).
//
// Records are operations in the order of their acceptance. The Ledger is the state that they add up to.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "base/ulid.h"
#include "base/units.h"
#include "crypto/blake3.h"
#include "crypto/merkle.h"
#include "format/signed_commit.h"

namespace cairn::registry {

using crypto::Hash;

enum class RecordKind : std::uint8_t {
  item = 1,    // an item of a descriptor set, once for each hash
  proposal,    // the next set, as it was proposed
  approval,    // of a proposal
  commit,      // a proposal became a version
  audit,       // a mutation was refused
  expired,     // proposals whose time was over
  checkpoint,  // a signed tree head
  pruned,      // versions below are no longer kept; their leaf hashes
};

// Which items a set has. Without a base: added hashes only, in order. With one: runs over the base's list.
struct ItemList {
  struct Run {
    std::uint32_t first = 0, count = 0;  // of the base; count 0: `added`
    Hash added{};
    friend bool operator==(const Run&, const Run&) = default;
  };
  std::optional<std::uint64_t> base;
  std::vector<Run> runs;
};
// The shortest form of `wanted` relative to the base, or the full list where that is not much longer.
ItemList compress(const std::vector<Hash>& wanted, std::uint64_t base, const std::vector<Hash>& base_list);
// Nothing when it points outside of the base.
std::optional<std::vector<Hash>> expand(const ItemList& list, const std::vector<Hash>& base_list);

struct ProposalRecord {
  Ulid id;
  WallTime at{};
  std::string who;
  ItemList list;
  WallTime expires{};
  Address payload_b3;
  format::DescriptorSet set;  // without its items
};
struct ApprovalRecord {
  WallTime at{};
  Ulid id;
  std::string who;
  format::Approval approval;
};
struct CommitRecord {
  WallTime at{};
  Ulid id;
  std::string who;
  std::string commit;  // encoded
};
struct AuditRecord {
  WallTime at{};
  std::optional<Ulid> id;
  std::string op, who, code;
  std::optional<Address> hash;
};
struct ExpiredRecord {
  WallTime at{};
  std::vector<Ulid> ids;
};
struct CheckpointRecord {
  WallTime at{};
  std::string note;
  std::uint64_t size = 0;
  std::uint64_t verified = 0;
};
struct PrunedRecord {
  WallTime at{};
  std::uint64_t below = 0;
  std::uint64_t first = 0;  // of the leaves
  std::vector<crypto::MerkleHash> leaves;
  std::vector<std::string> governors;  // items in force at version below - 1
};

std::string encode(const ProposalRecord& record);
std::string encode(const ApprovalRecord& record);
std::string encode(const CommitRecord& record);
std::string encode(const AuditRecord& record);
std::string encode(const ExpiredRecord& record);
std::string encode(const CheckpointRecord& record);
std::string encode(const PrunedRecord& record);
// `integrity` when the bytes are not exactly such a record.
Result<> decode(ByteView meta, ProposalRecord& out);
Result<> decode(ByteView meta, ApprovalRecord& out);
Result<> decode(ByteView meta, CommitRecord& out);
Result<> decode(ByteView meta, AuditRecord& out);
Result<> decode(ByteView meta, ExpiredRecord& out);
Result<> decode(ByteView meta, CheckpointRecord& out);
Result<> decode(ByteView meta, PrunedRecord& out);

}  // namespace cairn::registry
