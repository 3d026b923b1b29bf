// Files with a segment's name that are not of this log. They are never written to and never cut. They are
// renamed, whole, and reported, so that the operator can bring them to where they belong.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "io/machine.h"
#include "store/log.h"
#include "store/segment.h"

namespace cairn::store {

// The number in the name of a file that was set aside; nothing for any other name.
std::optional<std::uint32_t> parse_foreign_name(std::string_view name) noexcept;

// Gives the file of that number another name, one that no file has. `header`: what it begins with, if that is
// good. Cancel: partial — it may be renamed.
Task<Result<ForeignFile>> set_aside(Call call, io::Machine machine, std::string directory,
                                    std::uint32_t segment, std::optional<SegmentHeader> header);

}  // namespace cairn::store
