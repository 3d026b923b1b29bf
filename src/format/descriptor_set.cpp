#include "format/descriptor_set.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "codec/cbor.h"
#include "codec/json_reader.h"
#include "format/name_authority.h"
#include "format/registry_field.h"

namespace cairn::format {
namespace {

constexpr codec::JsonLimits proposal_json_limits{.bytes = descriptor_set_size_max, .depth = 8};

// A proposal is a set without the fields that the server adds, so the same code reads and writes both.
enum class Document : std::uint8_t { set, proposal };

ProposalDraft to_draft(DescriptorSet set) {
  return {std::move(set.items), set.expiry, set.supersede_of, std::move(set.reason)};
}
DescriptorSet to_set(const ProposalDraft& draft) {
  DescriptorSet set;
  set.items = draft.items;
  set.expiry = draft.expiry;
  set.supersede_of = draft.supersede_of;
  set.reason = draft.reason;
  return set;
}

std::string encode_document(const DescriptorSet& set, Document document) {
  const bool whole = document == Document::set;
  std::string out;
  std::size_t size = 256;
  for (const std::string& item : set.items) size += item.size();
  out.reserve(size);
  // Each piece has an encoder of its own, because an encoder cannot take in items that are encoded already.
  const auto put = [&out] { return codec::CborEncoder(out); };
  const auto put_time = [&](std::string_view name, WallTime time) {
    put().write_text(name);
    codec::CborEncoder cbor(out);
    write_time_field(cbor, time);
  };
  put().write_map(std::uint64_t{2} + (whole ? 3 : 0) + set.expiry.has_value() + set.supersede_of.has_value() +
                  set.reason.has_value());
  if (whole) {
    put().write_text("prev");
    put().write_bytes(set.prev.bytes);
  }
  put().write_text("items");
  put().write_array(set.items.size());
  for (const std::string& item : set.items) out += item;
  if (set.expiry) put_time("expiry", *set.expiry);
  if (set.reason) {
    put().write_text("reason");
    put().write_text(*set.reason);
  }
  if (whole) {
    put().write_text("version");
    put().write_uint(set.version);
    put_time("created_at", set.created_at);
  }
  if (set.supersede_of) {
    put().write_text("supersede_of");
    put().write_uint(*set.supersede_of);
  }
  put().write_text("schema_version");
  put().write_text(registry_schema_version);
  return out;
}

void write_document_json(const DescriptorSet& set, Document document, codec::JsonWriter& json) {
  const bool whole = document == Document::set;
  json.begin_object().field("schema_version", registry_schema_version);
  if (whole) json.field("version", set.version).field("prev", format_address(set.prev));
  json.key("items").begin_array();
  for (const std::string& item : set.items) write_item_json(as_bytes(item), json);
  json.end_array();
  if (whole) json.field("created_at", format_rfc3339(set.created_at));
  if (set.expiry) json.field("expiry", format_rfc3339(*set.expiry));
  if (set.supersede_of) json.field("supersede_of", *set.supersede_of);
  if (set.reason) json.field("reason", *set.reason);
  json.end_object();
}

struct Seen {
  bool prev = false, items = false, version = false, created_at = false, schema_version = false;
};

Result<> read_items(codec::CborDecoder& cbor, std::vector<std::string>& items) {
  const auto count = cbor.read_array();
  if (!count || *count > set_items_max) return malformed_field("the items of the set");
  items.reserve(*count);
  for (std::size_t i = 0; i < *count; ++i) {
    TRY(std::string item, read_item(cbor));
    items.push_back(std::move(item));
  }
  return {};
}

// Reads the fields that a set has and a proposal has not.
Result<bool> read_added(codec::CborDecoder& cbor, std::string_view key, DescriptorSet& set, Seen& seen) {
  if (key == "prev") {
    TRY(set.prev, read_address_field(cbor, "the prev of the set"));
    return seen.prev = true;
  }
  if (key == "version") {
    TRY(set.version, read_uint_field(cbor, "the version of the set"));
    return seen.version = true;
  }
  if (key == "created_at") {
    TRY(set.created_at, read_time_field(cbor, "the created_at of the set"));
    return seen.created_at = true;
  }
  return false;
}

Result<> read_pair(codec::CborDecoder& cbor, Document document, DescriptorSet& set, Seen& seen) {
  const auto key = cbor.read_text();
  if (!key) return malformed_field("an unknown field of the set");
  if (*key == "items") {
    TRY_VOID(read_items(cbor, set.items));
    seen.items = true;
  } else if (*key == "expiry") {
    TRY(set.expiry, read_time_field(cbor, "the expiry of the set"));
  } else if (*key == "reason") {
    TRY(const std::string_view text, read_text_field(cbor, "the reason of the set"));
    set.reason = text;
  } else if (*key == "supersede_of") {
    TRY(set.supersede_of, read_uint_field(cbor, "the supersede_of of the set"));
  } else if (*key == "schema_version") {
    if (!cbor.expect_text(registry_schema_version)) return malformed_field("the schema_version of the set");
    seen.schema_version = true;
  } else {
    bool known = false;
    if (document == Document::set) {
      TRY(known, read_added(cbor, *key, set, seen));
    }
    if (!known) return malformed_field("an unknown field of the set");
  }
  return {};
}

Result<DescriptorSet> decode_document(ByteView bytes, Document document, GoodKeys* known = nullptr) {
  if (bytes.size() > descriptor_set_size_max) return malformed_field("the set is too large");
  codec::CborDecoder cbor(bytes);
  DescriptorSet set;
  Seen seen;
  const auto pairs = cbor.read_map();
  if (!pairs) return malformed_field("the set is not a map");
  for (std::size_t i = 0; i < *pairs; ++i) TRY_VOID(read_pair(cbor, document, set, seen));
  TRY_VOID(cbor.finish());
  if (!seen.schema_version) return malformed_field("the schema_version of the set");
  if (!seen.items) return malformed_field("the items of the set");
  if (set.reason.has_value() != set.supersede_of.has_value())
    return malformed_field("reason and supersede_of of the set go together");
  if (document == Document::set) {
    if (!seen.prev || (set.version == 0 && set.prev != Address{}))
      return malformed_field("the prev of the set");
    if (!seen.version) return malformed_field("the version of the set");
    if (!seen.created_at) return malformed_field("the created_at of the set");
    if (set.supersede_of && (set.version == 0 || *set.supersede_of != set.version - 1))
      return malformed_field("the supersede_of of the set");
  }
  TRY_VOID(document == Document::set ? check_items(set.items) : check_next_items(set.items, known));
  return set;
}

Result<ProposalDraft> parse_draft(const codec::JsonValue& root, GoodKeys* known) {
  ProposalDraft draft;
  TRY(codec::JsonObject object, root.object());
  TRY(const std::string_view schema, object.required_string("schema_version"));
  if (schema != registry_schema_version) return object.refuse("schema_version", "expected 1.0.0");
  TRY(const codec::JsonItems items, object.required_items("items"));
  for (const codec::JsonValue value : items) {
    if (draft.items.size() == set_items_max) return object.refuse("items", "more than 65536 items");
    TRY(std::string item, item_from_json(value));
    draft.items.push_back(std::move(item));
  }
  if (const auto expiry = object.find("expiry")) {
    TRY(draft.expiry, parse_time_field(*expiry));
  }
  TRY(draft.supersede_of, object.optional_uint("supersede_of"));
  if (const auto reason = object.find("reason")) {
    TRY(const std::string_view text, parse_text_field(*reason));
    draft.reason = text;
  }
  TRY_VOID(object.finish());
  if (draft.reason.has_value() != draft.supersede_of.has_value())
    return object.refuse("reason", "there exactly with supersede_of");
  if (const auto right = check_next_items(draft.items, known); !right)
    return object.refuse("items", right.error().context);
  return draft;
}

Result<Signer> read_signer(codec::CborDecoder& cbor) {
  Signer signer;
  TRY(const std::size_t pairs, cbor.read_map());
  for (std::size_t i = 0; i < pairs; ++i) {
    TRY(const std::string_view key, cbor.read_text());
    if (key == "key") {
      TRY(const ByteView bytes, cbor.read_bytes());
      signer.key = as_text(bytes);
      continue;
    }
    TRY(const std::string_view text, cbor.read_text());
    if (key == "id") {
      signer.id = text;
    } else if (key == "org") {
      signer.org = text;
    } else {
      signer.algo = text;
    }
  }
  return signer;
}

Result<> read_signer_set(ByteView item, Governance& governance) {
  codec::CborDecoder cbor(item);
  TRY_VOID(cbor.read_map());
  TRY_VOID(cbor.expect_text("m"));
  TRY(const std::uint64_t m, cbor.read_uint());
  if (m > std::numeric_limits<unsigned>::max()) return malformed_field("the m of the signer_set");
  governance.m = static_cast<unsigned>(m);
  TRY_VOID(cbor.expect_text("type"));
  TRY_VOID(cbor.expect_text("signer_set"));
  TRY_VOID(cbor.expect_text("signers"));
  TRY(const std::size_t count, cbor.read_array());
  if (count == 0 || count > signers_max) return malformed_field("a signer_set has 1 to 64 signers");
  for (std::size_t i = 0; i < count; ++i) {
    TRY(Signer signer, read_signer(cbor));
    governance.signers.push_back(std::move(signer));
  }
  return cbor.finish();
}

Result<> check_governance(const Governance& governance) {
  const std::vector<Signer>& signers = governance.signers;
  for (std::size_t i = 0; i < signers.size(); ++i) {
    if (signers[i].algo == approving_algo && !signers[i].can_approve())
      return malformed_field("an ed25519 key of a signer has not 32 bytes");
    for (std::size_t j = 0; j < i; ++j) {
      if (signers[i].id == signers[j].id) return malformed_field("two signers have the same id");
      if (signers[i].key == signers[j].key) return malformed_field("two signers have the same key");
    }
  }
  if (governance.m == 0) return malformed_field("the m of the signer_set is 0");
  if (governance.m > governance.in_force())
    return malformed_field("the m of the signer_set is more than the signers in force");
  return {};
}

std::vector<ItemName> names_of(const std::vector<std::string>& items) {
  std::vector<ItemName> names;
  names.reserve(items.size());
  for (const std::string& item : items) names.push_back(name_of_item(as_bytes(item)));
  return names;
}

Result<Governance> read_governance_of(const std::vector<std::string>& items,
                                      std::span<const ItemName> names) {
  Governance governance;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (names[i].type == "revocation") governance.revoked.emplace_back(names[i].id);
    if (names[i].type == "signer_set") {
      governance.signers.clear();
      TRY_VOID(read_signer_set(as_bytes(items[i]), governance));
    }
  }
  if (governance.signers.empty()) return malformed_field("the set has no signer_set");
  std::ranges::sort(governance.revoked);
  return governance;
}

// The rules between items, whose names are known already.
Result<Governance> check_named_items(const std::vector<std::string>& items, std::span<const ItemName> names) {
  if (std::ranges::find(names, std::string_view(), &ItemName::type) != names.end())
    return malformed_field("the type of an item");
  auto governance = read_governance_of(items, names);
  // Sorted rather than hashed: no choice of ids makes it slow.
  std::vector<ItemName> sorted(names.begin(), names.end());
  std::ranges::sort(sorted);
  if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end())
    return malformed_field(twice->type == "signer_set" ? "the set has more than one signer_set"
                                                       : "two items have the same type and id");
  if (!governance) return fail(governance.error());
  TRY_VOID(check_governance(*governance));
  return governance;
}

