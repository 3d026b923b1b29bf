// Result<T>: a value or an Error. Every failure that a caller may meet is returned so; an exception is a bug.
#pragma once

#include <expected>
#include <utility>

#include "base/error.h"

namespace cairn {

template <class T = void>
using Result = std::expected<T, Error>;

inline std::unexpected<Error> fail(Error error) noexcept { return std::unexpected<Error>(error); }
inline std::unexpected<Error> fail(ErrorCode code, const char* context, Side side = Side::self) noexcept {
  return std::unexpected<Error>(Error(code, context, side));
}

}  // namespace cairn

#define CAIRN_JOIN_(a, b) a##b
#define CAIRN_JOIN(a, b) CAIRN_JOIN_(a, b)

// TRY(auto x, f()): x is f()'s value, or the enclosing function returns f()'s error.
#define TRY(declaration, expression) TRY_WITH_(return, CAIRN_JOIN(result_, __LINE__), declaration, expression)
// The same inside a coroutine; `expression` may contain co_await.
#define CO_TRY(declaration, expression) \
  TRY_WITH_(co_return, CAIRN_JOIN(result_, __LINE__), declaration, expression)
#define TRY_WITH_(leave, name, declaration, expression) \
  auto name = (expression);                             \
  if (!name) [[unlikely]]                               \
    leave ::cairn::fail(name.error());                  \
  declaration = std::move(*name)

// TRY_VOID(f()): the enclosing function returns f()'s error if there is one.
#define TRY_VOID(expression)                                \
  do {                                                      \
    if (auto result_ = (expression); !result_) [[unlikely]] \
      return ::cairn::fail(result_.error());                \
  } while (false)
#define CO_TRY_VOID(expression)                             \
  do {                                                      \
    if (auto result_ = (expression); !result_) [[unlikely]] \
      co_return ::cairn::fail(result_.error());             \
  } while (false)
