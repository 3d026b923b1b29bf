#include "crypto/proof.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <random>

#include "crypto/sample_object.h"

namespace cairn::crypto {
namespace {

// Everything as a client does it: the proof in slices of `step`, then each group.
Result<> verify(const SampleObject& object, std::uint64_t first, std::uint64_t last, ByteView proof,
                std::size_t step) {
  ProofReader reader(object.hash.address, first, last);
  for (std::size_t at = 0; at < proof.size() && !reader.done();) {
    TRY(const std::size_t taken, reader.update(proof.subspan(at, std::min(step, proof.size() - at))));
    at += taken;
  }
  if (!reader.done()) return fail(ErrorCode::closed, "the proof is short");
  const GroupSpan groups = reader.groups();
  for (std::uint64_t index = groups.first; index < groups.end; ++index) {
    if (index >= group_count(object.size())) return fail(ErrorCode::integrity, "no such group");
    TRY_VOID(reader.verify_group(index, object.group(index)));
  }
  return {};
}

bool fails_with(const Result<std::size_t>& result, ErrorCode code) {
  return !result && result.error().code == code;
}

Bytes size_item(std::uint64_t size) {
  Bytes item(8);
  for (unsigned i = 0; i < 8; ++i) item[i] = static_cast<std::byte>(size >> (8 * i));
  return item;
}

std::uint64_t last_of(const SampleObject& object) { return std::max<std::uint64_t>(object.size(), 1) - 1; }

}  // namespace

RC_GTEST_PROP(Proof, any_range_of_any_object_verifies, (std::uint32_t seed)) {
  std::mt19937 random(seed);
  const std::size_t size = random() % (std::size_t{1} << (10 + random() % 13));
  const SampleObject object(size, seed);
  for (int run = 0; run < 4; ++run) {
    const std::uint64_t first = size == 0 ? 0 : random() % size;
    const std::uint64_t last = size == 0 ? 0 : first + random() % (size - first);
    const Bytes proof = object.prove(first, last);
    RC_ASSERT(verify(object, first, last, proof, 1 + random() % 100).has_value());
    RC_ASSERT(verify(object, first, last, proof, proof.size()).has_value());
  }
}

TEST(Proof, it_takes_no_more_groups_than_there_is_room_for) {
  const SampleObject object(5 * group_size + 1, 1);
  const auto read = [&](std::uint64_t first, std::uint64_t last, std::span<Hash> room) {
    ProofReader reader(object.hash.address, first, last, room);
    const auto used = reader.update(object.prove(first, std::min<std::uint64_t>(last, object.size() - 1)));
    if (used)
      for (std::uint64_t index = reader.groups().first; index < reader.groups().end; ++index)
        EXPECT_TRUE(reader.verify_group(index, object.group(index)));
    return used;
  };
  std::array<Hash, 6> room;
  EXPECT_TRUE(read(0, object.size() - 1, room));
  EXPECT_TRUE(fails_with(read(0, object.size() - 1, std::span(room).first(5)), ErrorCode::body_cap));
  EXPECT_TRUE(read(4 * group_size, ~std::uint64_t{0} >> 2, std::span(room).first(2)))
      << "what is beyond the object needs none";
}

TEST(Proof, range_reaches_as_far_as_the_object) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{5}, 5 * group_size + 1}) {
    const SampleObject object(size, 1);
    const Bytes proof = object.prove(0, last_of(object));
    EXPECT_TRUE(verify(object, 0, ~std::uint64_t{0}, proof, 64)) << size;
    ProofReader reader(object.hash.address, 0, ~std::uint64_t{0});
    EXPECT_EQ(reader.groups(), GroupSpan{});
    ASSERT_TRUE(reader.update(proof));
    EXPECT_EQ(reader.size(), size);
    EXPECT_EQ(reader.groups(), (GroupSpan{0, group_count(size)}));
  }
}

