#include "crypto/blake3.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string>
#include <string_view>

#include "crypto/object_hasher.h"
#include "crypto/sample_object.h"

namespace cairn::crypto {
namespace {

// The input of the official vectors: 0, 1, … 250, 0, 1, …
Bytes counting(std::size_t size) {
  Bytes bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i % 251);
  return bytes;
}

Hash official_key() {
  Hash key;
  const ByteView text = as_bytes("whats the Elvish word for friend");
  std::copy(text.begin(), text.end(), key.begin());
  return key;
}

void expect_known(std::size_t size, std::string_view hash, std::string_view keyed) {
  const Bytes input = counting(size);
  EXPECT_EQ(format_hex(hash_object(input).bytes), hash) << size;
  ObjectHasher hasher;
  hasher.update(input);
  EXPECT_EQ(format_hex(hasher.finish().address.bytes), hash) << size;
  EXPECT_EQ(format_hex(keyed_hash(official_key(), input)), keyed) << size;
}

// The first 64 hex digits behind `name` from `at` on: the vectors give more bytes than a hash has.
std::string_view digits_behind(std::string_view text, std::string_view name, std::size_t at) {
  at = text.find(name, at);
  return at == text.npos ? std::string_view() : text.substr(at + name.size(), 64);
}

// The tree as it is defined: the left side is the largest power of two that leaves something.
Hash merge_by_definition(std::span<const Hash> nodes, bool root) {
  if (nodes.size() == 1) return nodes[0];
  std::size_t left = 1;
  while (left * 2 < nodes.size()) left *= 2;
  return merge(merge_by_definition(nodes.first(left), false), merge_by_definition(nodes.subspan(left), false),
               root);
}

}  // namespace

TEST(Blake3, official_answers_are_met) {
  struct {
    std::size_t size;
    const char *hash, *keyed;
  } const rows[] = {
      {0, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
       "92b2b75604ed3c761f9d6f62392c8a9227ad0ea3f09573e783f1498a4ed60d26"},
      {1, "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213",
       "6d7878dfff2f485635d39013278ae14f1454b8c0a3a2d34bc1ab38228a80c95b"},
      {63, "e9bc37a594daad83be9470df7f7b3798297c3d834ce80ba85d6e207627b7db7b",
       "bb1eb5d4afa793c1ebdd9fb08def6c36d10096986ae0cfe148cd101170ce37ae"},
      {64, "4eed7141ea4a5cd4b788606bd23f46e212af9cacebacdc7d1f4c6dc7f2511b98",
       "ba8ced36f327700d213f120b1a207a3b8c04330528586f414d09f2f7d9ccb7e6"},
      {65, "de1e5fa0be70df6d2be8fffd0e99ceaa8eb6e8c93a63f2d8d1c30ecb6b263dee",
       "c0a4edefa2d2accb9277c371ac12fcdbb52988a86edc54f0716e1591b4326e72"},
      {1023, "10108970eeda3eb932baac1428c7a2163b0e924c9a9e25b35bba72b28f70bd11",
       "c951ecdf03288d0fcc96ee3413563d8a6d3589547f2c2fb36d9786470f1b9d6e"},
      {1024, "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7",
       "75c46f6f3d9eb4f55ecaaee480db732e6c2105546f1e675003687c31719c7ba4"},
      {1025, "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444",
       "357dc55de0c7e382c900fd6e320acc04146be01db6a8ce7210b7189bd664ea69"},
      {2048, "e776b6028c7cd22a4d0ba182a8bf62205d2ef576467e838ed6f2529b85fba24a",
       "879cf1fa2ea0e79126cb1063617a05b6ad9d0b696d0d757cf053439f60a99dd1"},
      {2049, "5f4d72f40d7a5f82b15ca2b2e44b1de3c2ef86c426c95c1af0b6879522563030",
       "9f29700902f7c86e514ddc4df1e3049f258b2472b6dd5267f61bf13983b78dd5"},
      {3072, "b98cb0ff3623be03326b373de6b9095218513e64f1ee2edd2525c7ad1e5cffd2",
       "044a0e7b172a312dc02a4c9a818c036ffa2776368d7f528268d2e6b5df191770"},
      {3073, "7124b49501012f81cc7f11ca069ec9226cecb8a2c850cfe644e327d22d3e1cd3",
       "68dede9bef00ba89e43f31a6825f4cf433389fedae75c04ee9f0cf16a427c95a"},
      {8192, "aae792484c8efe4f19e2ca7d371d8c467ffb10748d8a5a1ae579948f718a2a63",
       "dc9637c8845a770b4cbf76b8daec0eebf7dc2eac11498517f08d44c8fc00d58a"},
      {8193, "bab6c09cb8ce8cf459261398d2e7aef35700bf488116ceb94a36d0f5f1b7bc3b",
       "954a2a75420c8d6547e3ba5b98d963e6fa6491addc8c023189cc519821b4a1f5"},
      {31744, "62b6960e1a44bcc1eb1a611a8d6235b6b4b78f32e7abc4fb4c6cdcce94895c47",
       "efa53b389ab67c593dba624d898d0f7353ab99e4ac9d42302ee64cbf9939a419"},
      {102400, "bc3e3d41a1146b069abffad3c0d44860cf664390afce4d9661f7902e7943e085",
       "1c35d1a5811083fd7119f5d5d1ba027b4d01c0c6c49fb6ff2cf75393ea5db4a7"},
  };
  for (const auto& row : rows) expect_known(row.size, row.hash, row.keyed);
}

