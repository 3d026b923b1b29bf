// The wait of a request that stays open.
#pragma once

#include "base/result.h"
#include "runtime/select.h"
#include "runtime/task.h"
#include "serve/service.h"

namespace cairn::serve {

enum class OpenWait : std::uint8_t { happened, over, draining };

// For answer_later(): waits until `arm` is ready (a Watch's changed_arm(), a Broadcast's readable()), `wait`
// is over (60 s at most), or draining begins. After the last two the caller answers with what it has. An
// error: the client left, or the request's own deadline has passed. Cancel: clean.
Task<Result<OpenWait>> wait_open(Call call, SelectArm arm, Duration wait);

}  // namespace cairn::serve
