// A request's body that comes slower than 64 KiB/s gives its turn back, and goes on without: a slot is for
// work, not for waiting for a client.
#pragma once

#include "serve/request.h"

namespace cairn::gateway {

inline constexpr std::uint64_t least_bytes_per_second = 65'536;
// So long a body may take to begin, and to make up for a pause.
inline constexpr Duration pace_allowance = Duration::seconds(1);

// The next slice of the body, as RequestBody::next. `begun`: when the body was first asked for.
// Cancel: clean.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request outlives its handler
Task<Result<Buffer>> next_in_pace(Call call, serve::Request& request, Instant begun);

}  // namespace cairn::gateway
