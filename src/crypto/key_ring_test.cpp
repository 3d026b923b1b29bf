#include "crypto/key_ring.h"

#include <gtest/gtest.h>
#include <sodium.h>

#include "codec/base64url.h"

namespace cairn::crypto {
namespace {

constexpr WallTime noon{1'769'860'800'000};
constexpr Ulid test_nonce{0x0192'a5b3'c4d5'e6f7, 0x0123'4567'89ab'cdef};

RootKey key_of(unsigned seed) {
  std::array<std::byte, 40> entropy;
  for (std::size_t i = 0; i < entropy.size(); ++i) entropy[i] = static_cast<std::byte>(i * 7 + seed);
  return make_root_key(entropy, noon);
}

// A file as somebody might have edited it, with a checksum that fits.
std::string file_of(std::string_view body, std::string_view version = "1.0") {
  std::array<std::byte, 32> digest;
  crypto_hash_sha256(reinterpret_cast<unsigned char*>(digest.data()),
                     reinterpret_cast<const unsigned char*>(body.data()), body.size());
  return "cairn-capability-root " + std::string(version) + " sha256:" + format_hex(digest) + "\n" +
         std::string(body);
}

const std::string line_one =
    "key 01080f161d242b32 2026-01-31T12:00:00Z active "
    "3940474e555c636a71787f868d949ba2a9b0b7bec5ccd3dae1e8eff6fd040b12\n";

ErrorCode code_of(const Result<>& result) { return result ? ErrorCode::ok : result.error().code; }

TEST(KeyRing, file_is_as_documented) {
  KeyRing ring(key_of(1));
  EXPECT_EQ(
      ring.format(),
      "cairn-capability-root 1.0 sha256:113f3148d52523c8abf58cb176e9951ceedf8fe3c138c1780a172219af70a76d\n" +
          line_one);
  auto read = KeyRing::parse(ring.format());
  ASSERT_TRUE(read) << read.error().context;
  EXPECT_EQ(read->format(), ring.format());
}

TEST(KeyRing, keys_states_and_order_survive_the_file) {
  KeyRing ring(key_of(1));
  ASSERT_TRUE(ring.rotate(key_of(2)));
  ASSERT_TRUE(ring.rotate(key_of(3)));
  ASSERT_TRUE(ring.revoke(key_of(2).id));
  auto read = KeyRing::parse(ring.format());
  ASSERT_TRUE(read);
  ASSERT_EQ(read->keys().size(), 3u);
  for (unsigned i = 0; i < 3; ++i) {
    EXPECT_EQ(read->keys()[i].id, key_of(i + 1).id);
    EXPECT_EQ(read->keys()[i].created, noon);
    EXPECT_EQ(read->keys()[i].revoked, i == 1);
    EXPECT_TRUE(equal_constant_time(read->keys()[i].secret.reveal(), key_of(i + 1).secret.reveal()));
  }
}

TEST(KeyRing, every_damaged_byte_is_an_error) {
  KeyRing ring(key_of(1));
  ASSERT_TRUE(ring.rotate(key_of(2)));
  const std::string text = ring.format();
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] ^= 1;
    auto read = KeyRing::parse(damaged);
    ASSERT_FALSE(read) << i;
    EXPECT_EQ(read.error().code, ErrorCode::malformed);
    EXPECT_FALSE(KeyRing::parse(std::string_view(text).substr(0, i))) << i;
  }
  EXPECT_FALSE(KeyRing::parse(text + "\n"));
}

TEST(KeyRing, edited_file_with_a_good_checksum_must_still_be_exact) {
  EXPECT_TRUE(KeyRing::parse(file_of(line_one)));
  const std::string start = line_one.substr(0, line_one.size() - 1);
  for (const std::string& body :
       {std::string(), line_one + line_one, line_one + "\n", start, start + " \n", start + " x\n",
        "# note\n" + line_one, std::string(line_one).replace(0, 3, "Key"),
        std::string(line_one).replace(4, 1, "A"), std::string(line_one).replace(40, 1, "+00:00"),
        std::string(line_one).replace(42, 6, "frozen"),
        std::string(line_one).replace(line_one.size() - 3, 1, "")}) {
    auto read = KeyRing::parse(file_of(body));
    ASSERT_FALSE(read) << body;
    EXPECT_EQ(read.error().code, ErrorCode::malformed);
  }
}

TEST(KeyRing, file_of_another_version_is_refused) {
  for (const char* version : {"2.0", "1.1", "0.9", "1", ""})
    EXPECT_STREQ(KeyRing::parse(file_of(line_one, version)).error().context,
                 "capability-root.key: written by another version")
        << version;
}

