#include "format/node_item.h"

#include <gtest/gtest.h>

#include "codec/base64.h"
#include "format/sample_registry.h"

namespace cairn::format {
namespace {

TEST(NodeItem, has_what_the_item_says) {
  const crypto::Ed25519PublicKey key = sample_key(3).public_key();
  const std::string item = sample_item(
      R"({"type":"node","id":"n1","addr":"10.0.0.1:7420","region":"eu","weight":1,"roles":["storage","index"],"keys":[")" +
      codec::encode_base64(key) + R"(","AAAA"]})");
  const auto node = read_node_item(as_bytes(item));
  ASSERT_TRUE(node);
  EXPECT_EQ(node->id, "n1");
  EXPECT_EQ(node->addr, "10.0.0.1:7420");
  EXPECT_EQ(node->region, "eu");
  EXPECT_TRUE(node->has_role("index"));
  EXPECT_FALSE(node->has_role("edge"));
  ASSERT_EQ(node->keys.size(), 1u);
  EXPECT_EQ(node->keys[0], key);
}

TEST(NodeItem, other_items_and_other_bytes_are_none) {
  EXPECT_FALSE(read_node_item(as_bytes(sample_item(R"({"type":"region","id":"r"})"))));
  EXPECT_FALSE(read_node_item({}));
  EXPECT_FALSE(read_node_item(as_bytes("\xa1")));
}

}  // namespace
}  // namespace cairn::format