bool is_good_key(const crypto::Ed25519PublicKey& key, GoodKeys* known) noexcept {
  return known != nullptr ? known->is_good(key) : crypto::is_ed25519_key(key);
}

// Each key once, however many names it has: the time that this takes must not grow with the set.
Result<> check_authority_keys(const std::vector<std::string>& items, std::span<const ItemName> names,
                              GoodKeys* known) {
  std::vector<crypto::Ed25519PublicKey> keys;  // ascending
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (names[i].type != name_authority_type) continue;
    TRY(const NameAuthority authority, read_name_authority(as_bytes(items[i])));
    const auto at = std::ranges::lower_bound(keys, authority.key);
    if (at != keys.end() && *at == authority.key) continue;
    if (keys.size() == authority_keys_max)
      return malformed_field("the items name_authority have more than 256 different keys");
    if (!is_good_key(authority.key, known))
      return malformed_field("the key of a name_authority is one that no signature verifies under");
    keys.insert(at, authority.key);
  }
  return {};
}

}  // namespace

const Signer* Governance::find(std::string_view id) const noexcept {
  const auto at = std::ranges::find(signers, id, &Signer::id);
  return at != signers.end() ? &*at : nullptr;
}

bool Governance::is_revoked(std::string_view id) const noexcept {
  return std::ranges::binary_search(revoked, id);
}

