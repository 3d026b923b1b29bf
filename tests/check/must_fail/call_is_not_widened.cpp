// expect: 'deadline_' is a private member of 'cairn::Call'
// A callee that could move the deadline would keep working after its caller was told it timed out.
#include "runtime/call.h"

cairn::Call longer(cairn::Call call) {
#ifdef RIGHT
  return call.by(cairn::Instant::never());  // the earlier of both: changes nothing
#else
  call.deadline_ = cairn::Instant::never();
  return call;
#endif
}
