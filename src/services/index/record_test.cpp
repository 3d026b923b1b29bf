#include "services/index/record.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "crypto/blake3.h"

namespace cairn::index {
namespace {

TEST(NameRecord, changes_are_in_order_from_the_newest_to_the_oldest) {
  EXPECT_LT(change_key("a", 2), change_key("a", 1));
  EXPECT_LT(change_key("a", 256), change_key("a", 255));
  EXPECT_LT(change_key("a", 1), change_key("a/b", 9));
  EXPECT_EQ(sequence_in(change_key("a", 0x0123456789abcdef)), 0x0123456789abcdefu);
  EXPECT_EQ(name_in(name_key("a/b")), "a/b");
}

TEST(NameRecord, what_is_encoded_decodes_and_nothing_else_does) {
  const NameState states[] = {{1, {2}, {}}, {UINT64_MAX, {253402300799999}, crypto::hash_object({})}};
  for (const NameState& state : states) {
    const std::string bytes = encode(state);
    NameState back;
    ASSERT_TRUE(decode(as_bytes(bytes), back));
    EXPECT_EQ(back, state);
    for (std::size_t i = 0; i < bytes.size(); ++i)
      EXPECT_FALSE(decode(as_bytes(std::string_view(bytes).substr(0, i)), back));
    EXPECT_FALSE(decode(as_bytes(bytes + '\0'), back));
  }
  ChangeRecord record{std::string(255, 'x'), "bytes"}, back;
  ASSERT_TRUE(decode(as_bytes(encode(record)), back));
  EXPECT_EQ(back.by, record.by);
  EXPECT_EQ(back.change, record.change);
  EXPECT_FALSE(decode(as_bytes(encode(ChangeRecord{"a", ""})), back));
  EXPECT_FALSE(decode(as_bytes(encode(ChangeRecord{"a", std::string(1025, 'x')})), back));
}

TEST(NameRecord, data_is_right_only_behind_its_own_address) {
  const std::string bytes = "some bytes";
  store::RecordHeader header;
  header.kind = static_cast<std::uint8_t>(RecordKind::manifest);
  const std::string meta = encode_address(crypto::hash_object(as_bytes(bytes)));
  EXPECT_TRUE(is_data_right(header, as_bytes(meta), as_bytes(bytes)));
  EXPECT_FALSE(is_data_right(header, as_bytes(meta), as_bytes("some byteS")));
  header.kind = static_cast<std::uint8_t>(RecordKind::change);
  EXPECT_TRUE(is_data_right(header, as_bytes(meta), {}));
  EXPECT_FALSE(is_data_right(header, as_bytes(meta), as_bytes(bytes)));
}

}  // namespace
}  // namespace cairn::index
