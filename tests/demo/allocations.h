// How often this process has asked for memory, counted by wrapping the allocator of this one binary.
#pragma once

#include <cstdint>

namespace cairn::demo {
std::uint64_t allocation_count() noexcept;
}