// All of the official file, where it lies beside the source tree.
TEST(Blake3, official_file_is_met) {
  const auto binary = std::filesystem::read_symlink("/proc/self/exe");  // ROOT/build/PRESET/NAME
  const auto root = binary.parent_path().parent_path().parent_path();
  std::ifstream file(root.parent_path() / "shared/data/blake3-test-vectors.json");
  if (!file) GTEST_SKIP() << "no file";
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const std::string_view length = "\"input_len\": ";
  int cases = 0;
  for (std::size_t at = text.find(length); at != text.npos; at = text.find(length, at + 1)) {
    expect_known(std::stoul(text.substr(at + length.size())), digits_behind(text, "\"hash\": \"", at),
                 digits_behind(text, "\"keyed_hash\": \"", at));
    ++cases;
  }
  EXPECT_GT(cases, 30);
}

TEST(Blake3, many_nodes_merge_as_the_tree_is_defined) {
  std::vector<Hash> nodes;
  for (std::uint32_t count = 1; count <= 1100; ++count) {
    const Bytes bytes = sample_bytes(sizeof(Hash), count);
    nodes.emplace_back();
    std::copy(bytes.begin(), bytes.end(), nodes.back().begin());
    if (count > 300 && count % 128 > 3 && count % 128 < 125) continue;
    ASSERT_EQ(merge_all(nodes, false), merge_by_definition(nodes, false)) << count;
    ASSERT_EQ(merge_all(nodes, true), merge_by_definition(nodes, true)) << count;
  }
}

TEST(Blake3, groups_hash_together_as_they_do_alone) {
  const Bytes bytes = sample_bytes(19 * group_size, 1);
  for (std::size_t count = 0; count <= 19; ++count) {
    // Counters beyond 32 bits too.
    const std::uint64_t first = count % 2 == 0 ? 3 : (std::uint64_t{1} << 45);
    std::vector<Hash> hashes(count);
    hash_groups(ByteView(bytes).first(count * group_size), first, hashes);
    for (std::size_t i = 0; i < count; ++i)
      EXPECT_EQ(hashes[i], hash_group(ByteView(bytes).subspan(i * group_size, group_size), first + i, false))
          << count << ' ' << i;
  }
}

TEST(Blake3, groups_differ_by_position_and_by_being_the_whole) {
  const Bytes bytes = sample_bytes(group_size, 2);
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, chunk_size, chunk_size + 1, group_size}) {
    const ByteView group = ByteView(bytes).first(size);
    EXPECT_NE(hash_group(group, 0, false), hash_group(group, 0, true)) << size;
    EXPECT_NE(hash_group(group, 0, false), hash_group(group, 1, false)) << size;
    EXPECT_EQ(hash_group(group, 0, true), hash_object(group).bytes) << size;
  }
  const Hash left = hash_group(bytes, 0, false), right = hash_group(bytes, 1, false);
  EXPECT_NE(merge(left, right, false), merge(left, right, true));
  EXPECT_NE(merge(left, right, false), merge(right, left, false));
}

RC_GTEST_PROP(Blake3, keyed_hash_is_the_same_in_slices,
              (std::vector<std::uint8_t> cuts, std::uint32_t seed)) {
  const Bytes key_bytes = sample_bytes(sizeof(Hash), seed + 1);
  Hash key;
  std::copy(key_bytes.begin(), key_bytes.end(), key.begin());
  const Bytes bytes = sample_bytes(std::accumulate(cuts.begin(), cuts.end(), std::size_t{0}), seed);
  KeyedHasher hasher(key);
  std::size_t at = 0;
  for (const std::uint8_t cut : cuts) {
    hasher.update(ByteView(bytes).subspan(at, cut));
    at += cut;
  }
  RC_ASSERT(hasher.finish() == keyed_hash(key, bytes));
  RC_ASSERT(hasher.finish() != hash_object(bytes).bytes);
  key[31] ^= std::byte{1};
  RC_ASSERT(hasher.finish() != keyed_hash(key, bytes));
}

}  // namespace cairn::crypto
