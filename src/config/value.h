// Value: the typed value of a configuration key, and its text forms.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/units.h"

namespace cairn::config {

enum class Type : std::uint8_t { boolean, integer, duration, bytes, rate, real, string, list, choice };

// One of a key's declared words, by position.
struct Choice {
  std::uint32_t index = 0;
  friend bool operator==(Choice, Choice) = default;
};

// In the order of Type.
using Value = std::variant<bool, std::int64_t, Duration, Bytes, Rate, double, std::string,
                           std::vector<std::string>, Choice>;

inline Type type_of(const Value& value) noexcept { return static_cast<Type>(value.index()); }

// A value as a source gives it, before it is converted to its key's type. Flags and the environment give Text
// (any type, written out); the others are the types of TOML.
struct Text {
  std::string text;
};
// A date, a table, an array of other types than strings: never the value of a key.
struct Unsupported {
  std::string what;
};
using Raw =
    std::variant<Text, bool, std::int64_t, double, std::string, std::vector<std::string>, Unsupported>;

// The unit of a plain number under another name: `timeout_secs = 5`.
enum class Unit : std::uint8_t { same, seconds, millis };

// The value, or the rule that the raw value breaks ("must be …"). Strings are UTF-8 without control
// characters.
std::expected<Value, std::string> convert(const Raw& raw, Type type, const std::vector<std::string>& choices,
                                          Unit unit = Unit::same);

// -1, 0, 1. Only for two values of one ordered type (numbers and types with a unit).
int compare(const Value& a, const Value& b);

constexpr std::string_view redacted = "[redacted]";  // printed in place of a secret

// As a flag or a variable would write it; lists with commas.
std::string format_value(const Value& value, const std::vector<std::string>& choices);
// As TOML and as JSON would write it.
std::string format_toml(const Value& value, const std::vector<std::string>& choices);
std::string format_json(const Value& value, const std::vector<std::string>& choices);
// For problem lines: one line, even when the value has line breaks.
std::string format_raw(const Raw& raw);
std::string quote(std::string_view text);

}  // namespace cairn::config
