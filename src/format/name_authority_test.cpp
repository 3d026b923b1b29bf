#include "format/name_authority.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>

#include "codec/base64.h"
#include "format/name.h"
#include "format/sample_registry.h"

namespace cairn::format {
namespace {

crypto::Ed25519PublicKey key_of(unsigned number) { return sample_key(number).public_key(); }

std::string authority(std::string_view prefix, unsigned number) {
  return sample_item(R"({"type":"name_authority","prefix":")" + std::string(prefix) + R"(","key":")" +
                     codec::encode_base64(key_of(number)) + R"("})");
}

NameAuthorities authorities(const std::vector<std::string>& items) {
  auto made = NameAuthorities::read(items);
  CHECK(made.has_value());
  return std::move(*made);
}

TEST(NameAuthorities, the_longest_prefix_decides) {
  const auto made =
      authorities({authority("docs/guide", 2), authority("docs", 1), authority("docs/guide/de/a", 3)});
  EXPECT_EQ(made.size(), 3u);
  EXPECT_EQ(made.find("docs"), key_of(1));
  EXPECT_EQ(made.find("docs/a"), key_of(1));
  EXPECT_EQ(made.find("docs/guide"), key_of(2));
  EXPECT_EQ(made.find("docs/guide/de"), key_of(2));
  EXPECT_EQ(made.find("docs/guide/de/a"), key_of(3));
  EXPECT_EQ(made.find("docs/guide/de/a/b/c"), key_of(3));
  EXPECT_EQ(made.find("docs/guide/de/b"), key_of(2));
  EXPECT_EQ(made.find("docs/z"), key_of(1));
}

TEST(NameAuthorities, a_prefix_covers_whole_segments) {
  // In the order of bytes `docs-x` and `docs.x` come between `docs` and what is below it.
  const auto made = authorities({authority("docs", 1), authority("docs-x", 2), authority("docs.x/y", 3)});
  EXPECT_EQ(made.find("docs2"), std::nullopt);
  EXPECT_EQ(made.find("doc"), std::nullopt);
  EXPECT_EQ(made.find("a"), std::nullopt);
  EXPECT_EQ(made.find("z"), std::nullopt);
  EXPECT_EQ(made.find("docs-x"), key_of(2));
  EXPECT_EQ(made.find("docs-xy"), std::nullopt);
  EXPECT_EQ(made.find("docs.x"), std::nullopt);
  EXPECT_EQ(made.find("docs/a"), key_of(1));
  EXPECT_EQ(made.find("docs/-x"), key_of(1));
  EXPECT_EQ(NameAuthorities().find("docs"), std::nullopt);
}

TEST(NameAuthorities, other_items_are_passed_over) {
  const auto made = authorities({sample_signer_set(1, {1}), sample_item(R"({"type":"region","id":"docs"})"),
                                 authority("maps", 4), sample_revocation(7)});
  EXPECT_EQ(made.size(), 1u);
  EXPECT_EQ(made.find("maps/eu"), key_of(4));
  EXPECT_EQ(made.find("docs"), std::nullopt);
  EXPECT_EQ(authorities({sample_signer_set(1, {1})}), NameAuthorities());
}

TEST(NameAuthorities, equal_when_the_same_prefixes_have_the_same_keys) {
  const std::string a = authority("a", 1), b = authority("a/b", 2), c = authority("c", 1);
  EXPECT_EQ(authorities({a, b, c}), authorities({c, sample_signer_set(1, {1}), b, a}));
  EXPECT_NE(authorities({a, b, c}), authorities({a, b}));
  EXPECT_NE(authorities({a, b}), authorities({a, authority("a/b", 3)}));
  EXPECT_NE(authorities({a, b}), authorities({a, authority("a/c", 2)}));
}

TEST(NameAuthorities, a_prefix_has_one_authority) {
  const auto twice = NameAuthorities::read(
      std::vector<std::string>{authority("a", 1), authority("a/b", 1), authority("a", 2)});
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().code, ErrorCode::malformed);
}

TEST(NameAuthorities, no_more_than_a_set_can_have) {
  std::vector<std::string> items;
  for (std::size_t i = 0; i < set_items_max; ++i) {
    std::string number = std::to_string(i);
    number.insert(0, 5 - number.size(), '0');
    items.push_back(i == 0 ? authority("n00000", 1) : items[0]);
    items.back().replace(items.back().find("n00000") + 1, 5, number);
  }
  const auto whole = authorities(items);
  EXPECT_EQ(whole.size(), set_items_max);
  EXPECT_EQ(whole.find("n65535/a"), key_of(1));
  EXPECT_EQ(whole.find("n65536"), std::nullopt);
  items.push_back(authority("one-more", 1));
  EXPECT_FALSE(NameAuthorities::read(items));
}

TEST(NameAuthority, what_is_no_such_item_is_malformed) {
  const std::string good = authority("docs", 1);
  const auto read = read_name_authority(as_bytes(good));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->prefix, "docs");
  EXPECT_EQ(read->key, key_of(1));
  for (const std::string& bad : {std::string(), good.substr(0, good.size() - 1), good + "x",
                                 sample_item(R"({"type":"region","id":"docs"})"), sample_revocation(1)})
    EXPECT_FALSE(read_name_authority(as_bytes(bad)));
}

// Few letters, and those that the order of bytes puts around the slash: many names cover each other.
rc::Gen<std::string> any_name() {
  return rc::gen::map(
      rc::gen::resize(5, rc::gen::nonEmpty(rc::gen::container<std::vector<std::string>>(rc::gen::elementOf(
                             std::vector<std::string>{"a", "b", "a-b", "a.b", "a0", "-", "a_"})))),
      [](const std::vector<std::string>& segments) {
        std::string name;
        for (const std::string& segment : segments) name += (name.empty() ? "" : "/") + segment;
        return name;
      });
}

RC_GTEST_PROP(NameAuthorities, find_is_what_looking_at_every_prefix_finds, ()) {
  auto prefixes = *rc::gen::container<std::vector<std::string>>(any_name());
  std::ranges::sort(prefixes);
  prefixes.erase(std::unique(prefixes.begin(), prefixes.end()), prefixes.end());
  std::vector<std::string> items;
  for (unsigned i = 0; i < prefixes.size(); ++i) items.push_back(authority(prefixes[i], i));
  const auto made = NameAuthorities::read(items);
  RC_ASSERT(made.has_value());
  const std::string name = *any_name();
  std::optional<unsigned> longest;
  for (unsigned i = 0; i < prefixes.size(); ++i)
    if (is_covered(name, prefixes[i]) && (!longest || prefixes[i].size() > prefixes[*longest].size()))
      longest = i;
  RC_ASSERT(made->find(name) == (longest ? std::optional(key_of(*longest)) : std::nullopt));
}

}  // namespace
}  // namespace cairn::format