std::size_t Governance::in_force() const noexcept {
  return static_cast<std::size_t>(std::ranges::count_if(
      signers, [this](const Signer& signer) { return signer.can_approve() && !is_revoked(signer.id); }));
}

std::string encode(const DescriptorSet& set) { return encode_document(set, Document::set); }
std::string encode(const ProposalDraft& draft) { return encode_document(to_set(draft), Document::proposal); }

Result<DescriptorSet> decode_descriptor_set(ByteView bytes) { return decode_document(bytes, Document::set); }

Result<ProposalDraft> decode_proposal_cbor(ByteView body, GoodKeys* known) {
  TRY(DescriptorSet set, decode_document(body, Document::proposal, known));
  return to_draft(std::move(set));
}

void write_set_json(const DescriptorSet& set, codec::JsonWriter& json) {
  write_document_json(set, Document::set, json);
}

void write_proposal_json(const ProposalDraft& draft, codec::JsonWriter& json) {
  write_document_json(to_set(draft), Document::proposal, json);
}

Result<ProposalDraft> parse_proposal_json(std::string_view body, std::string& detail, GoodKeys* known) {
  codec::JsonReader reader(proposal_json_limits);
  const auto root = reader.parse(body);
  auto draft = root ? parse_draft(*root, known) : fail(root.error());
  if (!draft) detail = reader.detail();
  return draft;
}

