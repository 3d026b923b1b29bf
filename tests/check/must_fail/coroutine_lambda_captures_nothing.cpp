// expect-tidy: cppcoreguidelines-avoid-capturing-lambda-coroutines
// The captures live in the lambda, not in the frame: they are gone when the lambda is.
#include "runtime/scope.h"
#include "runtime/wait.h"

void start(cairn::Scope& scope, int rounds) {
#ifdef RIGHT
  scope.spawn("rounds", [](cairn::Call call, int left) -> cairn::Task<> {
    for (; left > 0; --left) co_await cairn::yield(call);
  }(scope.call(), rounds));
#else
  scope.spawn("rounds", [rounds](cairn::Call call) -> cairn::Task<> {
    for (int left = rounds; left > 0; --left) co_await cairn::yield(call);
  }(scope.call()));
#endif
}