TEST(KeyRing, newest_key_that_is_not_revoked_mints) {
  KeyRing ring(key_of(1));
  EXPECT_EQ(ring.find_minting()->id, key_of(1).id);
  ASSERT_TRUE(ring.rotate(key_of(2)));
  EXPECT_EQ(ring.find_minting()->id, key_of(2).id);
  ASSERT_TRUE(ring.revoke(key_of(2).id));
  EXPECT_EQ(ring.find_minting()->id, key_of(1).id);
  ASSERT_TRUE(ring.revoke(key_of(1).id));
  EXPECT_EQ(ring.find_minting(), nullptr);
  ASSERT_TRUE(ring.rotate(key_of(3)));
  EXPECT_EQ(ring.find_minting()->id, key_of(3).id);
}

TEST(KeyRing, rotation_refuses_what_breaks_the_ring) {
  KeyRing ring(key_of(1));
  EXPECT_EQ(code_of(ring.rotate(key_of(1))), ErrorCode::conflict);
  RootKey revoked = key_of(2);
  revoked.revoked = true;
  EXPECT_EQ(code_of(ring.rotate(revoked)), ErrorCode::invalid);
  RootKey named = key_of(2);
  named.id = "0123456789ABCDEF";
  EXPECT_EQ(code_of(ring.rotate(named)), ErrorCode::invalid);
  RootKey timeless = key_of(2);
  timeless.created.ms = 253'402'300'800'000;  // the year 10000
  EXPECT_EQ(code_of(ring.rotate(timeless)), ErrorCode::invalid);
  for (unsigned i = 1; i < KeyRing::max_keys; ++i) ASSERT_TRUE(ring.rotate(key_of(i + 1)));
  RootKey extra = key_of(1);
  extra.id = "0123456789abcdef";
  EXPECT_EQ(code_of(ring.rotate(extra)), ErrorCode::invalid);
  EXPECT_TRUE(KeyRing::parse(ring.format()));
}

TEST(KeyRing, revoking_again_changes_nothing_and_unknown_ids_are_told) {
  KeyRing ring(key_of(1));
  EXPECT_EQ(code_of(ring.revoke("0000000000000000")), ErrorCode::not_found);
  EXPECT_EQ(code_of(ring.revoke("")), ErrorCode::not_found);
  ASSERT_TRUE(ring.revoke(key_of(1).id));
  const std::string once = ring.format();
  ASSERT_TRUE(ring.revoke(key_of(1).id));
  EXPECT_EQ(ring.format(), once);
}

class Authorize : public testing::Test {
 protected:
  KeyRing ring{key_of(1)};
  CapabilityRequest get{.op = "storage.get", .service = "storage", .now = noon};

  Macaroon minted(unsigned seed = 1) const { return mint(key_of(seed), "here.example", test_nonce); }
  std::string token(std::initializer_list<std::string> caveats) const {
    Macaroon macaroon = minted();
    for (const std::string& caveat : caveats) macaroon = attenuate(std::move(macaroon), caveat).value();
    return format_token(macaroon);
  }
  ErrorCode ask(std::string_view text) const { return code_of(authorize(ring, text, get)); }
};

TEST_F(Authorize, genuine_token_within_its_caveats_is_allowed) {
  EXPECT_EQ(ask(token({})), ErrorCode::ok);
  EXPECT_EQ(ask(token({"op = storage.get storage.put", "svc = storage"})), ErrorCode::ok);
}

