#include "crypto/ed25519.h"

#include <gtest/gtest.h>

#include <string>

#include "crypto/sample_key.h"

namespace cairn::crypto {
namespace {

template <std::size_t N>
std::array<std::byte, N> from_hex(std::string_view hex) {
  std::array<std::byte, N> bytes{};
  EXPECT_TRUE(parse_hex_to(hex, bytes));
  return bytes;
}

struct Known {
  const char* seed;
  const char* public_key;
  std::string message;
  const char* signature;
};
// RFC 8032, section 7.1.
const Known known_answers[] = {
    {"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
     "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
     "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f"
     "0595bbe24655"
     "141438e7a100b"},
    {"c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
     "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "\xaf\x82",
     "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e"
     "9716ed28dc02"
     "7beceea1ec40a"},
};

TEST(Ed25519, known_answers) {
  for (const Known& known : known_answers) {
    const Ed25519Key key(from_hex<32>(known.seed));
    EXPECT_EQ(format_hex(key.public_key()), known.public_key);
    EXPECT_EQ(format_hex(key.reveal_seed()), known.seed);
    const Ed25519Signature signature = key.sign(as_bytes(known.message));
    EXPECT_EQ(format_hex(signature), known.signature);
    EXPECT_TRUE(verify_ed25519(key.public_key(), as_bytes(known.message), signature));
  }
}

TEST(Ed25519, every_flipped_bit_is_refused) {
  const Ed25519Key key(from_hex<32>(known_answers[1].seed));
  const std::string message = "a message";
  const Ed25519Signature signature = key.sign(as_bytes(message));
  ASSERT_TRUE(verify_ed25519(key.public_key(), as_bytes(message), signature));
  for (std::size_t bit = 0; bit < signature.size() * 8; ++bit) {
    Ed25519Signature other = signature;
    other[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    EXPECT_FALSE(verify_ed25519(key.public_key(), as_bytes(message), other)) << bit;
  }
  for (std::size_t bit = 0; bit < message.size() * 8; ++bit) {
    std::string other = message;
    other[bit / 8] = static_cast<char>(other[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(verify_ed25519(key.public_key(), as_bytes(other), signature)) << bit;
  }
  EXPECT_FALSE(verify_ed25519(Ed25519Key(from_hex<32>(known_answers[0].seed)).public_key(), as_bytes(message),
                              signature));
}

TEST(Ed25519, signature_has_one_accepted_form) {
  // S plus the group order satisfies the equation too; little-endian.
  const auto order = from_hex<32>("edd3f55c1a631258d69cf7a2def9de1400000000000000000000000000000010");
  const Ed25519Key key(from_hex<32>(known_answers[0].seed));
  Ed25519Signature signature = key.sign({});
  unsigned carry = 0;
  for (std::size_t i = 0; i < 32; ++i) {
    carry += std::to_integer<unsigned>(signature[32 + i]) + std::to_integer<unsigned>(order[i]);
    signature[32 + i] = static_cast<std::byte>(carry);
    carry >>= 8;
  }
  ASSERT_EQ(carry, 0u);
  EXPECT_FALSE(verify_ed25519(key.public_key(), {}, signature));
}

TEST(Ed25519, key_of_small_order_verifies_nothing) {
  // The neutral element as key and R with S = 0 satisfies the equation for every message.
  Ed25519PublicKey neutral{};
  neutral[0] = std::byte{1};
  Ed25519Signature signature{};
  signature[0] = std::byte{1};
  EXPECT_FALSE(verify_ed25519(neutral, as_bytes("anything"), signature));
}

TEST(Ed25519, only_keys_that_signers_have_are_keys) {
  for (const Known& known : known_answers) EXPECT_TRUE(is_ed25519_key(from_hex<32>(known.public_key)));
  for (unsigned i = 0; i < 256; ++i) {
    std::array<std::byte, 32> seed{};
    seed[0] = static_cast<std::byte>(i);
    EXPECT_TRUE(is_ed25519_key(Ed25519Key(seed).public_key())) << i;
  }
  for (const char* hex : sample_unusable_keys) EXPECT_FALSE(is_ed25519_key(from_hex<32>(hex))) << hex;
}

}  // namespace
}  // namespace cairn::crypto
