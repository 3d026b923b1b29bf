#include "format/descriptor_item.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/check.h"
#include "codec/base64.h"
#include "format/registry_field.h"

namespace cairn::format {
namespace {

enum class FieldKind : std::uint8_t { type, id, name, text, uint, bytes, key, texts, byte_strings, signers };

constexpr bool required = false;
constexpr bool optional = true;

struct FieldRule {
  std::string_view name;
  FieldKind kind;
  bool optional;
  const char* context;  // of the Error when the field is missing or wrong
};
using FieldRules = std::span<const FieldRule>;

// Each in the order of CBOR's keys.
constexpr FieldRule node_fields[] = {
    {"id", FieldKind::id, required, "the id of a node"},
    {"addr", FieldKind::text, required, "the addr of a node"},
    {"keys", FieldKind::byte_strings, optional, "the keys of a node"},
    {"type", FieldKind::type, required, "the type of a node"},
    {"roles", FieldKind::texts, required, "the roles of a node"},
    {"region", FieldKind::text, required, "the region of a node"},
    {"weight", FieldKind::uint, required, "the weight of a node"},
};
constexpr FieldRule service_fields[] = {
    {"id", FieldKind::id, required, "the id of a service"},
    {"addr", FieldKind::text, required, "the addr of a service"},
    {"kind", FieldKind::text, required, "the kind of a service"},
    {"node", FieldKind::text, optional, "the node of a service"},
    {"type", FieldKind::type, required, "the type of a service"},
    {"region", FieldKind::text, optional, "the region of a service"},
};
constexpr FieldRule region_fields[] = {
    {"id", FieldKind::id, required, "the id of a region"},
    {"type", FieldKind::type, required, "the type of a region"},
    {"title", FieldKind::text, optional, "the title of a region"},
    {"parent", FieldKind::text, optional, "the parent of a region"},
};
constexpr FieldRule placement_fields[] = {
    {"id", FieldKind::id, required, "the id of a placement"},
    {"data", FieldKind::uint, optional, "the data of a placement"},
    {"type", FieldKind::type, required, "the type of a placement"},
    {"parity", FieldKind::uint, optional, "the parity of a placement"},
    {"regions", FieldKind::texts, required, "the regions of a placement"},
    {"replicas", FieldKind::uint, optional, "the replicas of a placement"},
};
constexpr FieldRule signer_set_fields[] = {
    {"m", FieldKind::uint, required, "the m of a signer_set"},
    {"type", FieldKind::type, required, "the type of a signer_set"},
    {"signers", FieldKind::signers, required, "the signers of a signer_set"},
};
constexpr FieldRule revocation_fields[] = {
    {"type", FieldKind::type, required, "the type of a revocation"},
    {"key_id", FieldKind::id, required, "the key_id of a revocation"},
    {"reason", FieldKind::text, required, "the reason of a revocation"},
};
constexpr FieldRule capability_key_fields[] = {
    {"id", FieldKind::id, required, "the id of a capability_key"},
    {"note", FieldKind::text, optional, "the note of a capability_key"},
    {"type", FieldKind::type, required, "the type of a capability_key"},
};
constexpr FieldRule name_authority_fields[] = {
    {"key", FieldKind::key, required, "the key of a name_authority"},
    {"type", FieldKind::type, required, "the type of a name_authority"},
    {"prefix", FieldKind::name, required, "the prefix of a name_authority"},
};
constexpr FieldRule signer_fields[] = {
    {"id", FieldKind::id, required, "the id of a signer"},
    {"key", FieldKind::bytes, required, "the key of a signer"},
    {"org", FieldKind::text, optional, "the org of a signer"},
    {"algo", FieldKind::text, required, "the algo of a signer"},
};

struct TypeRule {
  std::string_view type;
  FieldRules fields;
};
constexpr TypeRule type_rules[] = {
    {"node", node_fields},
    {"service", service_fields},
    {"region", region_fields},
    {"placement", placement_fields},
    {"signer_set", signer_set_fields},
    {"revocation", revocation_fields},
    {"capability_key", capability_key_fields},
    {"name_authority", name_authority_fields},
};

// The order of CBOR's keys: the shorter first, then bytewise.
constexpr bool in_key_order(FieldRules fields) {
  for (std::size_t i = 1; i < fields.size(); ++i) {
    const std::string_view a = fields[i - 1].name, b = fields[i].name;
    if (a.size() > b.size() || (a.size() == b.size() && a >= b)) return false;
  }
  return true;
}
static_assert(std::ranges::all_of(type_rules,
                                  [](const TypeRule& rule) { return in_key_order(rule.fields); }));
static_assert(in_key_order(signer_fields));

const TypeRule* find_type(std::string_view type) noexcept {
  const auto at = std::ranges::find(type_rules, type, &TypeRule::type);
  return at != std::end(type_rules) ? &*at : nullptr;
}

// The targets that fields are copied to: CBOR again, or JSON.
struct CborSink {
  codec::CborEncoder& out;
  void begin_map(std::size_t pairs) { out.write_map(pairs); }
  void end_map() {}
  void begin_array(std::size_t count) { out.write_array(count); }
  void end_array() {}
  void key(std::string_view name) { out.write_text(name); }
  void text(std::string_view text) { out.write_text(text); }
  void uint(std::uint64_t number) { out.write_uint(number); }
  void bytes(ByteView bytes) { out.write_bytes(bytes); }
};
struct JsonSink {
  codec::JsonWriter& out;
  void begin_map(std::size_t) { out.begin_object(); }
  void end_map() { out.end_object(); }
  void begin_array(std::size_t) { out.begin_array(); }
  void end_array() { out.end_array(); }
  void key(std::string_view name) { out.key(name); }
  void text(std::string_view text) { out.value(text); }
  void uint(std::uint64_t number) { out.value(number); }
  void bytes(ByteView bytes) { out.value(codec::encode_base64(bytes)); }
};

template <class Sink>
Result<> copy_map(codec::CborDecoder& cbor, FieldRules rules, std::string_view type, Sink& sink);

template <class Sink>
Result<> copy_value(codec::CborDecoder& cbor, const FieldRule& rule, std::string_view type, Sink& sink) {
  const auto copy_array = [&](auto&& copy_element) -> Result<> {
    const auto count = cbor.read_array();
    if (!count) return malformed_field(rule.context);
    sink.begin_array(*count);
    for (std::size_t i = 0; i < *count; ++i) TRY_VOID(copy_element());
    sink.end_array();
    return {};
  };
  const auto copy_text = [&]() -> Result<> {
    TRY(const std::string_view text, read_text_field(cbor, rule.context));
    sink.text(text);
    return {};
  };
  const auto copy_bytes = [&]() -> Result<> {
    TRY(const ByteView bytes, read_bytes_field(cbor, rule.context));
    sink.bytes(bytes);
    return {};
  };
  switch (rule.kind) {
    case FieldKind::type: {
      const auto text = cbor.read_text();
      if (!text || *text != type) return malformed_field(rule.context);
      sink.text(*text);
      return {};
    }
    case FieldKind::id: {
      TRY(const std::string_view text, read_id_field(cbor, rule.context));
      sink.text(text);
      return {};
    }
    case FieldKind::name: {
      TRY(const std::string_view text, read_name_field(cbor, rule.context));
      sink.text(text);
      return {};
    }
    case FieldKind::uint: {
      TRY(const std::uint64_t number, read_uint_field(cbor, rule.context));
      sink.uint(number);
      return {};
    }
    case FieldKind::key: {
      TRY(const crypto::Ed25519PublicKey key, read_key_field(cbor, rule.context));
      sink.bytes(key);
      return {};
    }
    case FieldKind::text:
      return copy_text();
    case FieldKind::bytes:
      return copy_bytes();
    case FieldKind::texts:
      return copy_array(copy_text);
    case FieldKind::byte_strings:
      return copy_array(copy_bytes);
    case FieldKind::signers:
      return copy_array([&] { return copy_map(cbor, signer_fields, {}, sink); });
  }
  CHECK(false);
  return {};
}

// Rules and keys have the same order, so a rule that no key matches is a missing field.
template <class Sink>
Result<> copy_map(codec::CborDecoder& cbor, FieldRules rules, std::string_view type, Sink& sink) {
  const auto pairs = cbor.read_map();
  if (!pairs) return malformed_field("an item or a signer is not a map");
  sink.begin_map(*pairs);
  auto rule = rules.begin();
  const auto pass_absent = [&](std::string_view up_to) -> Result<> {
    for (; rule != rules.end() && rule->name != up_to; ++rule)
      if (!rule->optional) return malformed_field(rule->context);
    return {};
  };
  for (std::size_t i = 0; i < *pairs; ++i) {
    const auto key = cbor.read_text();
    if (!key || std::ranges::find(rules, *key, &FieldRule::name) == rules.end())
      return malformed_field("an unknown field of an item");
    TRY_VOID(pass_absent(*key));
    if (rule == rules.end()) return malformed_field("the order of the fields of an item");
    sink.key(*key);
    TRY_VOID(copy_value(cbor, *rule++, type, sink));
  }
  TRY_VOID(pass_absent({}));
  sink.end_map();
  return {};
}

// Like skip(). But skip() keeps a copy of the decoder to go back to, which costs too much for every field of
// every item.
Result<> pass(codec::CborDecoder& cbor) {
  TRY(const codec::CborKind kind, cbor.peek());
  std::size_t inner = 0;
  switch (kind) {
    case codec::CborKind::text:
      TRY_VOID(cbor.read_text());
      break;
    case codec::CborKind::bytes:
      TRY_VOID(cbor.read_bytes());
      break;
    case codec::CborKind::unsigned_integer:
      TRY_VOID(cbor.read_uint());
      break;
    case codec::CborKind::array: {
      TRY(inner, cbor.read_array());
      break;
    }
    case codec::CborKind::map: {
      TRY(const std::size_t pairs, cbor.read_map());
      inner = pairs * 2;
      break;
    }
    default:
      return malformed_field("an item has no such values");
  }
  for (std::size_t i = 0; i < inner; ++i) TRY_VOID(pass(cbor));
  return {};
}

// The type of the item that `cbor` is about to read.
Result<const TypeRule*> peek_type(codec::CborDecoder cbor) {
  constexpr const char* context = "the type of an item";
  const auto pairs = cbor.read_map();
  if (!pairs) return malformed_field("an item or a signer is not a map");
  for (std::size_t i = 0; i < *pairs; ++i) {
    const auto key = cbor.read_text();
    if (!key) return malformed_field("an unknown field of an item");
    if (*key == "type") {
      TRY(const std::string_view text, read_text_field(cbor, context));
      const TypeRule* rule = find_type(text);
      if (rule == nullptr) return malformed_field(context);
      return rule;
    }
    TRY_VOID(pass(cbor));
  }
  return malformed_field(context);
}

Result<> write_object(const codec::JsonValue& value, FieldRules rules, codec::CborEncoder& out);

template <class Write>
Result<> write_array(const codec::JsonValue& value, codec::CborEncoder& out, Write&& write_element) {
  TRY(const codec::JsonItems elements, value.items());
  std::size_t count = 0;
  for (auto at = elements.begin(); at != elements.end(); ++at) ++count;
  out.write_array(count);
  for (const codec::JsonValue element : elements) TRY_VOID(write_element(element));
  return {};
}

Result<> write_value(const codec::JsonValue& value, FieldKind kind, codec::CborEncoder& out) {
  switch (kind) {
    case FieldKind::type:
    case FieldKind::text: {
      TRY(const std::string_view text, parse_text_field(value));
      out.write_text(text);
      return {};
    }
    case FieldKind::id: {
      TRY(const std::string_view text, parse_id_field(value));
      out.write_text(text);
      return {};
    }
    case FieldKind::name: {
      TRY(const std::string_view text, parse_name_field(value));
      out.write_text(text);
      return {};
    }
    case FieldKind::key: {
      TRY(const crypto::Ed25519PublicKey key, parse_key_field(value));
      out.write_bytes(key);
      return {};
    }
    case FieldKind::uint: {
      TRY(const std::uint64_t number, value.as_uint());
      out.write_uint(number);
      return {};
    }
    case FieldKind::bytes: {
      TRY(const std::string bytes, parse_bytes_field(value));
      out.write_bytes(as_bytes(bytes));
      return {};
    }
    case FieldKind::texts:
      return write_array(value, out, [&](const codec::JsonValue& element) {
        return write_value(element, FieldKind::text, out);
      });
    case FieldKind::byte_strings:
      return write_array(value, out, [&](const codec::JsonValue& element) {
        return write_value(element, FieldKind::bytes, out);
      });
    case FieldKind::signers:
      return write_array(value, out, [&](const codec::JsonValue& element) {
        return write_object(element, signer_fields, out);
      });
  }
  CHECK(false);
  return {};
}

Result<> write_object(const codec::JsonValue& value, FieldRules rules, codec::CborEncoder& out) {
  TRY(codec::JsonObject object, value.object());
  std::size_t present = 0;
  for (const FieldRule& rule : rules) {
    if (object.find(rule.name)) {
      ++present;
    } else if (!rule.optional) {
      return object.refuse(rule.name, "required field is missing");
    }
  }
  TRY_VOID(object.finish());
  out.write_map(present);
  for (const FieldRule& rule : rules) {
    const auto field = object.find(rule.name);
    if (!field) continue;
    out.write_text(rule.name);
    TRY_VOID(write_value(*field, rule.kind, out));
  }
  return {};
}

}  // namespace

Result<std::string> read_item(codec::CborDecoder& cbor) {
  TRY(const TypeRule* rule, peek_type(cbor));
  std::string item;
  codec::CborEncoder out(item);
  CborSink sink{out};
  TRY_VOID(copy_map(cbor, rule->fields, rule->type, sink));
  out.finish();
  return item;
}

Result<> validate_item(ByteView item) {
  codec::CborDecoder cbor(item);
  TRY_VOID(read_item(cbor));
  return cbor.finish();
}

Result<std::string> item_from_json(const codec::JsonValue& value) {
  TRY(codec::JsonObject object, value.object());
  TRY(const codec::JsonValue type, object.required("type"));
  TRY(const std::string_view name, type.as_string());
  const TypeRule* rule = find_type(name);
  if (rule == nullptr) return type.refuse("no type of item has this name");
  std::string item;
  codec::CborEncoder out(item);
  TRY_VOID(write_object(value, rule->fields, out));
  out.finish();
  return item;
}

void write_item_json(ByteView item, codec::JsonWriter& json) {
  codec::CborDecoder cbor(item);
  const auto rule = peek_type(cbor);
  CHECK(rule.has_value());
  JsonSink sink{json};
  CHECK(copy_map(cbor, (*rule)->fields, (*rule)->type, sink) && cbor.finish());
}

ItemName name_of_item(ByteView item) noexcept {
  codec::CborDecoder cbor(item);
  ItemName name;
  const auto pairs = cbor.read_map();
  for (std::size_t i = 0; pairs && i < *pairs; ++i) {
    const auto key = cbor.read_text();
    if (!key) return {};
    if (*key != "type" && *key != "id" && *key != "key_id" && *key != "prefix") {
      if (!pass(cbor)) return {};
      continue;
    }
    const auto text = cbor.read_text();
    if (!text) return {};
    (*key == "type" ? name.type : name.id) = *text;
  }
  return cbor.finish() ? name : ItemName{};
}

Result<std::string> encode_signer_set(unsigned m, std::span<const Signer> signers) {
  std::string item;
  codec::CborEncoder out(item);
  out.write_map(3);
  out.write_text("m");
  out.write_uint(m);
  out.write_text("type");
  out.write_text("signer_set");
  out.write_text("signers");
  out.write_array(signers.size());
  for (const Signer& signer : signers) {
    if (!is_registry_id(signer.id)) return malformed_field("the id of a signer");
    if (signer.org && !is_registry_text(*signer.org)) return malformed_field("the org of a signer");
    if (!is_registry_text(signer.algo)) return malformed_field("the algo of a signer");
    out.write_map(signer.org ? 4 : 3);
    out.write_text("id");
    out.write_text(signer.id);
    out.write_text("key");
    out.write_bytes(as_bytes(signer.key));
    if (signer.org) {
      out.write_text("org");
      out.write_text(*signer.org);
    }
    out.write_text("algo");
    out.write_text(signer.algo);
  }
  out.finish();
  return item;
}

}  // namespace cairn::format