TEST_F(Authorize, no_token_or_no_macaroon_is_unauthorized) {
  for (const char* text : {"", " ", "x", "letmein", "Bearer", "AgET", "====", "\xff\xff"})
    EXPECT_EQ(ask(text), ErrorCode::unauthorized) << text;
  EXPECT_EQ(ask(std::string(100'000, 'A')), ErrorCode::unauthorized);
}

TEST_F(Authorize, failed_caveats_are_forbidden) {
  EXPECT_EQ(ask(token({"op = storage.put"})), ErrorCode::forbidden);
  EXPECT_EQ(ask(token({"colour = red"})), ErrorCode::forbidden);
  EXPECT_EQ(ask(token({"expires < 2026-01-31T12:00:00Z"})), ErrorCode::forbidden);
  EXPECT_EQ(ask(token({"expires < 2026-01-31T12:00:00.001Z"})), ErrorCode::ok);
}

TEST_F(Authorize, mac_is_judged_before_caveats) {
  Macaroon forged = attenuate(minted(), "op = storage.put").value();
  forged.signature[0] ^= std::byte{1};
  EXPECT_EQ(ask(format_token(forged)), ErrorCode::unauthorized);
}

TEST_F(Authorize, every_flipped_bit_of_a_token_is_unauthorized) {
  const std::string whole = token({"op = storage.get", "expires < 2026-02-01T00:00:00Z"});
  ASSERT_EQ(ask(whole), ErrorCode::ok);
  const std::string bytes = codec::decode_base64url(whole).value();
  for (std::size_t i = 0; i < bytes.size(); ++i)
    for (unsigned bit = 0; bit < 8; ++bit) {
      std::string tampered = bytes;
      tampered[i] = static_cast<char>(tampered[i] ^ (1 << bit));
      EXPECT_EQ(ask(codec::encode_base64url(as_bytes(tampered))), ErrorCode::unauthorized) << i << ' ' << bit;
    }
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string tampered = whole;
    tampered[i] = tampered[i] == 'A' ? 'B' : 'A';
    EXPECT_EQ(ask(tampered), ErrorCode::unauthorized) << i;
    EXPECT_EQ(ask(whole.substr(0, i)), ErrorCode::unauthorized) << i;
  }
}

TEST_F(Authorize, location_cannot_be_changed_or_left_out) {
  Macaroon moved = minted();
  moved.location = "there.example";
  EXPECT_EQ(ask(format_token(moved)), ErrorCode::unauthorized);
  moved.location.clear();
  EXPECT_EQ(ask(format_token(moved)), ErrorCode::unauthorized);
}

TEST_F(Authorize, revoked_key_voids_its_tokens_and_no_others) {
  ASSERT_TRUE(ring.rotate(key_of(2)));
  const std::string old_token = format_token(minted(1));
  const std::string new_token = format_token(minted(2));
  EXPECT_EQ(ask(old_token), ErrorCode::ok);
  EXPECT_EQ(ask(new_token), ErrorCode::ok);
  ASSERT_TRUE(ring.revoke(key_of(1).id));
  EXPECT_EQ(ask(old_token), ErrorCode::unauthorized);
  EXPECT_EQ(ask(new_token), ErrorCode::ok);
  EXPECT_EQ(code_of(authorize(KeyRing::parse(ring.format()).value(), old_token, get)),
            ErrorCode::unauthorized);
}

TEST_F(Authorize, unknown_key_revoked_key_and_bad_mac_have_one_answer) {
  Macaroon bad_mac = minted();
  bad_mac.signature[31] ^= std::byte{0x80};
  auto wrong = authorize(ring, format_token(bad_mac), get);
  auto unknown = authorize(ring, format_token(minted(9)), get);
  ASSERT_TRUE(ring.revoke(key_of(1).id));
  auto revoked = authorize(ring, format_token(minted()), get);
  ASSERT_FALSE(wrong || unknown || revoked);
  for (const Error& error : {wrong.error(), unknown.error(), revoked.error()}) {
    EXPECT_EQ(error, wrong.error());
    EXPECT_STREQ(error.context, wrong.error().context);
    EXPECT_EQ(error.side, Side::client);
  }
}

// What an unknown id is checked against must not be a key.
TEST_F(Authorize, key_of_zeros_opens_nothing) {
  RootKey zeros = key_of(9);
  zeros.secret = {};
  EXPECT_EQ(ask(format_token(mint(zeros, "here.example", test_nonce))), ErrorCode::unauthorized);
  Macaroon foreign = minted();
  foreign.identifier = "keyid";
  EXPECT_EQ(ask(format_token(foreign)), ErrorCode::unauthorized);
}

TEST_F(Authorize, third_party_caveat_under_a_good_mac_is_forbidden) {
  Macaroon macaroon = minted();
  Caveat caveat{"who are you", "https://other.example", "opaque vid"};
  const std::string both = std::string(as_text(hmac_sha256(macaroon.signature, as_bytes(caveat.vid)))) +
                           std::string(as_text(hmac_sha256(macaroon.signature, as_bytes(caveat.text))));
  macaroon.signature = hmac_sha256(macaroon.signature, as_bytes(both));
  macaroon.caveats.push_back(caveat);
  EXPECT_EQ(ask(format_token(macaroon)), ErrorCode::forbidden);
}

TEST_F(Authorize, no_error_shows_the_token) {
  for (const std::string& text : {token({"op = storage.put"}), token({"secretive = caveat"}),
                                  format_token(minted(9)), std::string("not-a-token-at-all")}) {
    auto result = authorize(ring, text, get);
    ASSERT_FALSE(result);
    const std::string_view context = result.error().context;
    for (std::string_view shown : {std::string_view(text).substr(0, 8), std::string_view("secretive"),
                                   std::string_view(key_of(1).id), std::string_view(key_of(9).id)})
      EXPECT_EQ(context.find(shown), std::string_view::npos) << context;
  }
}

TEST_F(Authorize, authenticate_gives_what_the_token_says) {
  auto macaroon = authenticate(ring, token({"tenant = home"}));
  ASSERT_TRUE(macaroon);
  EXPECT_EQ(find_tenant(*macaroon), "home");
  EXPECT_FALSE(authenticate(ring, ""));
}

}  // namespace
}  // namespace cairn::crypto
