// HeadWriter: a response head written into the caller's memory. No allocation.
//
// If room runs out, or a name or value would break the framing (CR, LF, NUL, other control characters), the
// writer fails for good: finish() then returns nothing, and no part of the head may be sent.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/units.h"
#include "http/field_list.h"
#include "http/fields.h"

namespace cairn::http {

// "" for a status without a name here; the empty reason is legal on the wire.
std::string_view reason_of(int status) noexcept;
class HeadWriter {
 public:
  explicit HeadWriter(std::span<char> out) noexcept
      : begin_(out.data()), at_(out.data()), end_(out.data() + out.size()) {}

  // `HTTP/1.1 200 OK`. First, once; 100..599.
  HeadWriter& status(int status) noexcept;
  HeadWriter& append_field(std::string_view name, std::string_view value) noexcept;
  HeadWriter& append_field(FieldName name, std::string_view value) noexcept {
    return append_field(name_of(name), value);
  }
  HeadWriter& append_number(std::string_view name, std::uint64_t value) noexcept;
  HeadWriter& append_number(FieldName name, std::uint64_t value) noexcept {
    return append_number(name_of(name), value);
  }
  HeadWriter& append_date(FieldName name, WallTime time) noexcept;
  // Whole field lines, each with its CRLF, that were checked when they were made.
  HeadWriter& append_lines(std::string_view lines) noexcept;
  // `GET /path HTTP/1.1`, for the client, instead of status(). Fails on blanks or control characters.
  HeadWriter& request(std::string_view method, std::string_view target) noexcept;

  // The empty line, and the whole head; nothing when the writer has failed.
  std::optional<std::string_view> finish() noexcept;
  bool failed() const noexcept { return failed_; }

 private:
  char* take(std::size_t size) noexcept;  // nullptr and failed when there is no room

  char* begin_;
  char* at_;
  char* end_;
  bool failed_ = false;
};

}  // namespace cairn::http
