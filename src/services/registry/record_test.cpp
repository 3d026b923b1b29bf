#include "services/registry/record.h"

#include <gtest/gtest.h>

#include "format/sample_registry.h"
#include "services/registry/ledger.h"

namespace cairn::registry {
namespace {

Hash hash_of(unsigned number) {
  Hash hash{};
  hash[0] = static_cast<std::byte>(number);
  hash[1] = static_cast<std::byte>(number >> 8);
  return hash;
}
std::vector<Hash> hashes(unsigned from, unsigned to) {
  std::vector<Hash> out;
  for (unsigned i = from; i < to; ++i) out.push_back(hash_of(i));
  return out;
}

ProposalRecord sample_proposal() {
  ProposalRecord record;
  record.id = make_ulid(format::sample_time, 1, 2);
  record.at = format::sample_time;
  record.who = "somebody";
  record.list.base = 4;
  record.list.runs = {{0, 3, {}}, {0, 0, hash_of(7)}};
  record.expires = {format::sample_time.ms + 5};
  record.payload_b3 = Address{hash_of(9)};
  record.set.version = 6;
  record.set.prev = Address{hash_of(8)};
  record.set.created_at = format::sample_time;
  record.set.expiry = WallTime{format::sample_time.ms + 9};
  record.set.supersede_of = 5;
  record.set.reason = "wrong";
  return record;
}

// Whatever is decoded is encoded to the same bytes, and no other bytes are decoded.
template <class T>
void round_trips(const T& record) {
  const std::string bytes = encode(record);
  T out;
  ASSERT_TRUE(decode(as_bytes(bytes), out));
  EXPECT_EQ(encode(out), bytes);
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    T cut;
    EXPECT_FALSE(decode(as_bytes(bytes.substr(0, length)), cut)) << length;
  }
  T longer;
  EXPECT_FALSE(decode(as_bytes(bytes + '\0'), longer));
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    T other;
    if (decode(as_bytes(flipped), other)) EXPECT_EQ(encode(other), flipped) << bit;
  }
}

TEST(RegistryRecord, every_kind_reads_back_as_it_was_written) {
  round_trips(sample_proposal());
  ProposalRecord plain = sample_proposal();
  plain.list = {};
  plain.list.runs = {{0, 0, hash_of(1)}};
  plain.set.expiry.reset();
  plain.set.supersede_of.reset();
  plain.set.reason.reset();
  round_trips(plain);
  const Ulid id = make_ulid(format::sample_time, 3, 4);
  round_trips(
      ApprovalRecord{format::sample_time, id, "who",
                     format::sign_approval(format::sample_key(1), "a", Address{}, format::sample_time)});
  round_trips(CommitRecord{format::sample_time, id, "who", "bytes"});
  round_trips(AuditRecord{format::sample_time, id, "approve", "who", "invalid_sig", Address{hash_of(1)}});
  round_trips(AuditRecord{format::sample_time, {}, "propose", "who", "malformed", {}});
  round_trips(ExpiredRecord{format::sample_time, {id, make_ulid(format::sample_time, 5, 6)}});
  round_trips(CheckpointRecord{format::sample_time, "note\n", 7, 3});
  round_trips(
      PrunedRecord{format::sample_time, 4, 2, {crypto::MerkleHash{}, crypto::MerkleHash{}}, {"item"}});
}

TEST(RegistryRecord, a_pruned_record_has_a_leaf_for_each_version) {
  PrunedRecord out;
  EXPECT_FALSE(decode(as_bytes(encode(PrunedRecord{{}, 4, 2, {crypto::MerkleHash{}}, {}})), out));
  EXPECT_FALSE(decode(as_bytes(encode(PrunedRecord{{}, 2, 4, {}, {}})), out));
}

TEST(RegistryRecord, a_small_change_of_a_list_is_said_in_runs_and_expands_to_the_same) {
  const std::vector<Hash> base = hashes(0, 100);
  std::vector<Hash> wanted = base;
  wanted.erase(wanted.begin() + 50);
  wanted.push_back(hash_of(500));
  const ItemList list = compress(wanted, 3, base);
  EXPECT_EQ(list.base, 3u);
  EXPECT_EQ(list.runs.size(), 3u);
  EXPECT_EQ(expand(list, base), wanted);
}

TEST(RegistryRecord, a_list_with_little_of_its_base_stands_alone) {
  const std::vector<Hash> base = hashes(0, 4), wanted = hashes(3, 10);
  const ItemList list = compress(wanted, 3, base);
  EXPECT_FALSE(list.base);
  EXPECT_EQ(expand(list, {}), wanted);
}

TEST(RegistryRecord, a_list_that_points_outside_of_its_base_is_nothing) {
  ItemList list;
  list.base = 1;
  list.runs = {{3, 2, {}}};
  EXPECT_FALSE(expand(list, hashes(0, 4)));
  list.runs = {{5, 1, {}}};
  EXPECT_FALSE(expand(list, hashes(0, 4)));
  list.runs = {{0, UINT32_MAX, {}}};
  EXPECT_FALSE(expand(list, hashes(0, 4)));
  list.base.reset();
  list.runs = {{0, 1, {}}};
  EXPECT_FALSE(expand(list, hashes(0, 4)));
}

}  // namespace
}  // namespace cairn::registry
