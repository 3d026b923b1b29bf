#include "crypto/macaroon.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

namespace cairn::crypto {
namespace {

RootKey test_key() {
  std::array<std::byte, 40> entropy;
  for (std::size_t i = 0; i < entropy.size(); ++i) entropy[i] = static_cast<std::byte>(i * 7 + 1);
  return make_root_key(entropy, WallTime{1'769'860'800'000});
}
constexpr Ulid test_nonce{0x0192'a5b3'c4d5'e6f7, 0x0123'4567'89ab'cdef};

Macaroon narrowed(Macaroon macaroon, std::initializer_list<std::string> caveats) {
  for (const std::string& caveat : caveats) macaroon = attenuate(std::move(macaroon), caveat).value();
  return macaroon;
}

std::string bytes_of(std::initializer_list<unsigned> values) {
  std::string bytes;
  for (unsigned value : values) bytes += static_cast<char>(value);
  return bytes;
}

bool decodes(std::string_view bytes) {
  auto macaroon = decode_macaroon(as_bytes(bytes));
  EXPECT_TRUE(macaroon || macaroon.error().code == ErrorCode::malformed);
  return macaroon.has_value();
}

// The vectors that the macaroon libraries share, all under the root key "this is the key".
struct Vector {
  const char* token;
  std::vector<std::string> caveats;
};
const Vector vectors[] = {
    {"AgETaHR0cDovL2V4YW1wbGUub3JnLwIFa2V5aWQAAAYgfN7nklEcW8b1KEhYBd_psk54XijiqZMB-dcRxgnjjvc", {}},
    {"AgETaHR0cDovL2V4YW1wbGUub3JnLwIFa2V5aWQAAhRhY2NvdW50ID0gMzczNTkyODU1OQAABiD1SAf23G7fiL8PcwazgiVio2JTPb9"
     "zOb"
     "phdl2kvSWdhw",
     {"account = 3735928559"}},
    {"AgETaHR0cDovL2V4YW1wbGUub3JnLwIFa2V5aWQAAhRhY2NvdW50ID0gMzczNTkyODU1OQACDHVzZXIgPSBhbGljZQAABiBL6WfNHqD"
     "Gsm"
     "uvakqU7psFsViG2guoXoxCqTyNDhJe_A",
     {"account = 3735928559", "user = alice"}},
};

TEST(Macaroon, shared_vectors_decode_verify_and_encode) {
  for (const Vector& vector : vectors) {
    auto macaroon = parse_token(vector.token);
    ASSERT_TRUE(macaroon) << macaroon.error().context;
    EXPECT_EQ(macaroon->location, "http://example.org/");
    EXPECT_EQ(macaroon->identifier, "keyid");
    ASSERT_EQ(macaroon->caveats.size(), vector.caveats.size());
    for (std::size_t i = 0; i < vector.caveats.size(); ++i) {
      EXPECT_EQ(macaroon->caveats[i].text, vector.caveats[i]);
      EXPECT_FALSE(macaroon->caveats[i].third_party());
    }
    EXPECT_TRUE(verify_signature(*macaroon, as_bytes("this is the key")));
    EXPECT_FALSE(verify_signature(*macaroon, as_bytes("this is not the key")));
    EXPECT_EQ(format_token(*macaroon), vector.token);
  }
}

TEST(Macaroon, attenuation_follows_the_shared_vectors) {
  auto first = parse_token(vectors[0].token).value();
  EXPECT_EQ(format_token(narrowed(first, {"account = 3735928559"})), vectors[1].token);
  EXPECT_EQ(format_token(narrowed(first, {"account = 3735928559", "user = alice"})), vectors[2].token);
}

TEST(Macaroon, third_party_caveat_decodes_and_is_in_the_chain) {
  // Computed with Python's hmac; pymacaroons reads it alike.
  const std::string token =
      "AgIFa2V5aWQAARVodHRwczovL290aGVyLmV4YW1wbGUCC3dobyBhcmUgeW91BApvcGFxdWUgdmlkAAAGIFEgjlWGQC0grir_"
      "xDhIPnbtpj1R"
      "hHIhbGzVxvQ4Yrq9";
  auto macaroon = parse_token(token).value();
  EXPECT_EQ(macaroon.location, "");
  ASSERT_EQ(macaroon.caveats.size(), 1u);
  EXPECT_EQ(macaroon.caveats[0], (Caveat{"who are you", "https://other.example", "opaque vid"}));
  EXPECT_TRUE(verify_signature(macaroon, as_bytes("this is the key")));
  EXPECT_EQ(format_token(macaroon), token);
  macaroon.caveats[0].vid += "x";
  EXPECT_FALSE(verify_signature(macaroon, as_bytes("this is the key")));
}

// The second token is what pymacaroons 0.13 made of the first.
TEST(Macaroon, minted_token_is_what_other_libraries_read_and_narrow) {
  const Macaroon minted = mint(test_key(), "storage.example", test_nonce);
  EXPECT_EQ(format_token(minted),
            "AgEPc3RvcmFnZS5leGFtcGxlAj52MSAwMTA4MGYxNjFkMjQyYjMyIDAxSkFKVjdINk5XVlZHMjhUNUNZNFRRS0ZGIHN0b3Jh"
            "Z2UuZXhh"
            "bXBsZQAABiBcIULKNAbLx6c_DTm22azJU2r76mH3K-ymPsZjC_48_A");
  EXPECT_EQ(
      format_token(narrowed(minted, {"op = storage.get storage.put", "expires < 2026-01-31T12:00:01Z"})),
      "AgEPc3RvcmFnZS5leGFtcGxlAj52MSAwMTA4MGYxNjFkMjQyYjMyIDAxSkFKVjdINk5XVlZHMjhUNUNZNFRRS0ZGIHN0b3JhZ2UuZX"
      "hh"
      "bXBsZQACHG9wID0gc3RvcmFnZS5nZXQgc3RvcmFnZS5wdXQAAh5leHBpcmVzIDwgMjAyNi0wMS0zMVQxMjowMDowMVoAAAYgYUtzhj"
      "la"
      "ZQWds88QKaQfoIyWVLm3900wYzIRNR6duFc");
}

TEST(Macaroon, identifier_has_one_spelling) {
  const std::string text = "v1 01080f161d242b32 01JAJV7H6NWVVG28T5CY4TQKFF storage.example";
  auto identifier = parse_identifier(text);
  ASSERT_TRUE(identifier);
  EXPECT_EQ(identifier->key_id, "01080f161d242b32");
  EXPECT_EQ(identifier->nonce, test_nonce);
  EXPECT_EQ(identifier->location, "storage.example");
  EXPECT_EQ(format_identifier(*identifier), text);
  for (const char* other :
       {"", "v1 ", "keyid", "v2 01080f161d242b32 01JAJV7H6NWVVG28T5CY4TQKFF storage.example",
        "v1 01080F161D242B32 01JAJV7H6NWVVG28T5CY4TQKFF storage.example",
        "v1 01080f161d242b32 01jajv7h6nwvvg28t5cy4tqkff storage.example",
        "v1 01080f161d242b32 01JAJV7H6NWVVG28T5CY4TQKFF ", "v1 01080f161d242b32 01JAJV7H6NWVVG28T5CY4TQKFF",
        "v1 01080f161d242b32  01JAJV7H6NWVVG28T5CY4TQKFF storage.example",
        "v1 01080f161d242b32 01JAJV7H6NWVVG28T5CY4TQKFF \xff"})
    EXPECT_FALSE(parse_identifier(other)) << other;
  EXPECT_FALSE(parse_identifier(text + std::string(max_location_bytes, 'x')));
}

TEST(Macaroon, order_of_caveats_is_part_of_the_signature) {
  const RootKey key = test_key();
  Macaroon macaroon = narrowed(mint(key, "here", test_nonce), {"op = storage.get", "svc = storage"});
  EXPECT_TRUE(verify_signature(macaroon, key.secret.reveal()));
  std::swap(macaroon.caveats[0], macaroon.caveats[1]);
  EXPECT_FALSE(verify_signature(macaroon, key.secret.reveal()));
}

TEST(Macaroon, caveat_cannot_be_taken_off) {
  const RootKey key = test_key();
  Macaroon macaroon = narrowed(mint(key, "here", test_nonce), {"op = storage.get", "svc = storage"});
  macaroon.caveats.pop_back();
  EXPECT_FALSE(verify_signature(macaroon, key.secret.reveal()));
}

TEST(Macaroon, encoding_other_than_the_shortest_is_refused) {
  const std::string signature = bytes_of({6, 32}) + std::string(32, 's');
  const std::string body = bytes_of({2, 2, 1, 'i', 0, 0});
  EXPECT_TRUE(decodes(body + signature));
  EXPECT_FALSE(decodes(body + signature + '\0')) << "something follows";
  EXPECT_FALSE(decodes(bytes_of({1}) + (body + signature).substr(1))) << "version";
  EXPECT_FALSE(decodes(bytes_of({2, 2, 0x81, 0, 'i', 0, 0}) + signature)) << "varint of two bytes for 1";
  EXPECT_FALSE(decodes(bytes_of({2, 2, 0x81, 0x80, 0, 'i', 0, 0}) + signature)) << "varint of three bytes";
  EXPECT_FALSE(decodes(bytes_of({2, 1, 0, 2, 1, 'i', 0, 0}) + signature)) << "empty location";
  EXPECT_FALSE(decodes(bytes_of({2, 2, 1, 'i', 1, 1, 'l', 0, 0}) + signature)) << "location after identifier";
  EXPECT_FALSE(decodes(bytes_of({2, 1, 1, 'l', 0, 0}) + signature)) << "no identifier";
  EXPECT_FALSE(decodes(bytes_of({2, 2, 1, 'i', 3, 1, 'x', 0, 0}) + signature)) << "unknown field";
  EXPECT_FALSE(decodes(bytes_of({2, 2, 1, 'i', 2, 1, 'i', 0, 0}) + signature)) << "identifier twice";
  EXPECT_TRUE(decodes(bytes_of({2, 2, 1, 'i', 0, 2, 1, 'c', 0, 0}) + signature));
  EXPECT_TRUE(decodes(bytes_of({2, 2, 1, 'i', 0, 1, 1, 'l', 2, 1, 'c', 4, 1, 'v', 0, 0}) + signature));
  EXPECT_FALSE(decodes(bytes_of({2, 2, 1, 'i', 0, 1, 1, 'l', 2, 1, 'c', 0, 0}) + signature))
      << "first party at l";
  EXPECT_FALSE(decodes(bytes_of({2, 2, 1, 'i', 0, 2, 1, 'c', 4, 0, 0, 0}) + signature)) << "empty vid";
  EXPECT_FALSE(decodes(bytes_of({2, 2, 1, 'i', 0, 2, 1, 'c', 0}) + signature)) << "caveats without an end";
  EXPECT_FALSE(decodes(body + bytes_of({6, 31}) + std::string(31, 's')));
  EXPECT_FALSE(decodes(body + bytes_of({6, 33}) + std::string(33, 's')));
}

TEST(Macaroon, every_cut_is_refused) {
  const std::string whole =
      encode_macaroon(narrowed(mint(test_key(), "here", test_nonce), {"op = storage.get", "svc = storage"}));
  EXPECT_TRUE(decodes(whole));
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_FALSE(decodes(std::string_view(whole).substr(0, size))) << size;
}

TEST(Macaroon, sixty_four_caveats_and_no_more) {
  Macaroon macaroon = mint(test_key(), "here", test_nonce);
  for (std::size_t i = 0; i < max_caveats; ++i)
    macaroon = attenuate(std::move(macaroon), "svc = storage").value();
  EXPECT_TRUE(parse_token(format_token(macaroon)));
  EXPECT_EQ(attenuate(macaroon, "svc = storage").error().code, ErrorCode::malformed);
  macaroon.caveats.push_back({"svc = storage"});
  EXPECT_EQ(parse_token(format_token(macaroon)).error().code, ErrorCode::malformed);
}

TEST(Macaroon, eight_kib_and_no_more) {
  const Macaroon macaroon = mint(test_key(), "here", test_nonce);
  // One caveat more costs its field, two bytes of length, and an end.
  const std::size_t room = max_macaroon_bytes - encode_macaroon(macaroon).size() - 4;
  auto largest = attenuate(macaroon, std::string(room, 'x'));
  ASSERT_TRUE(largest);
  EXPECT_EQ(encode_macaroon(*largest).size(), max_macaroon_bytes);
  EXPECT_EQ(parse_token(format_token(*largest)).value(), *largest);
  EXPECT_EQ(attenuate(macaroon, std::string(room + 1, 'x')).error().code, ErrorCode::malformed);
  Macaroon larger = *largest;
  larger.caveats[0].text += 'x';
  EXPECT_EQ(parse_token(format_token(larger)).error().code, ErrorCode::malformed);
  EXPECT_EQ(attenuate(macaroon, "").error().code, ErrorCode::malformed);
}

TEST(Macaroon, token_text_is_base64url_without_padding) {
  const std::string token = format_token(mint(test_key(), "here", test_nonce));
  EXPECT_TRUE(parse_token(token));
  EXPECT_FALSE(parse_token(""));
  EXPECT_FALSE(parse_token(token + "="));
  EXPECT_FALSE(parse_token(" " + token));
  EXPECT_FALSE(parse_token("Bearer " + token));
}

RC_GTEST_PROP(Macaroon, decoding_gives_back_what_was_encoded, ()) {
  auto small = rc::gen::scale(0.5, rc::gen::string<std::string>());
  Macaroon macaroon;
  macaroon.location = *small;
  macaroon.identifier = *small;
  for (bool third_party : *rc::gen::container<std::vector<bool>>(rc::gen::arbitrary<bool>())) {
    if (macaroon.caveats.size() == max_caveats) break;
    Caveat caveat{*small};
    if (third_party) caveat = {*small, *small, *rc::gen::nonEmpty(small)};
    macaroon.caveats.push_back(caveat);
  }
  for (std::byte& byte : macaroon.signature)
    byte = static_cast<std::byte>(*rc::gen::arbitrary<std::uint8_t>());
  const std::string bytes = encode_macaroon(macaroon);
  RC_PRE(bytes.size() <= max_macaroon_bytes);
  auto decoded = decode_macaroon(as_bytes(bytes));
  RC_ASSERT(decoded.has_value());
  RC_ASSERT(*decoded == macaroon);
}

RC_GTEST_PROP(Macaroon, what_decodes_encodes_to_the_same_bytes, ()) {
  std::string bytes =
      encode_macaroon(narrowed(mint(test_key(), "here", test_nonce), {"op = storage.get", "svc = storage"}));
  for (int edits = *rc::gen::inRange(1, 4); edits > 0; --edits) {
    const auto at = *rc::gen::inRange<std::size_t>(0, bytes.size());
    const auto value = *rc::gen::arbitrary<char>();
    switch (*rc::gen::inRange(0, 3)) {
      case 0:
        bytes[at] = value;
        break;
      case 1:
        bytes.insert(at, 1, value);
        break;
      default:
        bytes.erase(at, 1);
        break;
    }
  }
  auto decoded = decode_macaroon(as_bytes(bytes));
  if (decoded) RC_ASSERT(encode_macaroon(*decoded) == bytes);
}

}  // namespace
}  // namespace cairn::crypto
