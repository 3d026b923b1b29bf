// Query: the parameters behind the '?', decoded once. Nothing is allocated.
//
// Strict, because two readers of one query must not see different things: `name=value` joined by '&', every
// name once, '+' is a plus and no blank, escapes are two hex digits, decoded text is UTF-8 without control
// characters. A value may hold further '='. Anything else, or more than 32 pairs, is malformed.
#pragma once

#include <array>
#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"

namespace cairn::http {

class Query {
 public:
  static constexpr std::size_t capacity = 32;
  struct Pair {
    std::string_view name, value;
  };

  std::optional<std::string_view> find(std::string_view name) const noexcept;
  // malformed when a name is there that is not among `names`: a misspelt parameter must not be ignored.
  Result<> allow_only(std::initializer_list<std::string_view> names) const noexcept;

  std::size_t size() const noexcept { return count_; }
  const Pair* begin() const noexcept { return pairs_.data(); }
  const Pair* end() const noexcept { return pairs_.data() + count_; }

 private:
  friend Result<Query> parse_query(std::string_view raw, std::span<char> buffer) noexcept;
  std::array<Pair, capacity> pairs_;
  std::size_t count_ = 0;
};

// `raw` is without the '?'; empty means no pairs. Names and values are views into `raw` or, where they had
// escapes, into `buffer`; both must outlive them. malformed when it is longer than `buffer`.
Result<Query> parse_query(std::string_view raw, std::span<char> buffer) noexcept;

}  // namespace cairn::http