TEST(Proof, every_flipped_bit_of_a_proof_is_refused) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, chunk_size, group_size, group_size + 1,
                                 2 * group_size, 4 * group_size + 7, 17 * group_size}) {
    const SampleObject object(size, 2);
    // The last group belongs to the range, so the size is proved too.
    for (const std::uint64_t first : {std::uint64_t{0}, last_of(object) / 2, last_of(object)}) {
      Bytes proof = object.prove(first, last_of(object));
      ASSERT_TRUE(verify(object, first, last_of(object), proof, 1000));
      for (std::size_t bit = 0; bit < 8 * proof.size(); ++bit) {
        const std::byte mask = std::byte{1} << (bit % 8);
        proof[bit / 8] ^= mask;
        ASSERT_FALSE(verify(object, first, last_of(object), proof, 1000))
            << size << ' ' << first << ' ' << bit;
        ASSERT_FALSE(verify(object, first, ~std::uint64_t{0}, proof, 1000))
            << size << ' ' << first << ' ' << bit;
        proof[bit / 8] ^= mask;
      }
    }
  }
}

TEST(Proof, flipped_bits_of_a_large_proof_are_refused) {
  const SampleObject object(5 * part_size + 3 * group_size + 11, 3);
  Bytes proof = object.prove(0, object.size() - 1);
  std::mt19937 random(3);
  for (int run = 0; run < 400; ++run) {
    const std::size_t at = 8 + random() % (proof.size() - 8);
    const std::byte mask = std::byte{1} << (random() % 8);
    proof[at] ^= mask;
    ProofReader reader(object.hash.address, 0, object.size() - 1);
    ASSERT_TRUE(fails_with(reader.update(proof), ErrorCode::integrity)) << at;
    proof[at] ^= mask;
  }
}

TEST(Proof, every_flipped_bit_of_a_group_is_refused) {
  for (const std::size_t size : {std::size_t{1}, std::size_t{64}, chunk_size + 1, group_size + 70}) {
    const SampleObject object(size, 4);
    ProofReader reader(object.hash.address, last_of(object), last_of(object));
    ASSERT_TRUE(reader.update(object.prove(last_of(object), last_of(object))));
    const std::uint64_t index = group_count(size) - 1;
    Bytes group(object.group(index).begin(), object.group(index).end());
    for (std::size_t bit = 0; bit < 8 * group.size(); ++bit) {
      const std::byte mask = std::byte{1} << (bit % 8);
      group[bit / 8] ^= mask;
      ASSERT_FALSE(reader.verify_group(index, group)) << size << ' ' << bit;
      group[bit / 8] ^= mask;
    }
    ASSERT_TRUE(reader.verify_group(index, group));
  }
}

TEST(Proof, flipped_bits_of_full_groups_are_refused) {
  const SampleObject object(3 * group_size, 5);
  ProofReader reader(object.hash.address, 0, object.size() - 1);
  ASSERT_TRUE(reader.update(object.prove(0, object.size() - 1)));
  std::mt19937 random(5);
  for (int run = 0; run < 600; ++run) {
    const std::uint64_t index = random() % 3;
    Bytes group(object.group(index).begin(), object.group(index).end());
    const std::size_t at = random() % group.size();
    group[at] ^= std::byte{1} << (random() % 8);
    ASSERT_FALSE(reader.verify_group(index, group)) << index << ' ' << at;
  }
}

TEST(Proof, groups_count_only_at_their_own_place_and_length) {
  SampleObject object(2 * group_size + 100, 6);
  ProofReader reader(object.hash.address, 0, object.size() - 1);
  EXPECT_FALSE(reader.verify_group(0, object.group(0)));
  ASSERT_TRUE(reader.update(object.prove(0, object.size() - 1)));
  EXPECT_TRUE(reader.verify_group(2, object.group(2)));
  EXPECT_FALSE(reader.verify_group(0, object.group(1)));
  EXPECT_FALSE(reader.verify_group(2, object.group(2).first(99)));
  EXPECT_FALSE(reader.verify_group(0, object.group(0).first(group_size - 1)));
  EXPECT_FALSE(reader.verify_group(1, {}));
  EXPECT_FALSE(reader.verify_group(3, object.group(2)));
  EXPECT_FALSE(reader.verify_group(~std::uint64_t{0}, object.group(2)));

  ProofReader middle(object.hash.address, group_size, group_size);
  ASSERT_TRUE(middle.update(object.prove(group_size, group_size)));
  EXPECT_TRUE(middle.verify_group(1, object.group(1)));
  EXPECT_FALSE(middle.verify_group(0, object.group(0)));
  EXPECT_FALSE(middle.verify_group(2, object.group(2)));
}

