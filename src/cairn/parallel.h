// Doing several things at once, a few at a time.
#pragma once

#include <cstddef>
#include <functional>

#include "runtime/scope.h"

namespace cairn::cli {

inline constexpr std::size_t files_at_once = 8;

// `work(call, i)` for every i below `count`, in order of beginning, at most `at_once` under way. Ends when
// all have ended; after a stop no new one begins. Cancel: partial — some were done.
Task<> run_parallel(Call call, Shard* shard, std::size_t count, std::size_t at_once,
                    std::function<Task<>(Call, std::size_t)> work);

}  // namespace cairn::cli
