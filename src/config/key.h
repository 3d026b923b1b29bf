// KeySpec: the one declaration of a configuration key. The parser, the environment's name, the help, the
// printed configuration, the docs and the reload class all come from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "config/value.h"

namespace cairn::config {

class Schema;

// Whether a changed value takes effect at a reload or only at the next start.
enum class Reload : std::uint8_t { live, restart };

// A spelling that means the same key.
struct OtherName {
  std::string name;
  Unit unit = Unit::same;
};

// A rule beyond type and range: `text` completes "must be …".
struct Check {
  std::string text;
  std::function<bool(const Value&)> holds;
};

struct KeySpec {
  std::string name;           // "server.max_conns"
  std::string default_value;  // as a flag would write it
  std::string doc;            // a sentence or two, for people
  Reload reload = Reload::live;
  std::optional<std::string> min = {}, max = {};  // inclusive, written like the default
  std::vector<std::string> choices = {};          // only for an enum: its names, in its order
  std::vector<OtherName> other_names = {};
  std::optional<std::string> danger_above = {};  // a larger value needs safety.danger_ok
  std::optional<Check> check = {};
  bool built = true;    // false: giving the key is refused, because its feature is not built yet
  bool secret = false;  // prints as [redacted]
};

// A declared key's place in its schema; reads its value from a snapshot. Made by Schema::add.
template <class T>
struct Key {
  const Schema* schema = nullptr;
  std::size_t index = 0;
};

template <class T>
constexpr Type key_type() {
  if constexpr (std::is_same_v<T, bool>)
    return Type::boolean;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return Type::integer;
  else if constexpr (std::is_same_v<T, Duration>)
    return Type::duration;
  else if constexpr (std::is_same_v<T, Bytes>)
    return Type::bytes;
  else if constexpr (std::is_same_v<T, Rate>)
    return Type::rate;
  else if constexpr (std::is_same_v<T, double>)
    return Type::real;
  else if constexpr (std::is_same_v<T, std::string>)
    return Type::string;
  else if constexpr (std::is_same_v<T, std::vector<std::string>>)
    return Type::list;
  else {
    static_assert(std::is_enum_v<T>,
                  "a key is a bool, int64_t, Duration, Bytes, Rate, double, string, list or enum");
    return Type::choice;
  }
}

}  // namespace cairn::config
