// Descriptor sets, proposals and items against arbitrary bytes, as CBOR and as JSON. What is accepted encodes
// to the very same bytes, and says the same after a way through JSON.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/check.h"
#include "codec/json_reader.h"
#include "format/descriptor_set.h"
#include "format/name.h"
#include "format/name_authority.h"

namespace {

using namespace cairn;
using namespace cairn::format;

template <class Write>
std::string written(Write&& write) {
  std::string text;
  codec::JsonWriter json(text);
  write(json);
  json.finish();
  return text;
}

// JSON of an accepted item gives the same item again.
void check_item(const std::string& item) {
  CHECK(validate_item(as_bytes(item)));
  CHECK(!name_of_item(as_bytes(item)).type.empty());
  const std::string text = written([&](codec::JsonWriter& json) { write_item_json(as_bytes(item), json); });
  codec::JsonReader reader;
  const auto root = reader.parse(text);
  CHECK(root.has_value() && item_from_json(*root) == item);
}

// Each prefix of an accepted set has the key that its own item says.
void check_names(const std::vector<std::string>& items) {
  const auto authorities = NameAuthorities::read(items);
  CHECK(authorities.has_value());
  std::size_t count = 0;
  for (const std::string& item : items) {
    const auto one = read_name_authority(as_bytes(item));
    CHECK(one.has_value() == (name_of_item(as_bytes(item)).type == name_authority_type));
    if (!one) continue;
    ++count;
    CHECK(name_of_item(as_bytes(item)).id == one->prefix);
    CHECK(authorities->find(one->prefix) == one->key);
    CHECK(one->prefix.size() > name_size_max - 2 ||
          authorities->find(std::string(one->prefix) + "/-").has_value());
  }
  CHECK(authorities->size() == count);
}

void check_draft(const ProposalDraft& draft) {
  CHECK(check_next_items(draft.items).has_value());
  check_names(draft.items);
  CHECK(decode_proposal_cbor(as_bytes(encode(draft))) == draft);
  std::string detail;
  const std::string text = written([&](codec::JsonWriter& json) { write_proposal_json(draft, json); });
  CHECK(parse_proposal_json(text, detail) == draft);
}

void check_cbor(ByteView bytes) {
  if (validate_item(bytes)) check_item(std::string(as_text(bytes)));
  if (const auto draft = decode_proposal_cbor(bytes)) {
    CHECK(encode(*draft) == as_text(bytes));
    check_draft(*draft);
  }
  const auto set = decode_descriptor_set(bytes);
  if (!set) {
    CHECK(set.error().code == ErrorCode::malformed);
    return;
  }
  CHECK(encode(*set) == as_text(bytes));
  for (const std::string& item : set->items) check_item(item);
  check_names(set->items);
  const auto governance = read_governance(set->items);
  CHECK(governance.has_value() && governance->m >= 1 && governance->m <= governance->in_force());
  codec::JsonReader reader;
  CHECK(reader.parse(written([&](codec::JsonWriter& json) { write_set_json(*set, json); })).has_value());
}

void check_json(std::string_view text) {
  codec::JsonReader reader;
  if (const auto root = reader.parse(text))
    if (const auto item = item_from_json(*root)) check_item(*item);
  std::string detail;
  const auto draft = parse_proposal_json(text, detail);
  CHECK(draft.has_value() == detail.empty());
  if (draft) check_draft(*draft);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteView bytes(reinterpret_cast<const std::byte*>(data), size);
  check_cbor(bytes);
  check_json(as_text(bytes));
  return 0;
}
