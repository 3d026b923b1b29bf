#include "crypto/pem.h"

#include <gtest/gtest.h>

namespace cairn::crypto {
namespace {

// As OpenSSL 3.0 writes the first key of RFC 8032's section 7.1.
constexpr std::string_view private_text =
    "-----BEGIN PRIVATE KEY-----\n"
    "MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n"
    "-----END PRIVATE KEY-----\n";
constexpr std::string_view public_text =
    "-----BEGIN PUBLIC KEY-----\n"
    "MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n"
    "-----END PUBLIC KEY-----\n";
constexpr const char* seed_hex = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
constexpr const char* public_hex = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out(text);
  for (std::size_t at = 0; (at = out.find(from, at)) != std::string::npos; at += to.size())
    out.replace(at, from.size(), to);
  return out;
}

TEST(Pem, private_key_is_read_and_written_as_openssl_does) {
  auto key = parse_private_pem(private_text);
  ASSERT_TRUE(key) << key.error().context;
  EXPECT_EQ(format_hex(key->reveal_seed()), seed_hex);
  EXPECT_EQ(format_hex(key->public_key()), public_hex);
  EXPECT_EQ(format_private_pem(*key), private_text);
}

TEST(Pem, public_key_is_read_and_written_as_openssl_does) {
  auto key = parse_public_pem(public_text);
  ASSERT_TRUE(key) << key.error().context;
  EXPECT_EQ(format_hex(*key), public_hex);
  EXPECT_EQ(format_public_pem(*key), public_text);
}

TEST(Pem, line_ends_of_other_systems_and_none_at_the_end_are_read) {
  EXPECT_TRUE(parse_private_pem(replaced(private_text, "\n", "\r\n")));
  EXPECT_TRUE(parse_public_pem(replaced(public_text, "\n", "\r\n")));
  EXPECT_TRUE(parse_public_pem(public_text.substr(0, public_text.size() - 1)));
}

TEST(Pem, anything_else_is_refused) {
  for (const std::string& text :
       {std::string(), std::string(public_text), "\n" + std::string(private_text),
        std::string(private_text) + "\n", std::string(private_text) + std::string(private_text),
        replaced(private_text, "PRIVATE", "EC PRIVATE"), replaced(private_text, "MC4", "MC5"),
        replaced(private_text, "rn9g", "rn9"), replaced(private_text, "rn9g", "rn9gAAAA"),
        replaced(private_text, "/", "_"), replaced(private_text, "rn9g", "rn9="),
        replaced(private_text, "-----END", "----END"),
        // The same bytes as a key of X25519.
        replaced(private_text, "K2Vw", "K2Vu")}) {
    auto key = parse_private_pem(text);
    ASSERT_FALSE(key) << text;
    EXPECT_EQ(key.error().code, ErrorCode::malformed);
  }
  for (const std::string& text :
       {std::string(private_text), replaced(public_text, "=", ""), replaced(public_text, "o=", "p="),
        replaced(public_text, "o=", "=="), replaced(public_text, "=", "A")})
    EXPECT_FALSE(parse_public_pem(text)) << text;
}

TEST(Pem, every_cut_is_refused) {
  for (std::size_t size = 0; size + 1 < private_text.size(); ++size)
    EXPECT_FALSE(parse_private_pem(private_text.substr(0, size))) << size;
  for (std::size_t size = 0; size + 1 < public_text.size(); ++size)
    EXPECT_FALSE(parse_public_pem(public_text.substr(0, size))) << size;
}

}  // namespace
}  // namespace cairn::crypto
