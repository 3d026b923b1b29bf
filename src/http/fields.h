// Fields: the header section of one message as views into the buffer it arrived in.
//
// Nothing is copied: a field is four 16-bit offsets and the id of its name, so that a hundred of them
// are one kilobyte. The buffer may move while the head is still arriving (rebase); it must stay while
// views are in use. FieldScanner fills it; both kinds of head share that code.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/result.h"

namespace cairn::http {

enum class FieldName : std::uint8_t {
  other,  // any name that field_names.def does not list
#define FIELD_NAME(name, text) name,
#include "http/field_names.def"
#undef FIELD_NAME
  count_
};
constexpr std::size_t field_name_count = static_cast<std::size_t>(FieldName::count_);
static_assert(field_name_count <= 64);

std::string_view name_of(FieldName name) noexcept;
// `other` when the name is not in the table. Case does not matter.
FieldName find_field_name(std::string_view text) noexcept;

class Fields {
 public:
  static constexpr std::size_t capacity = 100;

  Fields() noexcept { clear(); }
  void clear() noexcept;
  // The head's first byte is now at `base`.
  void rebase(const char* base) noexcept { base_ = base; }

  std::size_t size() const noexcept { return count_; }
  std::string_view name(std::size_t i) const noexcept { return {base_ + at_[i].name_at, at_[i].name_size}; }
  std::string_view value(std::size_t i) const noexcept {
    return {base_ + at_[i].value_at, at_[i].value_size};
  }
  FieldName known(std::size_t i) const noexcept { return at_[i].known; }

  bool has(FieldName name) const noexcept { return first_[index(name)] != none; }
  bool repeated(FieldName name) const noexcept { return (repeated_ >> index(name) & 1) != 0; }
  // The first one's value; `get` gives "" when there is none.
  std::optional<std::string_view> find(FieldName name) const noexcept {
    if (!has(name)) return std::nullopt;
    return value(first_[index(name)]);
  }
  std::string_view get(FieldName name) const noexcept {
    return has(name) ? value(first_[index(name)]) : std::string_view{};
  }
  // Any name, by text; walks all fields.
  std::optional<std::string_view> find(std::string_view name) const noexcept;

  // f(value) for each field of that name, in order; f returns false to stop.
  template <class F>
  void each(FieldName name, F f) const {
    if (!has(name)) return;
    for (std::size_t i = first_[index(name)]; i < count_; ++i)
      if (at_[i].known == name && !f(value(i))) return;
  }

 private:
  friend class FieldScanner;
  struct Field {
    std::uint16_t name_at, name_size, value_at, value_size;
    FieldName known;
  };
  static constexpr std::uint8_t none = 255;
  static constexpr std::size_t index(FieldName name) noexcept { return static_cast<std::size_t>(name); }
  void add(const Field& field) noexcept;

  const char* base_ = nullptr;
  std::uint64_t repeated_;
  std::uint8_t count_;
  std::array<std::uint8_t, field_name_count> first_;
  std::array<Field, capacity> at_;  // only the first count_ are meaningful
};

// Where a parser stands after the bytes it was given. `size` (complete) is the length of the head.
enum class Progress : std::uint8_t { need_more, complete, failed };
struct Parsed {
  Progress progress = Progress::need_more;
  std::uint32_t size = 0;
  Error error;
};

// Reads field lines up to and including the empty line. Strict: CRLF only, no folding, names are tokens with
// the colon directly behind, values hold no control character but HTAB. Each byte is looked at once. Between
// calls the scanner remembers a position, not a pointer.
class FieldScanner {
 public:
  // Scanning starts at offset `at` of the head.
  void start(std::size_t at) noexcept;
  // `head` is everything from the head's first byte. Fails with malformed or, at the 101st field,
  // headers_too_large.
  Parsed scan(std::string_view head, Fields& fields) noexcept;

 private:
  enum class State : std::uint8_t { line, name, before_value, value, line_feed, last_line_feed };
  State state_ = State::line;
  std::uint32_t position_ = 0;  // the next byte to look at
  std::uint32_t name_at_ = 0;
  std::uint32_t colon_at_ = 0;
  std::uint32_t value_at_ = 0;
  FieldName known_ = FieldName::other;
};

// Whether the comma-separated value holds `token` (lowercase) as an element, case-insensitively.
bool list_has(std::string_view value, std::string_view token) noexcept;
bool equals_ignoring_case(std::string_view text, std::string_view lowercase) noexcept;
// 1*DIGIT up to 2^63-1, so that sums of a few of them cannot wrap.
std::optional<std::uint64_t> parse_content_length(std::string_view text) noexcept;

}  // namespace cairn::http