Result<> check_items(const std::vector<std::string>& items) {
  if (items.size() > set_items_max) return malformed_field("the items of the set");
  TRY_VOID(check_named_items(items, names_of(items)));
  return {};
}

bool GoodKeys::is_good(const crypto::Ed25519PublicKey& key) noexcept {
  crypto::Ed25519PublicKey& slot = good_[std::to_integer<std::size_t>(key[0]) % good_.size()];
  if (slot == key && key != crypto::Ed25519PublicKey{}) return true;
  if (!crypto::is_ed25519_key(key)) return false;
  slot = key;
  return true;
}

Result<> check_next_items(const std::vector<std::string>& items, GoodKeys* known) {
  if (items.size() > set_items_max) return malformed_field("the items of the set");
  const std::vector<ItemName> names = names_of(items);
  TRY(const Governance governance, check_named_items(items, names));
  for (const Signer& signer : governance.signers) {
    if (!signer.can_approve()) continue;
    crypto::Ed25519PublicKey key;
    std::ranges::copy(as_bytes(signer.key), key.begin());
    if (!is_good_key(key, known))
      return malformed_field("an ed25519 key of a signer is one that no signature verifies under");
  }
  return check_authority_keys(items, names, known);
}

Result<Governance> read_governance(const std::vector<std::string>& items) {
  return read_governance_of(items, names_of(items));
}

}  // namespace cairn::format
