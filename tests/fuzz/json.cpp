// JsonReader against arbitrary bytes. What it accepts must be valid UTF-8 without duplicate keys, survive
// being written and read again unchanged, and be refused once one of its keys is doubled.
#include "codec/json_reader.h"

#include <bit>
#include <set>
#include <string>

#include "base/check.h"
#include "base/utf8.h"
#include "codec/json_writer.h"

namespace {

using namespace cairn;
using namespace cairn::codec;

// `doubled` repeats the first field of every object at its end.
void write(JsonWriter& json, const JsonValue& value, bool doubled) {
  switch (value.kind()) {
    case JsonKind::null:
      json.null();
      return;
    case JsonKind::boolean:
      json.value(*value.as_bool());
      return;
    case JsonKind::number:
      json.value(*value.as_double());
      return;
    case JsonKind::string:
      json.value(*value.as_string());
      return;
    case JsonKind::integer:
      if (auto number = value.as_int()) {
        json.value(*number);
      } else {
        json.value(*value.as_uint());
      }
      return;
    case JsonKind::array:
      json.begin_array();
      for (JsonValue item : *value.items()) write(json, item, doubled);
      json.end_array();
      return;
    case JsonKind::object: {
      json.begin_object();
      auto fields = *value.fields();
      for (JsonField field : fields) {
        json.key(field.key);
        write(json, field.value, doubled);
      }
      if (doubled && fields.begin() != fields.end()) json.key((*fields.begin()).key).null();
      json.end_object();
      return;
    }
  }
}

std::string written(const JsonValue& value, bool doubled) {
  std::string text;
  JsonWriter json(text);
  write(json, value, doubled);
  json.finish();
  return text;
}

bool equal(const JsonValue& a, const JsonValue& b) {
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case JsonKind::null:
      return true;
    case JsonKind::boolean:
      return *a.as_bool() == *b.as_bool();
    case JsonKind::number:
      return std::bit_cast<std::uint64_t>(*a.as_double()) == std::bit_cast<std::uint64_t>(*b.as_double());
    case JsonKind::string:
      return is_utf8(*a.as_string()) && *a.as_string() == *b.as_string();
    case JsonKind::integer:
      return a.as_int() == b.as_int() && a.as_uint() == b.as_uint();
    case JsonKind::array: {
      auto items = *b.items();
      auto other = items.begin();
      for (JsonValue item : *a.items()) {
        if (other == items.end() || !equal(item, *other)) return false;
        ++other;
      }
      return other == items.end();
    }
    case JsonKind::object: {
      std::set<std::string_view> keys;
      auto fields = *b.fields();
      auto other = fields.begin();
      for (JsonField field : *a.fields()) {
        if (!is_utf8(field.key) || !keys.insert(field.key).second) return false;
        if (other == fields.end() || field.key != (*other).key || !equal(field.value, (*other).value))
          return false;
        ++other;
      }
      return other == fields.end();
    }
  }
  return false;
}

// A closed object that asks for every field is finished; one that leaves the last out is not.
void check_object(const JsonValue& value) {
  std::size_t count = 0;
  auto all = *value.object();
  auto but_last = *value.object();
  std::optional<std::string_view> last;
  for (JsonField field : *value.fields()) {
    CHECK(all.required(field.key).has_value());
    if (last) CHECK(but_last.find(*last).has_value());
    last = field.key;
    ++count;
  }
  CHECK(all.finish().has_value() == (count <= 64));
  CHECK(but_last.finish().has_value() == (count == 0));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  JsonReader reader({.bytes = 1 << 16});
  auto value = reader.parse(text);
  if (!value) {
    CHECK(value.error().code == ErrorCode::malformed);
    CHECK(!reader.detail().empty() && reader.detail().size() <= JsonReader::detail_max &&
          is_utf8(reader.detail()));
    return 0;
  }
  CHECK(is_utf8(text));
  // Writing a short double in full may make the text longer than the limit of the first reading.
  JsonReader again({.bytes = 1 << 24});
  std::string canonical = written(*value, false);
  auto same = again.parse(canonical);
  CHECK(same.has_value() && equal(*value, *same) && written(*same, false) == canonical);
  if (value->kind() == JsonKind::object) check_object(*value);
  std::string doubled = written(*value, true);
  if (doubled != canonical) CHECK(!again.parse(doubled).has_value());
  return 0;
}
