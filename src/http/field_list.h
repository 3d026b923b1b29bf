// FieldList: the fields of an answer, in the order in which they were added.
//
// They are kept as HTTP/1.1 sends them, each ended by CR LF, so that an HTTP/1.1 connection copies them in
// one piece. Other carriers walk over them with each(). The fields of a usual answer fit inside the object.
// Larger lists, such as those of an answer that is passed on, are on the heap.
//   [FL-1] A name or a value that could end its line, or a field beyond size_max, makes the list fail for
//         good: no part of it may be sent.
//   [FL-2] Fields added before keep() outlive clear(), which also takes a failure back.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "http/scan.h"

namespace cairn::http {

inline constexpr std::size_t decimal_size_max = 20;
// Digits of `value` into `out` (at least decimal_size_max); gives their number.
std::size_t format_decimal_to(std::uint64_t value, char* out) noexcept;

// A token.
bool is_field_name(std::string_view name) noexcept;
// No control character but HTAB: nothing that could end the line it stands in.
bool is_field_value(std::string_view value) noexcept;

// Field lines written as a literal in the source, each ended by CR LF. They are checked at compile time.
class FieldLines {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): a literal is what it is made of
  consteval FieldLines(const char* text) : text_(text) {
    for (std::string_view rest = text_; !rest.empty();) {
      const std::size_t end = rest.find("\r\n"), colon = rest.find(": ");
      if (colon == 0 || colon >= end || end == std::string_view::npos) throw "not a field line";
      for (const char c : rest.substr(0, colon))
        if (!is_token_character(c)) throw "not a field name";
      for (const char c : rest.substr(colon, end - colon))
        if (is_control(c)) throw "not a field value";
      rest.remove_prefix(end + 2);
    }
  }
  constexpr std::string_view text() const noexcept { return text_; }

 private:
  std::string_view text_;
};

class FieldList {
 public:
  // As much as the largest head that the parsers accept can hold.
  static constexpr std::size_t size_max = std::size_t{32} << 10;
  static constexpr std::size_t inside_size = 1024;

  // False: the list has failed (FL-1).
  bool add(std::string_view name, std::string_view value) noexcept;
  bool add_number(std::string_view name, std::uint64_t value) noexcept;
  bool add(FieldLines lines) noexcept;

  bool failed() const noexcept { return failed_; }
  // Each as `Name: value` and CR LF.
  std::string_view lines() const noexcept { return {at(), size_}; }
  // f(name, value) for each field, in order.
  template <class F>
  void each(F f) const {
    for (std::string_view rest = lines(); !rest.empty();) {
      const std::size_t colon = rest.find(':'), end = rest.find("\r\n");
      f(rest.substr(0, colon), rest.substr(colon + 2, end - colon - 2));
      rest.remove_prefix(end + 2);
    }
  }
  // The first one's value. Case does not matter.
  std::optional<std::string_view> find(std::string_view name) const noexcept;

  void keep() noexcept { kept_ = size_; }
  void clear() noexcept;
  // Like clear(), but forgets the kept fields too.
  void reset() noexcept {
    kept_ = 0;
    clear();
  }

 private:
  const char* at() const noexcept { return outside_ ? outside_.get() : inside_.data(); }
  // Room for `size` bytes, or nullptr: the list has failed.
  char* take(std::size_t size) noexcept;
  bool grow(std::size_t least) noexcept;

  std::array<char, inside_size> inside_;
  std::unique_ptr<char[]> outside_;  // used instead of inside_ once that is too small
  std::size_t capacity_ = inside_size;
  std::size_t size_ = 0;
  std::size_t kept_ = 0;
  bool failed_ = false;
};

}  // namespace cairn::http
