#include "crypto/sha256.h"

#include <gtest/gtest.h>

#include <string>

namespace cairn::crypto {
namespace {

TEST(Sha256, known_answers) {
  // FIPS 180-4's examples and the million letters.
  const std::pair<std::string, const char*> answers[] = {
      {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
      {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
      {std::string(1'000'000, 'a'), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
  };
  for (const auto& [text, hash] : answers) EXPECT_EQ(format_hex(sha256(as_bytes(text))), hash);
}

TEST(Sha256, slices_give_the_hash_of_the_whole) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>(i);
  for (std::size_t slice : {1u, 3u, 63u, 64u, 65u, 128u, 299u}) {
    Sha256 hasher;
    for (std::size_t at = 0; at < text.size(); at += slice) hasher.update(as_bytes(text.substr(at, slice)));
    EXPECT_EQ(hasher.finish(), sha256(as_bytes(text))) << slice;
  }
}

TEST(Sha256, more_may_follow_a_finish) {
  Sha256 hasher;
  hasher.update(as_bytes("a"));
  EXPECT_EQ(hasher.finish(), sha256(as_bytes("a")));
  hasher.update(as_bytes("bc"));
  EXPECT_EQ(hasher.finish(), sha256(as_bytes("abc")));
}

}  // namespace
}  // namespace cairn::crypto
