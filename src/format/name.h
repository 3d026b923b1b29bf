// Names: what people call an object by, in place of its address (docs/formats/name-change.md).
#pragma once

#include <string_view>

namespace cairn::format {

inline constexpr std::size_t name_size_max = 255;

// 1 to 255 bytes: segments of [a-z0-9._-] between single slashes, none of them `.` or `..`.
bool is_name(std::string_view text) noexcept;

// Whether `name` is `prefix` itself, or below it: `docs` covers `docs` and `docs/a`, and not `docs2`.
bool is_covered(std::string_view name, std::string_view prefix) noexcept;

}  // namespace cairn::format
