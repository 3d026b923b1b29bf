// The memory of nghttp2: some ten small blocks for each request, recycled by the shard as frames are.
#pragma once

#include <nghttp2/nghttp2.h>

#include "runtime/frame_pool.h"

namespace cairn::http::h2 {

// For a session that lives and ends on the pool's shard.
nghttp2_mem session_memory(FramePool& pool) noexcept;

}  // namespace cairn::http::h2
