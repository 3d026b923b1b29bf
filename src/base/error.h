// Error: a failure that a caller may meet and act on. Sixteen bytes, trivially copyable, no allocation.
//
// `context` is a string literal that names the failed operation. Details that need formatting belong in a log
// line or in the answer's `details`, never here.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace cairn {

enum class ErrorCode : std::uint8_t {
#define ERROR_CODE(name, status, retry) name,
#include "base/error_codes.def"
#undef ERROR_CODE
};

// The side at fault: decides blame in metrics and whether a breaker counts the error.
enum class Side : std::uint8_t { client, self, upstream };
enum class Retry : std::uint8_t { no, now, later };

// Why a wait ended early. `none` for every error but `cancelled` and `timeout`.
enum class StopReason : std::uint8_t { none, deadline, client_gone, draining, superseded, aborted };

struct Error {
  const char* context = "";
  ErrorCode code = ErrorCode::internal;
  Side side = Side::self;
  StopReason stop = StopReason::none;
  // Set: the operation was never begun and had no effect, so it may be asked for again. Not set: it may have
  // had an effect, unless the code says otherwise.
  bool undone = false;

  constexpr Error() = default;
  constexpr Error(ErrorCode code_, const char* context_, Side side_ = Side::self,
                  StopReason stop_ = StopReason::none)
      : context(context_), code(code_), side(side_), stop(stop_) {}

  Retry retry() const noexcept;
  constexpr Error as_undone() const noexcept {
    Error same = *this;
    same.undone = true;
    return same;
  }
  // Errors are equal when code and reason agree; context is for people.
  friend bool operator==(const Error& a, const Error& b) noexcept {
    return a.code == b.code && a.stop == b.stop;
  }
};
static_assert(sizeof(Error) <= 16);

std::string_view name_of(ErrorCode code) noexcept;
std::string_view name_of(StopReason reason) noexcept;
int status_of(ErrorCode code) noexcept;  // 0: no HTTP answer of its own
std::optional<ErrorCode> find_error_code(std::string_view name) noexcept;

}  // namespace cairn
