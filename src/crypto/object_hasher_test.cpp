#include "crypto/object_hasher.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <set>

#include "crypto/sample_object.h"

namespace cairn::crypto {
namespace {

constexpr std::size_t size_max = 10 * part_size + 2;

const Bytes& material() {
  static const Bytes bytes = sample_bytes(size_max, 7);
  return bytes;
}

// What the official implementation says.
Address hash_officially(ByteView bytes) {
  blake3_hasher hasher;
  blake3_hasher_init(&hasher);
  blake3_hasher_update(&hasher, bytes.data(), bytes.size());
  Address address;
  blake3_hasher_finalize(&hasher, reinterpret_cast<std::uint8_t*>(address.bytes.data()), 32);
  return address;
}

// Every edge of chunk, run, group, part and tree, and its neighbours.
std::set<std::size_t> edges() {
  std::set<std::size_t> sizes;
  const auto add = [&sizes](std::size_t unit, std::size_t count) {
    for (const std::size_t size : {unit * count - 1, unit * count, unit * count + 1})
      if (size <= size_max) sizes.insert(size);
  };
  sizes.insert(0);
  for (std::size_t chunks = 1; chunks <= 66; ++chunks) add(chunk_size, chunks);
  for (std::size_t groups = 1; groups <= 34; ++groups) add(group_size, groups);
  for (std::size_t parts = 1; parts <= 10; ++parts) add(part_size, parts);
  return sizes;
}

// Slices of very different sizes, often ending at an edge or empty.
class Slicer {
 public:
  explicit Slicer(std::uint32_t seed) : random_(seed) {}
  std::size_t next(std::size_t at, std::size_t left) {
    static constexpr std::size_t scales[] = {1, 64, chunk_size, 8 * chunk_size, group_size, 4 * group_size};
    const std::size_t scale = scales[std::max(floor_, random_() % std::size(scales))];
    std::size_t size = random_() % (2 * scale);
    if (random_() % 3 == 0) size = scale - at % scale;
    return std::min(size, left);
  }
  // Slices of a few bytes are for small objects.
  void set_floor(std::size_t floor) { floor_ = floor; }

 private:
  std::mt19937 random_;
  std::size_t floor_ = 0;
};

template <class Hasher>
void feed(Hasher& hasher, ByteView bytes, Slicer& slicer) {
  slicer.set_floor(bytes.size() > 4 * group_size ? 3 : 0);
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t size = slicer.next(at, bytes.size() - at);
    hasher.update(bytes.subspan(at, size));
    at += size;
  }
}

}  // namespace

TEST(ObjectHasher, any_slicing_gives_the_official_hash) {
  Slicer slicer(1);
  for (const std::size_t size : edges()) {
    const ByteView bytes = ByteView(material()).first(size);
    const Address expected = hash_officially(bytes);
    ASSERT_EQ(hash_object(bytes), expected) << size;
    ObjectHasher whole;
    whole.update(bytes);
    ASSERT_EQ(whole.finish().address, expected) << size;
    for (int run = 0; run < (size < part_size ? 3 : 1); ++run) {
      ObjectHasher hasher;
      feed(hasher, bytes, slicer);
      EXPECT_EQ(hasher.size(), size);
      const ObjectHash hash = hasher.finish();
      ASSERT_EQ(hash.address, expected) << size;
      ASSERT_EQ(hash.size, size);
    }
  }
}

TEST(ObjectHasher, single_bytes_give_the_official_hash) {
  for (const std::size_t size : {chunk_size, 8 * chunk_size, group_size, group_size + 1}) {
    const ByteView bytes = ByteView(material()).first(size);
    ObjectHasher hasher;
    for (std::size_t i = 0; i < size; ++i) hasher.update(bytes.subspan(i, 1));
    EXPECT_EQ(hasher.finish().address, hash_officially(bytes)) << size;
  }
}

TEST(ObjectHasher, groups_are_the_leaves_of_the_address) {
  Slicer slicer(2);
  for (const std::size_t size : edges()) {
    if (size > 3 * part_size + 1) break;
    const ByteView bytes = ByteView(material()).first(size);
    ObjectHasher hasher;
    feed(hasher, bytes, slicer);
    const ObjectHash hash = hasher.finish();
    ASSERT_EQ(hash.groups.size(), group_count(size)) << size;
    for (std::size_t i = 0; i < hash.groups.size(); ++i)
      ASSERT_EQ(hash.groups[i],
                hash_group(bytes.subspan(i * group_size, group_length(size, i)), i, hash.groups.size() == 1))
          << size << ' ' << i;
    ASSERT_EQ(merge_all(hash.groups, true), hash.address.bytes) << size;
  }
}

TEST(PartHasher, parts_hashed_in_any_order_merge_to_the_address) {
  std::mt19937 random(3);
  for (const std::size_t size : edges()) {
    const ByteView bytes = ByteView(material()).first(size);
    std::vector<std::size_t> order(part_count(size));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    std::vector<Hash> parts(order.size()), groups(group_count(size));
    for (const std::size_t index : order) {
      const std::size_t length = std::min(part_size, size - index * part_size);
      const PartHash part = hash_part(bytes.subspan(index * part_size, length), index, order.size() == 1);
      ASSERT_EQ(part.size, length);
      ASSERT_EQ(part.group_count, group_count(length)) << size;
      parts[index] = part.hash;
      for (unsigned i = 0; i < part.group_count; ++i) groups[index * groups_per_part + i] = part.groups[i];
    }
    const Address expected = hash_officially(bytes);
    ASSERT_EQ(merge_all(parts, true), expected.bytes) << size;
    ASSERT_EQ(merge_all(groups, true), expected.bytes) << size;
  }
}

TEST(PartHasher, first_part_knows_its_address_should_it_be_alone) {
  for (const std::size_t size : edges()) {
    if (size > part_size) break;
    const ByteView bytes = ByteView(material()).first(size);
    const PartHash part = hash_part(bytes, 0, false), whole = hash_part(bytes, 0, true);
    ASSERT_EQ(part.alone, hash_officially(bytes).bytes) << size;
    ASSERT_EQ(whole.alone, part.alone) << size;
    ASSERT_EQ(whole.hash, part.alone) << size;
    ASSERT_NE(part.hash, part.alone) << size;
  }
}

}  // namespace cairn::crypto
