#include "client/index_answer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/bytes.h"
#include "format/registry_field.h"

namespace cairn::client {
namespace {

using codec::JsonItems;
using codec::JsonObject;
using codec::JsonValue;

constexpr std::size_t providers_max = 32;

Result<Address> required_address(JsonObject& object, std::string_view name) {
  TRY(const JsonValue value, object.required(name));
  return format::parse_address_field(value);
}
Result<WallTime> required_time(JsonObject& object, std::string_view name) {
  TRY(const JsonValue value, object.required(name));
  return format::parse_time_field(value);
}
Result<std::string> required_name(JsonObject& object, std::string_view name) {
  TRY(const JsonValue value, object.required(name));
  TRY(const std::string_view text, format::parse_name_field(value));
  return std::string(text);
}
Result<std::string> required_text(JsonObject& object, std::string_view name) {
  TRY(const std::string_view text, object.required_string(name));
  return std::string(text);
}
Result<std::string> optional_text(JsonObject& object, std::string_view name) {
  TRY(const auto text, object.optional_string(name));
  return std::string(text.value_or(""));
}

// Sequences begin with 1.
Result<std::uint64_t> required_sequence(JsonObject& object, std::string_view name) {
  TRY(const std::uint64_t sequence, object.required_uint(name));
  if (sequence == 0) return object.refuse(name, "sequences begin with 1");
  return sequence;
}

Result<Provider> parse_provider(const JsonValue& value) {
  Provider one;
  TRY(JsonObject object, value.object());
  TRY(one.id, required_text(object, "id"));
  TRY(one.addr, required_text(object, "addr"));
  TRY(one.region, optional_text(object, "region"));
  // A number, or the name of one.
  if (const auto rank = object.find("class"); rank && rank->kind() == codec::JsonKind::string) {
    TRY(one.latency_class, required_text(object, "class"));
  } else if (rank) {
    TRY(const std::uint64_t number, rank->as_uint());
    one.latency_class = fmt::format("{}", number);
  }
  TRY(one.score, object.required_double("score"));
  TRY(one.last_seen_s, object.required_uint("last_seen_s"));
  return one;
}

Result<crypto::Ed25519PublicKey> required_hex_key(JsonObject& object, std::string_view name) {
  TRY(const std::string_view text, object.required_string(name));
  crypto::Ed25519PublicKey key;
  if (text.size() != 2 * key.size() || !parse_hex_to(text, key))
    return object.refuse(name, "expected 64 hex digits");
  return key;
}

Result<PastChange> parse_change(const JsonValue& value) {
  PastChange one;
  TRY(JsonObject object, value.object());
  TRY(one.sequence, required_sequence(object, "sequence"));
  TRY(const JsonValue manifest, object.required("manifest"));
  if (manifest.kind() != codec::JsonKind::null) {
    TRY(one.manifest, format::parse_address_field(manifest));
  }
  TRY(one.at, required_time(object, "at"));
  TRY(one.key, required_hex_key(object, "key"));
  TRY(one.by, optional_text(object, "by"));
  TRY(one.note, optional_text(object, "note"));
  return one;
}

}  // namespace

Result<Resolved> parse_resolved(const JsonValue& root) {
  Resolved resolved;
  TRY(JsonObject object, root.object());
  TRY(const std::string_view kind, object.required_string("kind"));
  if (kind != "name" && kind != "cid") return object.refuse("kind", "expected name or cid");
  resolved.kind = kind == "name" ? Resolved::Kind::name : Resolved::Kind::address;
  TRY(resolved.key, required_text(object, "key"));
  TRY(resolved.manifest, required_address(object, "manifest_cid"));
  TRY(resolved.source, required_text(object, "source"));
  TRY(resolved.etag, required_text(object, "etag"));
  TRY(resolved.freshness_s, object.required_uint("freshness_s"));
  TRY(resolved.providers_hint, optional_text(object, "providers_hint"));
  return resolved;
}

Result<Providers> parse_providers(const JsonValue& root) {
  Providers found;
  TRY(JsonObject object, root.object());
  TRY(found.address, required_address(object, "cid"));
  TRY(const JsonItems items, object.required_items("providers"));
  for (const JsonValue item : items) {
    if (found.providers.size() == providers_max) return item.refuse("more than 32 providers");
    TRY(Provider one, parse_provider(item));
    found.providers.push_back(std::move(one));
  }
  TRY(auto hedge, object.optional_object("hedge"));
  if (!hedge) return found;
  TRY(found.alpha_ms, hedge->optional_double("alpha_ms"));
  TRY(found.beta_ms, hedge->optional_double("beta_ms"));
  if (const auto winner = hedge->find("winner"); winner && winner->kind() != codec::JsonKind::null) {
    TRY(const std::string_view text, winner->as_string());
    found.winner = text;
  }
  return found;
}

Result<NamedObject> parse_named(const JsonValue& root) {
  NamedObject named;
  TRY(JsonObject object, root.object());
  TRY(named.name, required_name(object, "name"));
  if (const auto manifest = object.find("manifest"); manifest && manifest->kind() != codec::JsonKind::null) {
    TRY(named.manifest, format::parse_address_field(*manifest));
  }
  TRY(named.sequence, required_sequence(object, "sequence"));
  TRY(named.changed_at, required_time(object, "changed_at"));
  return named;
}

Result<HistoryOf> parse_history(const JsonValue& root) {
  HistoryOf read;
  std::vector<PastChange>& changes = read.history.changes;
  TRY(JsonObject object, root.object());
  TRY(read.name, required_name(object, "name"));
  TRY(const JsonItems items, object.required_items("changes"));
  for (const JsonValue item : items) {
    TRY(PastChange one, parse_change(item));
    if (!changes.empty() && one.sequence >= changes.back().sequence)
      return item.refuse("sequences must descend");
    changes.push_back(std::move(one));
  }
  TRY(read.history.next, object.optional_uint("next"));
  if (read.history.next && (changes.empty() || *read.history.next != changes.back().sequence))
    return object.refuse("next", "not the last change of the page");
  return read;
}

Result<NamePage> parse_names(const JsonValue& root) {
  NamePage page;
  TRY(JsonObject object, root.object());
  TRY(const JsonItems items, object.required_items("names"));
  for (const JsonValue item : items) {
    ListedName one;
    TRY(JsonObject listed, item.object());
    TRY(one.name, required_name(listed, "name"));
    TRY(one.manifest, required_address(listed, "manifest"));
    TRY(one.changed_at, required_time(listed, "changed_at"));
    if (!page.names.empty() && one.name <= page.names.back().name) return item.refuse("names must ascend");
    page.names.push_back(std::move(one));
  }
  if (object.find("next")) {
    TRY(page.next, required_name(object, "next"));
    if (!page.names.empty() && page.next < page.names.back().name)
      return object.refuse("next", "the list goes on before its own end");
  }
  return page;
}

}  // namespace cairn::client
