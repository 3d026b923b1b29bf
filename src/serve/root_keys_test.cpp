#include "serve/root_keys.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <thread>

namespace cairn::serve {
namespace {

crypto::RootKey key(std::uint8_t fill) {
  std::array<std::byte, 40> entropy{};
  entropy.fill(std::byte{fill});
  return crypto::make_root_key(entropy, {1'767'225'600'000});
}

class KeyFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = std::filesystem::temp_directory_path() / "cairn-keys-XXXXXX";
    directory_ = mkdtemp(name.data());
    path_ = directory_ + "/capability-root.key";
    ASSERT_TRUE(RootKeys::create(path_, crypto::KeyRing(key(1))).has_value());
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::unique_ptr<RootKeys> open() {
    auto opened = RootKeys::open(path_);
    CHECK(opened.has_value());
    return std::move(*opened);
  }
  std::string directory_, path_;
};

TEST_F(KeyFile, it_is_made_once_and_nobody_else_can_read_it) {
  struct stat about{};
  ASSERT_EQ(stat(path_.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600u);
  EXPECT_EQ(RootKeys::create(path_, crypto::KeyRing(key(2))).error().code, ErrorCode::conflict);
  EXPECT_NE(open()->current()->ring.find(key(1).id), nullptr);
}

TEST_F(KeyFile, a_revocation_is_in_the_file_when_it_is_answered) {
  auto keys = open();
  auto revoked = keys->revoke(key(1).id, key(9));
  ASSERT_TRUE(revoked.has_value());
  EXPECT_TRUE((*revoked)->ring.find(key(1).id)->revoked);
  EXPECT_EQ((*revoked)->version, 2u);
  EXPECT_EQ(keys->current(), *revoked);
  EXPECT_TRUE(open()->current()->ring.find(key(1).id)->revoked);
  EXPECT_EQ(keys->revoke("0123456789abcdef", key(9)).error().code, ErrorCode::not_found);
}

TEST_F(KeyFile, what_another_process_has_changed_is_taken_up_and_nothing_else) {
  auto ours = open();
  auto theirs = open();
  EXPECT_EQ((*ours->refresh())->version, 1u);
  ASSERT_TRUE(theirs->revoke(key(1).id, key(9)).has_value());
  auto fresh = ours->refresh();
  ASSERT_TRUE(fresh.has_value());
  EXPECT_TRUE((*fresh)->ring.find(key(1).id)->revoked);
  EXPECT_EQ((*fresh)->version, 2u);
  EXPECT_EQ((*ours->refresh())->version, 2u);
}

TEST_F(KeyFile, two_who_rewrite_it_lose_nothing_of_each_other) {
  constexpr std::uint8_t each = 20;
  const auto rotate = [&](std::uint8_t first) {
    auto keys = open();
    for (std::uint8_t i = 0; i < each; ++i)
      EXPECT_TRUE(keys->rotate(key(static_cast<std::uint8_t>(first + i))).has_value());
  };
  std::thread other([&] { rotate(100); });
  rotate(200);
  other.join();
  EXPECT_EQ(open()->current()->ring.keys().size(), 1u + 2 * each);
}

TEST_F(KeyFile, a_damaged_file_changes_nothing_and_is_an_error_at_the_start) {
  auto keys = open();
  std::ofstream(path_) << "not a key file\n";
  EXPECT_FALSE(keys->refresh().has_value());
  EXPECT_FALSE(keys->revoke(key(1).id, key(9)).has_value());
  EXPECT_FALSE(keys->current()->ring.find(key(1).id)->revoked);
  EXPECT_EQ(keys->current()->version, 1u);
  EXPECT_FALSE(RootKeys::open(path_).has_value());
  std::filesystem::remove(path_);
  EXPECT_EQ(RootKeys::open(path_).error().code, ErrorCode::not_found);
  EXPECT_FALSE(keys->refresh().has_value());
}

TEST(RootKeys, revoking_the_last_key_leaves_another_to_mint_with) {
  RootKeys keys{crypto::KeyRing(key(1))};
  const auto left = keys.revoke(key(1).id, key(2));
  ASSERT_TRUE(left.has_value());
  ASSERT_NE((*left)->ring.find_minting(), nullptr);
  EXPECT_EQ((*left)->ring.find_minting()->id, key(2).id);
  EXPECT_TRUE((*left)->ring.find(key(1).id)->revoked);
  // One that is not the last changes nothing else.
  ASSERT_TRUE(keys.rotate(key(3)).has_value());
  const auto two = keys.revoke(key(2).id, key(4));
  ASSERT_TRUE(two.has_value());
  EXPECT_EQ((*two)->ring.find(key(4).id), nullptr);
}

TEST(RootKeys, in_memory_they_change_without_a_file) {
  RootKeys keys{crypto::KeyRing(key(1))};
  EXPECT_EQ((*keys.refresh())->version, 1u);
  ASSERT_TRUE(keys.revoke(key(1).id, key(9)).has_value());
  EXPECT_TRUE(keys.current()->ring.find(key(1).id)->revoked);
  EXPECT_EQ((*keys.refresh())->version, 2u);
}

}  // namespace
}  // namespace cairn::serve
