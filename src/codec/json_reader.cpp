#include "codec/json_reader.h"

#include "base/ascii.h"

#include <simdjson.h>

#include <algorithm>
#include <bit>
#include <new>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "codec/json_writer.h"

namespace cairn::codec {

namespace dom = simdjson::dom;

namespace {

constexpr std::size_t path_key_max = 48;

bool is_plain_key(std::string_view key) {
  auto plain = [](char c) { return is_letter_or_digit(c) || c == '_'; };
  return !key.empty() && key.size() <= path_key_max && std::ranges::all_of(key, plain);
}

void append_key(std::string& path, std::string_view key) {
  if (is_plain_key(key)) {
    path += '.';
    path += key;
    return;
  }
  path += '[';
  append_json_string(path, utf8_prefix(key, path_key_max));
  path += ']';
}

}  // namespace

// simdjson's elements and iterators are all a document and an index into its tape. Passing them as plain
// places keeps its very large header out of ours and gives a value an identity to search for.
struct JsonState {
  using Place = JsonValue::Place;

  explicit JsonState(JsonLimits limits_) : limits(limits_) {
    // simdjson's own bound counts differently around empty containers, so it only keeps simdjson's stack
    // small; check() enforces the exact limit.
    if (parser.allocate(dom::MINIMAL_DOCUMENT_CAPACITY, limits.depth + 2) != simdjson::SUCCESS)
      throw std::bad_alloc();
  }

  static dom::element element(Place place) noexcept { return std::bit_cast<dom::element>(place); }
  static dom::element element(const JsonValue& value) noexcept { return element(value.place_); }
  template <class Any>
  static Place place(const Any& any) noexcept {
    return std::bit_cast<Place>(any);
  }
  JsonValue value(Place place) noexcept { return {this, place}; }

  // Our rules beyond the grammar, for `here` and all below it.
  Result<> check(dom::element here, std::size_t depth);
  Result<> check_keys(dom::element here, dom::object object);
  bool locate(dom::element here, Place target, std::string& path) const;
  std::string path_to(Place target) const;
  std::unexpected<Error> refuse(std::string path, std::string_view what, const char* context);

