// Runs many tasks, a few at a time.
#pragma once

#include <cstddef>
#include <functional>

#include "runtime/scope.h"

namespace cairn::cli {

inline constexpr std::size_t files_at_once = 8;

// `work(call, i)` for every i below `count`, begun in that order, at most `at_once` at a time. Returns when
// all have ended; after a stop none is begun. Cancel: partial — some were done.
Task<> run_parallel(Call call, Shard* shard, std::size_t count, std::size_t at_once,
                    std::function<Task<>(Call, std::size_t)> work);

}  // namespace cairn::cli
