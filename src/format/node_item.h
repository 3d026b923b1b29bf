// NodeItem: the item `node` of a descriptor set, as services that look for nodes read it
// (docs/formats/registry.md).
#pragma once

#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "crypto/ed25519.h"

namespace cairn::format {

inline constexpr std::string_view node_item_type = "node";

// Views of the item.
struct NodeItem {
  std::string_view id, addr, region;
  std::vector<std::string_view> roles;
  std::vector<crypto::Ed25519PublicKey> keys;  // those that are Ed25519 keys

  bool has_role(std::string_view role) const noexcept;
};
// `malformed` when the bytes are no item node.
Result<NodeItem> read_node_item(ByteView item);

}  // namespace cairn::format
