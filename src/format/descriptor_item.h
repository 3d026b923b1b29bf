// Items: the parts of a descriptor set. An item is its canonical CBOR. One table of fields per type drives
// JSON to CBOR, CBOR to JSON and the strict check (docs/formats/registry.md).
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "codec/cbor.h"
#include "codec/json_reader.h"
#include "codec/json_writer.h"

namespace cairn::format {

inline constexpr std::string_view approving_algo = "ed25519";
inline constexpr std::size_t approving_key_size = 32;
inline constexpr std::size_t signers_max = 64;

struct Signer {
  std::string id;
  std::optional<std::string> org;
  std::string algo;
  std::string key;  // raw bytes

  // Whether signatures of its algo can be checked.
  bool can_approve() const noexcept { return algo == approving_algo && key.size() == approving_key_size; }
  friend bool operator==(const Signer&, const Signer&) = default;
};

// Checks each field of an item by its own rules. check_items() checks the rules between items.
Result<> validate_item(ByteView item);
Result<std::string> item_from_json(const codec::JsonValue& value);
// Reads and checks the next item of a larger document, and returns its bytes.
Result<std::string> read_item(codec::CborDecoder& cbor);
// Precondition: validate_item.
void write_item_json(ByteView item, codec::JsonWriter& json);

// The key that is unique in a set, as views of the item. A signer_set has no id, a revocation's id is its
// key_id, a name_authority's its prefix. Both are empty when the bytes are no item at all.
struct ItemName {
  std::string_view type, id;
  friend auto operator<=>(const ItemName&, const ItemName&) = default;
};
ItemName name_of_item(ByteView item) noexcept;

// `malformed` when a signer's field breaks its rule. The rules of the set are left to check_items().
Result<std::string> encode_signer_set(unsigned m, std::span<const Signer> signers);

}  // namespace cairn::format
