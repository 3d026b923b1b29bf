// expect: calling a private constructor of class 'cairn::Call'
// Only a scope makes a call: there is no wait without a deadline, and none that nobody can stop.
#include "runtime/scope.h"

cairn::Call begin(cairn::Scope& scope, cairn::Instant now) {
#ifdef RIGHT
  return scope.call().by(now + cairn::Duration::seconds(5));
#else
  (void)now;
  return cairn::Call(cairn::Instant::never(), scope.source());
#endif
}
