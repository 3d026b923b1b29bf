#include "services/index/documents.h"

#include "codec/base64.h"

namespace cairn::index {
namespace {

// A record that is in force for longer says nothing about today.
constexpr Duration longest_life = Duration::seconds(48 * 3600);

}  // namespace

Result<Wish> read_wish(codec::JsonReader& reader, std::string_view document) {
  TRY(const codec::JsonValue root, reader.parse(document));
  TRY(codec::JsonObject object, root.object());
  TRY(const std::string_view manifest, object.required_string("manifest"));
  TRY(const auto note, object.optional_string("note"));
  TRY_VOID(object.finish());
  const auto address = parse_address(manifest);
  if (!address) return fail(ErrorCode::malformed, "the manifest of a name is an address, b3:…", Side::client);
  return Wish{*address, std::string(note.value_or(""))};
}

Result<Announcements> read_announcements(codec::JsonReader& reader, std::string_view document, WallTime now) {
  TRY(const codec::JsonValue root, reader.parse(document));
  TRY(codec::JsonObject object, root.object());
  TRY(const codec::JsonValue list, object.required("records"));
  TRY_VOID(object.finish());
  TRY(const codec::JsonItems items, list.items());
  Announcements batch;
  std::size_t count = 0;
  for (const codec::JsonValue& item : items) {
    if (++count > records_most) return item.refuse("a batch has at most 1000 records");
    TRY(const std::string_view text, item.as_string());
    auto bytes = codec::decode_base64(text);
    if (!bytes) return item.refuse("a record is base64");
    auto record = format::decode_provider_record(as_bytes(*bytes));
    if (!record && record.error().code != ErrorCode::invalid_sig) return item.refuse("not a provider record");
    if (!record)
      ++batch.forged;
    else if (record->expiry <= now || record->expiry.ms - now.ms > longest_life.ns / 1'000'000)
      ++batch.expired;
    else
      batch.records.push_back({std::move(*record), std::move(*bytes)});
  }
  return batch;
}

}  // namespace cairn::index
