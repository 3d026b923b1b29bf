// CHECK: an invariant that, if false, means the process state cannot be trusted. Always on.
//
// A failed CHECK prints where and what, then ends the process: going on would turn a bug into wrong bytes. A
// fault of a peer, a disk or an operator is never a CHECK but a Result.
#pragma once

namespace cairn {

[[noreturn]] void check_failed(const char* expression, const char* file, int line) noexcept;

// Tests of the tools that find bugs (explorer, mutants) turn a failure into an exception; with no
// handler the process aborts. The handler must not return.
using CheckHandler = void (*)(const char* expression, const char* file, int line);
void set_check_handler(CheckHandler handler) noexcept;

}  // namespace cairn

#define CHECK(condition)                                     \
  do {                                                       \
    if (!(condition)) [[unlikely]]                           \
      ::cairn::check_failed(#condition, __FILE__, __LINE__); \
  } while (false)