  JsonLimits limits;
  dom::parser parser;
  std::optional<dom::element> root;
  std::vector<std::string_view> keys;
  std::string detail;
};

std::unexpected<Error> JsonState::refuse(std::string path, std::string_view what, const char* context) {
  // The reason matters more than the far end of a long path.
  constexpr std::string_view cut = "...";
  std::size_t room = JsonReader::detail_max - std::min(what.size() + cut.size() + 2, JsonReader::detail_max);
  if (path.size() > room) path = std::string(utf8_prefix(path, room)).append(cut);
  detail = path.append(": ").append(what);
  detail.resize(utf8_prefix(detail, JsonReader::detail_max).size());
  return fail(ErrorCode::malformed, context, Side::client);
}

bool JsonState::locate(dom::element here, Place target, std::string& path) const {
  if (place(here).index == target.index) return true;
  std::size_t size = path.size();
  if (dom::array array; !here.get(array)) {
    std::size_t i = 0;
    for (dom::element item : array) {
      path.append("[").append(std::to_string(i++)).append("]");
      if (locate(item, target, path)) return true;
      path.resize(size);
    }
  } else if (dom::object object; !here.get(object)) {
    for (auto [key, content] : object) {
      append_key(path, key);
      if (locate(content, target, path)) return true;
      path.resize(size);
    }
  }
  return false;
}

// Searched for only when something is refused, so that accepted documents pay nothing for paths.
std::string JsonState::path_to(Place target) const {
  std::string path = "$";
  CHECK(root && locate(*root, target, path));
  return path;
}

Result<> JsonState::check_keys(dom::element here, dom::object object) {
  keys.clear();
  for (auto [key, content] : object) keys.push_back(key);
  // Sorted rather than hashed: no choice of keys makes it slow.
  std::ranges::sort(keys);
  if (auto twice = std::ranges::adjacent_find(keys); twice != keys.end()) {
    std::string path = path_to(place(here));
    append_key(path, *twice);
    return refuse(std::move(path), "duplicate field", "JSON: duplicate field");
  }
  return {};
}

Result<> JsonState::check(dom::element here, std::size_t depth) {
  if (dom::array array; !here.get(array)) {
    if (depth == limits.depth) return refuse(path_to(place(here)), "nested too deeply", "JSON: too deep");
    for (dom::element item : array) TRY_VOID(check(item, depth + 1));
  } else if (dom::object object; !here.get(object)) {
    if (depth == limits.depth) return refuse(path_to(place(here)), "nested too deeply", "JSON: too deep");
    TRY_VOID(check_keys(here, object));
    for (auto [key, content] : object) TRY_VOID(check(content, depth + 1));
  }
  return {};
}

JsonReader::JsonReader(JsonLimits limits) : state_(std::make_unique<JsonState>(limits)) {}
JsonReader::JsonReader(JsonReader&&) noexcept = default;
JsonReader& JsonReader::operator=(JsonReader&&) noexcept = default;
JsonReader::~JsonReader() = default;

const std::string& JsonReader::detail() const noexcept { return state_->detail; }

Result<JsonValue> JsonReader::parse(std::string_view text) {
  JsonState& state = *state_;
  state.root.reset();
  state.detail.clear();
  if (text.size() > state.limits.bytes) return state.refuse("$", "too many bytes", "JSON: too many bytes");
  if (text.empty()) return state.refuse("$", "no value", "JSON: no value");
  dom::element root;
  if (auto error = state.parser.parse(text.data(), text.size()).get(root); error != simdjson::SUCCESS) {
    if (error == simdjson::MEMALLOC) throw std::bad_alloc();
    if (error == simdjson::DEPTH_ERROR) return state.refuse("$", "nested too deeply", "JSON: too deep");
    return state.refuse("$", "not valid JSON", "JSON: not valid");
  }
  state.root = root;
  TRY_VOID(state.check(root, 0));
  return state.value(JsonState::place(root));
}

JsonKind JsonValue::kind() const noexcept {
  switch (JsonState::element(*this).type()) {
    case dom::element_type::ARRAY:
      return JsonKind::array;
    case dom::element_type::OBJECT:
      return JsonKind::object;
    case dom::element_type::INT64:
    case dom::element_type::UINT64:
      return JsonKind::integer;
    case dom::element_type::DOUBLE:
      return JsonKind::number;
    case dom::element_type::STRING:
      return JsonKind::string;
    case dom::element_type::BOOL:
      return JsonKind::boolean;
    case dom::element_type::NULL_VALUE:
      return JsonKind::null;
  }
  CHECK(false);
  return JsonKind::null;
}

std::unexpected<Error> JsonValue::refuse(const char* why) const {
  return state_->refuse(state_->path_to(place_), why, "JSON: refused value");
}

Result<bool> JsonValue::as_bool() const {
  bool flag = false;
  if (JsonState::element(*this).get(flag)) return refuse("expected true or false");
  return flag;
}

Result<std::int64_t> JsonValue::as_int() const {
  std::int64_t number = 0;
  if (JsonState::element(*this).get(number))
    return refuse(kind() == JsonKind::integer ? "out of range" : "expected an integer");
  return number;
}

Result<std::uint64_t> JsonValue::as_uint() const {
  std::uint64_t number = 0;
  if (JsonState::element(*this).get(number))
    return refuse(kind() == JsonKind::integer ? "out of range" : "expected an integer");
  return number;
}

Result<double> JsonValue::as_double() const {
  double number = 0;
  if (JsonState::element(*this).get(number)) return refuse("expected a number");
  return number;
}

Result<std::string_view> JsonValue::as_string() const {
  std::string_view text;
  if (JsonState::element(*this).get(text)) return refuse("expected a string");
  return text;
}

Result<JsonItems> JsonValue::items() const {
  if (kind() != JsonKind::array) return refuse("expected an array");
  return JsonItems::of(*this);
}

Result<JsonFields> JsonValue::fields() const {
  if (kind() != JsonKind::object) return refuse("expected an object");
  return JsonFields::of(*this);
}

Result<JsonObject> JsonValue::object() const {
  if (kind() != JsonKind::object) return refuse("expected an object");
  return JsonObject(*this);
}

JsonItems JsonItems::of(const JsonValue& array) noexcept {
  dom::array items;
  CHECK(!JsonState::element(array).get(items));
  JsonValue first = array.state_->value(JsonState::place(items.begin()));
  return JsonItems(Iterator(first, JsonState::place(items.end()).index));
}

JsonItems::Iterator& JsonItems::Iterator::operator++() noexcept {
  auto next = std::bit_cast<dom::array::iterator>(at_.place_);
  at_.place_ = JsonState::place(++next);
  return *this;
}

JsonFields JsonFields::of(const JsonValue& object) noexcept {
  dom::object fields;
  CHECK(!JsonState::element(object).get(fields));
  JsonValue first = object.state_->value(JsonState::place(fields.begin()));
  return JsonFields(Iterator(first, JsonState::place(fields.end()).index));
}

JsonField JsonFields::Iterator::operator*() const noexcept {
  auto here = std::bit_cast<dom::object::iterator>(at_.place_);
  return {here.key(), at_.state_->value(JsonState::place(here.value()))};
}

JsonFields::Iterator& JsonFields::Iterator::operator++() noexcept {
  auto next = std::bit_cast<dom::object::iterator>(at_.place_);
  at_.place_ = JsonState::place(++next);
  return *this;
}

std::optional<JsonValue> JsonObject::find(std::string_view name) {
  unsigned i = 0;
  for (JsonField field : JsonFields::of(value_)) {
    if (field.key == name) {
      if (i < 64) asked_ |= std::uint64_t{1} << i;
      return field.value;
    }
    ++i;
  }
  return std::nullopt;
}

Result<> JsonObject::finish() const {
  unsigned i = 0;
  for (JsonField field : JsonFields::of(value_)) {
    if (i >= 64 || (asked_ >> i & 1) == 0) {
      std::string path = value_.state_->path_to(value_.place_);
      append_key(path, field.key);
      return value_.state_->refuse(std::move(path), "unknown field", "JSON: unknown field");
    }
    ++i;
  }
  return {};
}

std::unexpected<Error> JsonObject::refuse(std::string_view name, const char* why) const {
  std::string path = value_.state_->path_to(value_.place_);
  append_key(path, name);
  return value_.state_->refuse(std::move(path), why, "JSON: refused value");
}

Result<JsonValue> JsonObject::required(std::string_view name) {
  if (auto value = find(name)) return *value;
  return refuse(name, "required field is missing");
}

namespace {

template <class T>
Result<T> read_required(JsonObject& object, std::string_view name, Result<T> (JsonValue::*read)() const) {
  TRY(JsonValue value, object.required(name));
  return (value.*read)();
}

template <class T>
Result<std::optional<T>> read_optional(JsonObject& object, std::string_view name,
                                       Result<T> (JsonValue::*read)() const) {
  auto value = object.find(name);
  if (!value) return std::optional<T>();
  TRY(T content, ((*value).*read)());
  return std::optional<T>(std::move(content));
}

}  // namespace

Result<bool> JsonObject::required_bool(std::string_view name) {
  return read_required(*this, name, &JsonValue::as_bool);
}
Result<std::int64_t> JsonObject::required_int(std::string_view name) {
  return read_required(*this, name, &JsonValue::as_int);
}
Result<std::uint64_t> JsonObject::required_uint(std::string_view name) {
  return read_required(*this, name, &JsonValue::as_uint);
}
Result<double> JsonObject::required_double(std::string_view name) {
  return read_required(*this, name, &JsonValue::as_double);
}
Result<std::string_view> JsonObject::required_string(std::string_view name) {
  return read_required(*this, name, &JsonValue::as_string);
}
Result<JsonItems> JsonObject::required_items(std::string_view name) {
  return read_required(*this, name, &JsonValue::items);
}
Result<JsonObject> JsonObject::required_object(std::string_view name) {
  return read_required(*this, name, &JsonValue::object);
}

Result<std::optional<bool>> JsonObject::optional_bool(std::string_view name) {
  return read_optional(*this, name, &JsonValue::as_bool);
}
Result<std::optional<std::int64_t>> JsonObject::optional_int(std::string_view name) {
  return read_optional(*this, name, &JsonValue::as_int);
}
Result<std::optional<std::uint64_t>> JsonObject::optional_uint(std::string_view name) {
  return read_optional(*this, name, &JsonValue::as_uint);
}
Result<std::optional<double>> JsonObject::optional_double(std::string_view name) {
  return read_optional(*this, name, &JsonValue::as_double);
}
Result<std::optional<std::string_view>> JsonObject::optional_string(std::string_view name) {
  return read_optional(*this, name, &JsonValue::as_string);
}
Result<std::optional<JsonItems>> JsonObject::optional_items(std::string_view name) {
  return read_optional(*this, name, &JsonValue::items);
}
Result<std::optional<JsonObject>> JsonObject::optional_object(std::string_view name) {
  return read_optional(*this, name, &JsonValue::object);
}

}  // namespace cairn::codec