// Whoever lies about the size is found out at the last group, whichever group the lie makes the last.
TEST(Proof, last_group_proves_the_size) {
  const SampleObject object(6 * group_size + 500, 7);
  const Bytes proof = object.prove(0, object.size() - 1);
  for (const std::uint64_t claim :
       {object.size() - 1, object.size() + 1, object.size() - 500, object.size() - 501, 7 * group_size,
        object.size() + group_size, 4 * group_size, 2 * group_size, group_size, std::uint64_t{0}}) {
    Bytes lie = proof;
    const Bytes item = size_item(claim);
    std::copy(item.begin(), item.end(), lie.begin());
    ProofReader reader(object.hash.address, 0, ~std::uint64_t{0});
    if (!reader.update(lie)) continue;
    if (!reader.done()) continue;
    const std::uint64_t index = group_count(claim) - 1;
    Bytes group(group_length(claim, index));
    const ByteView real = object.group(std::min<std::uint64_t>(index, 6));
    std::copy_n(real.begin(), std::min(group.size(), real.size()), group.begin());
    EXPECT_FALSE(reader.verify_group(index, group)) << claim;
  }
}

TEST(Proof, bytes_behind_a_proof_are_left) {
  const SampleObject object(3 * group_size, 8);
  Bytes stream = object.prove(0, 0);
  const std::size_t size = stream.size();
  stream.resize(size + 100);
  ProofReader reader(object.hash.address, 0, 0);
  EXPECT_EQ(reader.update(ByteView(stream).first(30)), 30u);
  EXPECT_FALSE(reader.done());
  EXPECT_EQ(reader.update(ByteView(stream).subspan(30)), size - 30);
  EXPECT_TRUE(reader.done());
  EXPECT_EQ(reader.update(stream), 0u);
  EXPECT_TRUE(reader.verify_group(0, object.group(0)));
}

TEST(Proof, short_proof_is_never_done) {
  const SampleObject object(9 * group_size, 9);
  const Bytes proof = object.prove(0, object.size() - 1);
  for (std::size_t size = 0; size < proof.size(); ++size) {
    ProofReader reader(object.hash.address, 0, object.size() - 1);
    ASSERT_EQ(reader.update(ByteView(proof).first(size)), size);
    ASSERT_FALSE(reader.done());
    ASSERT_FALSE(reader.verify_group(0, object.group(0)));
  }
}

TEST(Proof, impossible_and_too_large_claims_are_refused_at_once) {
  const Address address = hash_object({});
  const auto claim = [&address](std::uint64_t size, std::uint64_t first, std::uint64_t last) {
    ProofReader reader(address, first, last);
    return reader.update(size_item(size));
  };
  EXPECT_TRUE(fails_with(claim(object_size_max + 1, 0, 0), ErrorCode::malformed));
  EXPECT_TRUE(fails_with(claim(~std::uint64_t{0}, 0, 0), ErrorCode::malformed));
  EXPECT_EQ(claim(object_size_max, 0, 0), 8u);
  EXPECT_EQ(claim(object_size_max, object_size_max - 1, ~std::uint64_t{0}), 8u);
  EXPECT_TRUE(fails_with(claim(object_size_max, 0, ~std::uint64_t{0}), ErrorCode::body_cap));
  EXPECT_EQ(claim(object_size_max, 0, proof_groups_max * group_size - 1), 8u);
  EXPECT_TRUE(fails_with(claim(object_size_max, 0, proof_groups_max * group_size), ErrorCode::body_cap));
  EXPECT_TRUE(fails_with(claim(10, 10, 10), ErrorCode::integrity));
  EXPECT_TRUE(fails_with(claim(0, 1, 1), ErrorCode::integrity));
}

TEST(Proof, error_stays) {
  const SampleObject object(2 * group_size, 10);
  const Bytes good = object.prove(0, 0);
  Bytes bad = good;
  bad[8] ^= std::byte{1};
  ProofReader reader(object.hash.address, 0, 0);
  EXPECT_TRUE(fails_with(reader.update(bad), ErrorCode::integrity));
  EXPECT_TRUE(fails_with(reader.update(good), ErrorCode::integrity));
  EXPECT_TRUE(fails_with(reader.update({}), ErrorCode::integrity));
  EXPECT_FALSE(reader.done());
  EXPECT_FALSE(reader.verify_group(0, object.group(0)));
}

}  // namespace cairn::crypto
