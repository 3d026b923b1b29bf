// expect: no matching conversion for functional-style cast from 'cairn::CancelSource' to 'cairn::Call'
// There is no call without a deadline, so there is no wait without one.
#include "runtime/cancel.h"

cairn::Call begin(cairn::CancelSource& cancel, cairn::Instant now) {
#ifdef RIGHT
  return cairn::Call(now + cairn::Duration::seconds(5), cancel);
#else
  (void)now;
  return cairn::Call(cancel);
#endif
}
