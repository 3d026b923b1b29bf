#include "crypto/outboard.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <random>

#include "crypto/sample_object.h"

namespace cairn::crypto {
namespace {

// The proof as the format defines it, by recursion over the groups.
void prove_by_definition(std::span<const Hash> groups, std::uint64_t first_group, GroupSpan range,
                         Bytes& out) {
  const GroupSpan node{first_group, first_group + groups.size()};
  if (groups.size() < 2 || !node.touches(range)) return;
  std::size_t left = 1;
  while (left * 2 < groups.size()) left *= 2;
  for (const auto side : {groups.first(left), groups.subspan(left)}) {
    const Hash hash = merge_all(side, false);
    out.insert(out.end(), hash.begin(), hash.end());
  }
  prove_by_definition(groups.first(left), first_group, range, out);
  prove_by_definition(groups.subspan(left), first_group + left, range, out);
}

Bytes prove_by_definition(const SampleObject& object, std::uint64_t first, std::uint64_t last) {
  Bytes out;
  for (unsigned i = 0; i < 8; ++i) out.push_back(static_cast<std::byte>(object.size() >> (8 * i)));
  prove_by_definition(object.hash.groups, 0, groups_of_bytes(first, last), out);
  return out;
}

std::uint64_t count_parents(GroupSpan node, GroupSpan range) {
  if (node.count() < 2 || !node.touches(range)) return 0;
  return 1 + count_parents({node.first, node.middle()}, range) +
         count_parents({node.middle(), node.end}, range);
}

}  // namespace

TEST(Outboard, geometry_of_the_edges) {
  struct {
    std::uint64_t size, groups, parts;
    std::size_t last_length;
  } const rows[] = {
      {0, 1, 1, 0},
      {1, 1, 1, 1},
      {group_size, 1, 1, group_size},
      {group_size + 1, 2, 1, 1},
      {part_size, 16, 1, group_size},
      {part_size + 1, 17, 2, 1},
      {3 * part_size - 1, 48, 3, group_size - 1},
      {object_size_max, object_size_max / group_size, object_size_max / part_size, group_size},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(group_count(row.size), row.groups) << row.size;
    EXPECT_EQ(part_count(row.size), row.parts) << row.size;
    EXPECT_EQ(group_length(row.size, row.groups - 1), row.last_length) << row.size;
    if (row.groups > 1) EXPECT_EQ(group_length(row.size, 0), group_size) << row.size;
  }
}

TEST(Outboard, object_of_one_group_has_a_proof_of_its_size_alone) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{1000}, group_size}) {
    const SampleObject object(size, 1);
    const std::uint64_t last = size == 0 ? 0 : size - 1;
    const Bytes proof = object.prove(0, last);
    ASSERT_EQ(proof.size(), 8u) << size;
    EXPECT_EQ(proof_size(size, 0, last), 8u);
    std::uint64_t said = 0;
    for (std::size_t i = 8; i-- > 0;) said = said << 8 | std::to_integer<std::uint64_t>(proof[i]);
    EXPECT_EQ(said, size);
  }
}

TEST(Outboard, proof_of_two_groups_is_size_and_both_hashes) {
  const SampleObject object(group_size + 3, 1);
  const Bytes proof = object.prove(group_size, group_size);
  ASSERT_EQ(proof.size(), 72u);
  EXPECT_EQ(format_hex(ByteView(proof).first(8)), "0300010000000000");
  EXPECT_EQ(format_hex(ByteView(proof).subspan(8, 32)), format_hex(object.hash.groups[0]));
  EXPECT_EQ(format_hex(ByteView(proof).subspan(40)), format_hex(object.hash.groups[1]));
}

TEST(Outboard, proofs_are_as_the_format_defines_them_whatever_the_buffer) {
  std::mt19937 random(1);
  for (const unsigned groups : {2u, 3u, 5u, 15u, 16u, 17u, 18u, 31u, 32u, 33u, 47u, 48u, 49u, 65u, 83u}) {
    const SampleObject object(groups * group_size - random() % group_size, groups);
    for (int run = 0; run < 12; ++run) {
      const std::uint64_t first = run == 0 ? 0 : random() % object.size();
      const std::uint64_t last = run < 2 ? object.size() - 1 : first + random() % (object.size() - first);
      const Bytes expected = prove_by_definition(object, first, last);
      ASSERT_EQ(object.prove(first, last), expected) << groups << ' ' << first << ' ' << last;
      ASSERT_EQ(object.prove(first, last, 64 + random() % 200), expected) << groups;
      ASSERT_EQ(proof_size(object.size(), first, last), expected.size()) << groups;
    }
  }
}

RC_GTEST_PROP(Outboard, proof_size_counts_the_parents_of_any_object, ()) {
  const auto size = *rc::gen::inRange<std::uint64_t>(1, object_size_max + 1) >> *rc::gen::inRange(0, 62);
  RC_PRE(size != 0);
  const auto first = *rc::gen::inRange<std::uint64_t>(0, size);
  const auto span = *rc::gen::inRange<std::uint64_t>(0, 200 * group_size);
  const std::uint64_t last = std::min(size - 1, first + span);
  RC_ASSERT(proof_size(size, first, last) ==
            8 + 64 * count_parents({0, group_count(size)}, groups_of_bytes(first, last)));
}

TEST(Outboard, only_touched_parts_are_wanted_once_and_in_order) {
  const SampleObject object(6 * part_size + 1, 2);
  ProofBuilder builder(object.size(), part_size + 5, 3 * part_size, object.part_hashes);
  std::vector<std::uint64_t> wanted;
  Bytes buffer(64);
  while (!builder.done()) {
    if (const auto part = builder.wants_part()) {
      wanted.push_back(*part);
      EXPECT_EQ(builder.write(buffer), 0u);
      ASSERT_TRUE(builder.give_part(object.parts[*part].group_span()));
    }
    ASSERT_NE(builder.write(buffer), 0u);
  }
  EXPECT_EQ(wanted, (std::vector<std::uint64_t>{1, 2, 3}));
  EXPECT_EQ(builder.wants_part(), std::nullopt);
  EXPECT_EQ(builder.write(buffer), 0u);

  // The seventh part is one group, which its own hash proves.
  ProofBuilder tail(object.size(), object.size() - 1, object.size() - 1, object.part_hashes);
  buffer.resize(4096);
  tail.write(buffer);
  EXPECT_TRUE(tail.done());
}

TEST(Outboard, groups_that_are_not_the_wanted_part_are_refused) {
  const SampleObject object(2 * part_size - 1, 3);
  ProofBuilder builder(object.size(), 0, 0, object.part_hashes);
  Bytes buffer(4096);
  EXPECT_EQ(builder.write(MutableByteView(buffer).first(7)), 0u);
  EXPECT_EQ(builder.write(buffer), 72u);
  ASSERT_EQ(builder.wants_part(), 0u);
  const auto refused = [&builder](std::span<const Hash> groups) {
    const auto result = builder.give_part(groups);
    return !result && result.error().code == ErrorCode::integrity && builder.wants_part() == 0u;
  };
  EXPECT_TRUE(refused({}));
  EXPECT_TRUE(refused(object.parts[0].group_span().first(15)));
  EXPECT_TRUE(refused(object.parts[1].group_span()));
  auto damaged = object.parts[0].groups;
  damaged[9][31] ^= std::byte{0x80};
  EXPECT_TRUE(refused(damaged));
  EXPECT_TRUE(builder.give_part(object.parts[0].group_span()));
  EXPECT_EQ(builder.write(buffer), 4 * 64u);
  EXPECT_TRUE(builder.done());
}

}  // namespace cairn::crypto
