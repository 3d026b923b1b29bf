#include "serve/authorizer.h"

#include <gtest/gtest.h>

#include "http/h1/parser.h"
#include "serve/simulated_node.h"

namespace cairn::serve {
namespace {

crypto::RootKey other_key(std::uint8_t fill) {
  std::array<std::byte, 40> entropy{};
  entropy.fill(std::byte{fill});
  return crypto::make_root_key(entropy, {1'767'225'600'000});
}

struct Fixture {
  Authorizer authorizer{std::make_shared<const KeySnapshot>(1, crypto::KeyRing(sample_root_key()))};

  Result<> ask(const std::string& fields, std::string_view op = "sample.write") {
    const std::string text = "GET / HTTP/1.1\r\nHost: h\r\n" + fields + "\r\n";
    http::RequestParser parser{http::HeadLimits{}};
    CHECK(parser.parse(text).progress == http::Progress::complete);
    TRY(const Principal* who,
        authorizer.authorize(parser.head.fields, {.op = op, .service = "sample", .bytes = 0}));
    principal = *who;
    return {};
  }
  Principal principal;  // of the last that was allowed
  ErrorCode code(const std::string& fields, std::string_view op = "sample.write") {
    const Result<> result = ask(fields, op);
    return result ? ErrorCode::ok : result.error().code;
  }
};

TEST(Authorizer, a_token_is_known_by_what_no_narrowing_changes_and_by_its_tenant) {
  Fixture f;
  ASSERT_EQ(f.code(bearer({}, 5)), ErrorCode::ok);
  const Ulid nonce = f.principal.nonce;
  const std::string name = f.principal.name;
  EXPECT_EQ(f.principal.key_id(), sample_root_key().id);
  EXPECT_EQ(name.size(), sample_root_key().id.size() + 1 + 16);
  EXPECT_NE(nonce, Ulid{});
  EXPECT_EQ(f.principal.tenant, "");
  ASSERT_EQ(f.code(bearer({"op = sample.write", "tenant = home"}, 5)), ErrorCode::ok);
  EXPECT_EQ(f.principal.nonce, nonce);
  EXPECT_EQ(f.principal.name, name);
  EXPECT_EQ(f.principal.tenant, "home");
  ASSERT_EQ(f.code(bearer({}, 6)), ErrorCode::ok);
  EXPECT_NE(f.principal.nonce, nonce);
  EXPECT_NE(f.principal.name, name);
}

TEST(Authorizer, the_scheme_is_bearer_in_any_case_and_nothing_else) {
  Fixture f;
  const std::string token = bearer().substr(22);
  EXPECT_EQ(f.code("Authorization: Bearer " + token), ErrorCode::ok);
  EXPECT_EQ(f.code("authorization: bearer   " + token), ErrorCode::ok);
  EXPECT_EQ(f.code("Authorization: BEARER " + token), ErrorCode::ok);
  for (const std::string& wrong :
       {std::string(), std::string("Authorization: Bearer\r\n"), "Authorization: Bearer" + token,
        "Authorization: Token " + token, "Authorization: " + token, "Cookie: Bearer " + token,
        "Authorization: Bearer " + token + "Authorization: Bearer " + token})
    EXPECT_EQ(f.code(wrong), ErrorCode::unauthorized) << wrong;
}

TEST(Authorizer, a_token_is_verified_once_and_its_caveats_every_time) {
  Fixture f;
  const std::string token = bearer({"op = sample.write"});
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(f.code(token), ErrorCode::ok);
    EXPECT_EQ(f.code(token, "sample.read"), ErrorCode::forbidden);
  }
  EXPECT_EQ(f.authorizer.verified(), 1u);
}

TEST(Authorizer, a_token_that_differs_in_one_character_is_another_one) {
  Fixture f;
  const std::string token = bearer();
  ASSERT_EQ(f.code(token), ErrorCode::ok);
  for (std::size_t i = 22; i + 2 < token.size(); ++i) {
    std::string changed = token;
    changed[i] = changed[i] == 'A' ? 'B' : 'A';
    EXPECT_EQ(f.code(changed), ErrorCode::unauthorized) << i;
  }
}

TEST(Authorizer, more_tokens_than_it_remembers_are_all_judged_right) {
  Fixture f;
  for (int round = 0; round < 3; ++round)
    for (std::uint64_t i = 0; i < 200; ++i) {
      const std::string op = i % 2 == 0 ? "sample.write" : "sample.read";
      EXPECT_EQ(f.code(bearer({"op = " + op}, i)), i % 2 == 0 ? ErrorCode::ok : ErrorCode::forbidden);
    }
}

TEST(Authorizer, new_keys_void_what_was_remembered) {
  Fixture f;
  ASSERT_EQ(f.code(bearer()), ErrorCode::ok);
  crypto::KeyRing ring{sample_root_key()};
  ASSERT_TRUE(ring.revoke(sample_root_key().id).has_value());
  f.authorizer.take_keys(std::make_shared<const KeySnapshot>(3, ring));
  EXPECT_EQ(f.code(bearer()), ErrorCode::unauthorized);
  // Keys of an earlier moment that come late do not bring it back.
  f.authorizer.take_keys(std::make_shared<const KeySnapshot>(2, crypto::KeyRing(sample_root_key())));
  EXPECT_EQ(f.code(bearer()), ErrorCode::unauthorized);
  EXPECT_EQ(f.authorizer.version(), 3u);
}

TEST(Authorizer, keys_that_are_rotated_keep_the_tokens_of_the_older_ones) {
  Fixture f;
  crypto::KeyRing ring{sample_root_key()};
  ASSERT_TRUE(ring.rotate(other_key(9)).has_value());
  f.authorizer.take_keys(std::make_shared<const KeySnapshot>(2, ring));
  EXPECT_EQ(f.code(bearer()), ErrorCode::ok);
}

}  // namespace
}  // namespace cairn::serve
