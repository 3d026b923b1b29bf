#include "base/check.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace cairn {
namespace {
std::atomic<CheckHandler> handler_of_tests{nullptr};
}

void set_check_handler(CheckHandler handler) noexcept { handler_of_tests.store(handler); }

void check_failed(const char* expression, const char* file, int line) noexcept {
  if (CheckHandler handler = handler_of_tests.load()) handler(expression, file, line);
  std::fprintf(stderr, "CHECK failed: %s at %s:%d\n", expression, file, line);
  std::abort();
}

}  // namespace cairn
