#include "crypto/hmac.h"

#include <gtest/gtest.h>

#include <new>
#include <string>

#include "crypto/secret_bytes.h"

namespace cairn::crypto {
namespace {

std::string hmac_hex(std::string_view key, std::string_view message) {
  return format_hex(hmac_sha256(as_bytes(key), as_bytes(message)));
}

// RFC 4231, and one with neither key nor message.
TEST(Hmac, known_answers) {
  EXPECT_EQ(hmac_hex(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hmac_hex("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hmac_hex(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(hmac_hex("", ""), "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

TEST(Hmac, equality_sees_every_byte_and_the_length) {
  const std::string text = "thirty-two bytes of a signature.";
  EXPECT_TRUE(equal_constant_time(as_bytes(text), as_bytes(std::string(text))));
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string other = text;
    other[i] ^= 1;
    EXPECT_FALSE(equal_constant_time(as_bytes(text), as_bytes(other))) << i;
  }
  EXPECT_FALSE(equal_constant_time(as_bytes(text), as_bytes(text).first(31)));
  EXPECT_TRUE(equal_constant_time({}, {}));
}

TEST(SecretBytes, nothing_is_left_behind) {
  std::array<std::byte, 32> bytes;
  bytes.fill(std::byte{0x5a});
  alignas(SecretBytes<32>) std::array<std::byte, sizeof(SecretBytes<32>)> place;
  auto* secret = new (place.data()) SecretBytes<32>(bytes);
  EXPECT_EQ(format_hex(secret->reveal()), format_hex(bytes));
  secret->~SecretBytes<32>();
  EXPECT_EQ(format_hex(place), std::string(2 * sizeof place, '0'));
}

}  // namespace
}  // namespace cairn::crypto
