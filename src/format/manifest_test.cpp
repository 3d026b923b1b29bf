#include "format/manifest.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "crypto/blake3.h"

namespace cairn::format {
namespace {

ManifestEntry entry(std::string path) {
  const Address address = crypto::hash_object(as_bytes(path));
  return {std::move(path), address, 7, "text/plain"};
}
Manifest directory(std::initializer_list<std::string> paths) {
  Manifest manifest;
  for (const std::string& path : paths) manifest.entries.push_back(entry(path));
  return manifest;
}

TEST(Manifest, order_of_entries_does_not_change_the_bytes) {
  const auto one = encode_manifest(directory({"a", "b/c", "a-b"}));
  const auto other = encode_manifest(directory({"b/c", "a-b", "a"}));
  ASSERT_TRUE(one && other);
  EXPECT_EQ(*one, *other);
}

TEST(Manifest, what_was_encoded_decodes_to_the_same) {
  Manifest manifest = directory({"a", "ü/ß", "z.txt"});
  manifest.kind = ManifestKind::site;
  manifest.title = "A title";
  manifest.created = WallTime{1'700'000'000'000};
  manifest.previous = manifest.entries[0].address;
  const auto bytes = encode_manifest(manifest);
  ASSERT_TRUE(bytes);
  const auto back = decode_manifest(as_bytes(*bytes));
  ASSERT_TRUE(back) << back.error().context;
  std::ranges::sort(manifest.entries, {}, &ManifestEntry::path);
  EXPECT_EQ(*back, manifest);
}

TEST(Manifest, the_empty_directory_has_bytes_that_never_change) {
  const auto bytes = encode_manifest({});
  ASSERT_TRUE(bytes);
  EXPECT_EQ(format_hex(as_bytes(*bytes)), "a2646b696e64696469726563746f727967656e747269657380");
}

TEST(Manifest, paths_that_lead_out_are_refused) {
  for (const std::string& path :
       {std::string(""), std::string("/etc/passwd"), std::string(".."), std::string("a/../b"),
        std::string("./a"), std::string("a//b"), std::string("a/"), std::string("a\0b", 3),
        std::string("\xff"), std::string(256, 'a'), std::string("a/..")}) {
    EXPECT_FALSE(is_manifest_path(path)) << path;
    EXPECT_FALSE(encode_manifest(directory({path}))) << path;
  }
  for (const std::string path : {"...", "a/b", ".hidden", "a b", "..a", "ü"})
    EXPECT_TRUE(is_manifest_path(path)) << path;
}

TEST(Manifest, a_path_is_not_a_file_and_a_directory) {
  EXPECT_FALSE(encode_manifest(directory({"a", "a-b", "a/b"})));
  EXPECT_FALSE(encode_manifest(directory({"a", "a"})));
  EXPECT_TRUE(encode_manifest(directory({"a-b", "a/b", "a.b"})));
}

TEST(Manifest, every_cut_and_every_tail_is_refused) {
  const auto bytes = encode_manifest(directory({"a", "b/c"}));
  ASSERT_TRUE(bytes);
  for (std::size_t size = 0; size < bytes->size(); ++size)
    EXPECT_FALSE(decode_manifest(as_bytes(std::string_view(*bytes).substr(0, size)))) << size;
  EXPECT_FALSE(decode_manifest(as_bytes(*bytes + '\0')));
}

TEST(Manifest, entries_out_of_order_are_refused) {
  auto bytes = encode_manifest(directory({"a", "b"}));
  ASSERT_TRUE(bytes);
  const std::size_t at = bytes->find(
      "\x61"
      "a"
      "dsize");
  ASSERT_NE(at, std::string::npos);
  (*bytes)[at + 1] = 'c';
  EXPECT_FALSE(decode_manifest(as_bytes(*bytes)));
}

TEST(Manifest, an_unknown_key_is_refused) {
  std::string bytes = *encode_manifest({});
  const std::size_t at = bytes.find("kind");
  bytes.replace(at, 4, "king");
  EXPECT_FALSE(decode_manifest(as_bytes(bytes)));
}

TEST(Manifest, find_gives_an_entry_by_its_path) {
  const Manifest manifest = *decode_manifest(as_bytes(*encode_manifest(directory({"a", "b/c", "d"}))));
  ASSERT_NE(manifest.find("b/c"), nullptr);
  EXPECT_EQ(manifest.find("b/c")->path, "b/c");
  EXPECT_EQ(manifest.find("b"), nullptr);
}

}  // namespace
}  // namespace cairn::format
