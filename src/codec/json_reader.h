// JsonReader: JSON as strangers send it, read strictly.
//
// Refused as malformed: all that RFC 8259 refuses, more bytes or nesting than the limits, a key twice in one
// object at any level, bytes after the value, a byte order mark, invalid UTF-8 (a lone surrogate escape
// included), and integers outside [-2^63, 2^64).
//
//   JsonReader reader;
//   TRY(JsonValue root, reader.parse(body));
//   TRY(JsonObject object, root.object());
//   TRY(auto name, object.required_string("name"));
//   TRY(auto size, object.optional_uint("size"));
//   TRY_VOID(object.finish());
//
// An Error's context is static; reader.detail() says which value was wrong and how, for the answer. Every
// error blames the client: a caller that reads an upstream's JSON changes the side. Values, ranges and
// strings are views: they live until the reader parses again or is destroyed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace cairn::codec {

struct JsonLimits {
  std::size_t bytes = std::size_t{1} << 20;
  std::size_t depth = 64;  // of containers: `[[]]` has depth 2
};

enum class JsonKind : std::uint8_t { null, boolean, integer, number, string, array, object };

struct JsonState;
class JsonItems;
class JsonFields;
class JsonObject;

class JsonValue {
 public:
  JsonKind kind() const noexcept;

  // No conversions: 1.0 and "1" are not integers. A double may be written as an integer.
  Result<bool> as_bool() const;
  Result<std::int64_t> as_int() const;
  Result<std::uint64_t> as_uint() const;
  Result<double> as_double() const;
  Result<std::string_view> as_string() const;
  Result<JsonItems> items() const;    // of an array
  Result<JsonFields> fields() const;  // of an object whose keys are data
  Result<JsonObject> object() const;  // of an object whose keys are known

  // Refuses a value of the right type with a wrong meaning: detail() becomes `<path>: <why>`.
  std::unexpected<Error> refuse(const char* why) const;

 private:
  friend class JsonReader;
  friend class JsonItems;
  friend class JsonFields;
  friend class JsonObject;
  friend struct JsonState;

  // The value's place in the parser; only json_reader.cpp can read one.
  struct Place {
    const void* document = nullptr;
    std::size_t index = 0;
  };

  JsonValue(JsonState* state, Place place) noexcept : state_(state), place_(place) {}

  JsonState* state_;
  Place place_;
};

struct JsonField {
  std::string_view key;
  JsonValue value;
};

class JsonItems {
 public:
  class Iterator {
   public:
    using value_type = JsonValue;
    using difference_type = std::ptrdiff_t;
    JsonValue operator*() const noexcept { return at_; }
    Iterator& operator++() noexcept;
    void operator++(int) noexcept { ++*this; }
    bool operator==(std::default_sentinel_t) const noexcept { return at_.place_.index == end_; }

   private:
    friend class JsonItems;
    Iterator(JsonValue at, std::size_t end) noexcept : at_(at), end_(end) {}
    JsonValue at_;
    std::size_t end_;
  };

  Iterator begin() const noexcept { return begin_; }
  std::default_sentinel_t end() const noexcept { return {}; }

 private:
  friend class JsonValue;
  explicit JsonItems(Iterator begin) noexcept : begin_(begin) {}
  static JsonItems of(const JsonValue& array) noexcept;
  Iterator begin_;
};

class JsonFields {
 public:
  class Iterator {
   public:
    using value_type = JsonField;
    using difference_type = std::ptrdiff_t;
    JsonField operator*() const noexcept;
    Iterator& operator++() noexcept;
    void operator++(int) noexcept { ++*this; }
    bool operator==(std::default_sentinel_t) const noexcept { return at_.place_.index == end_; }

   private:
    friend class JsonFields;
    Iterator(JsonValue at, std::size_t end) noexcept : at_(at), end_(end) {}
    JsonValue at_;  // the key's place
    std::size_t end_;
  };

  Iterator begin() const noexcept { return begin_; }
  std::default_sentinel_t end() const noexcept { return {}; }

 private:
  friend class JsonValue;
  friend class JsonObject;
  explicit JsonFields(Iterator begin) noexcept : begin_(begin) {}
  static JsonFields of(const JsonValue& object) noexcept;
  Iterator begin_;
};

// An object with a closed set of fields: those that the caller asked for. finish() refuses any other, and
// refuses an object of more than 64 fields. `null` is a value, not an absence.
class JsonObject {
 public:
  Result<JsonValue> required(std::string_view name);
  Result<bool> required_bool(std::string_view name);
  Result<std::int64_t> required_int(std::string_view name);
  Result<std::uint64_t> required_uint(std::string_view name);
  Result<double> required_double(std::string_view name);
  Result<std::string_view> required_string(std::string_view name);
  Result<JsonItems> required_items(std::string_view name);
  Result<JsonObject> required_object(std::string_view name);

  std::optional<JsonValue> find(std::string_view name);
  Result<std::optional<bool>> optional_bool(std::string_view name);
  Result<std::optional<std::int64_t>> optional_int(std::string_view name);
  Result<std::optional<std::uint64_t>> optional_uint(std::string_view name);
  Result<std::optional<double>> optional_double(std::string_view name);
  Result<std::optional<std::string_view>> optional_string(std::string_view name);
  Result<std::optional<JsonItems>> optional_items(std::string_view name);
  Result<std::optional<JsonObject>> optional_object(std::string_view name);

  [[nodiscard]] Result<> finish() const;

  // As JsonValue::refuse, for the field of that name.
  std::unexpected<Error> refuse(std::string_view name, const char* why) const;

 private:
  friend class JsonValue;
  explicit JsonObject(JsonValue value) noexcept : value_(value) {}

  JsonValue value_;
  std::uint64_t asked_ = 0;  // bit i: the object's i-th field was asked for
};

class JsonReader {
 public:
  explicit JsonReader(JsonLimits limits = {});
  JsonReader(JsonReader&&) noexcept;
  JsonReader& operator=(JsonReader&&) noexcept;
  ~JsonReader();

  // `text` is not needed once this returns. Views of an earlier parse become invalid.
  Result<JsonValue> parse(std::string_view text);

  // `$.items[3].size: expected an integer`: the place and the reason of the last refusal. At most detail_max
  // bytes of valid UTF-8; it quotes the sender's keys, never its values.
  static constexpr std::size_t detail_max = 256;
  const std::string& detail() const noexcept;

 private:
  std::unique_ptr<JsonState> state_;
};

}  // namespace cairn::codec
