#include "base/check.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
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
  char text[512];
  const int size = std::snprintf(text, sizeof text, "CHECK failed: %s at %s:%d\n", expression, file, line);
  // A stalled reader of stderr must not keep a broken process from ending.
  pollfd waited{.fd = 2, .events = POLLOUT, .revents = 0};
  if (size > 0 && poll(&waited, 1, 1000) > 0)
    (void)!write(2, text, std::min<std::size_t>(static_cast<std::size_t>(size), sizeof text - 1));
  std::abort();
}

}  // namespace cairn
