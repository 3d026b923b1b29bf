#include "crypto/sha1.h"

#include <gtest/gtest.h>

#include <string>

namespace cairn::crypto {
namespace {

TEST(Sha1, known_answers) {
  // FIPS 180-4's examples.
  const std::pair<std::string, const char*> answers[] = {
      {"", "da39a3ee5e6b4b0d3255bfef95601890afd80709"},
      {"abc", "a9993e364706816aba3e25717850c26c9cd0d89d"},
      {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
       "84983e441c3bd26ebaae4aa1f95129e5e54670f1"},
  };
  for (const auto& [text, hash] : answers) EXPECT_EQ(format_hex(sha1(as_bytes(text))), hash);
}

}  // namespace
}  // namespace cairn::crypto
