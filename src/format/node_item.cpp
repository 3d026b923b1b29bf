#include "format/node_item.h"

#include <algorithm>

#include "codec/cbor.h"
#include "format/registry_field.h"

namespace cairn::format {

bool NodeItem::has_role(std::string_view role) const noexcept {
  return std::ranges::find(roles, role) != roles.end();
}

Result<NodeItem> read_node_item(ByteView item) {
  NodeItem node;
  codec::CborDecoder cbor(item);
  bool is_node = false;
  TRY(const std::size_t pairs, cbor.read_map());
  for (std::size_t i = 0; i < pairs; ++i) {
    TRY(const std::string_view field, cbor.read_text());
    if (field == "type") {
      TRY(const std::string_view type, cbor.read_text());
      is_node = type == node_item_type;
    } else if (field == "id") {
      TRY(node.id, cbor.read_text());
    } else if (field == "addr") {
      TRY(node.addr, cbor.read_text());
    } else if (field == "region") {
      TRY(node.region, cbor.read_text());
    } else if (field == "roles") {
      TRY(const std::size_t count, cbor.read_array());
      for (std::size_t j = 0; j < count; ++j) {
        TRY(const std::string_view role, cbor.read_text());
        node.roles.push_back(role);
      }
    } else if (field == "keys") {
      TRY(const std::size_t count, cbor.read_array());
      for (std::size_t j = 0; j < count; ++j) {
        TRY(const ByteView key, cbor.read_bytes());
        crypto::Ed25519PublicKey good{};
        if (key.size() != good.size()) continue;
        std::ranges::copy(key, good.begin());
        if (crypto::is_ed25519_key(good)) node.keys.push_back(good);
      }
    } else {
      TRY_VOID(cbor.skip());
    }
  }
  TRY_VOID(cbor.finish());
  if (!is_node) return malformed_field("an item that is no node");
  return node;
}

}  // namespace cairn::format
