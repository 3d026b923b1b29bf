#include "serve/open.h"

#include <algorithm>

namespace cairn::serve {

Task<Result<OpenWait>> wait_open(Call call, SelectArm arm, Duration wait) {
  const Call bounded = call.within(std::min(wait, open_wait_max));
  const Result<std::size_t> woken = co_await select(bounded, arm);
  if (woken) co_return OpenWait::happened;
  if (woken.error().stop == StopReason::draining) co_return OpenWait::draining;
  if (woken.error().stop == StopReason::deadline && !call.expired()) co_return OpenWait::over;
  co_return fail(woken.error());
}

}  // namespace cairn::serve
