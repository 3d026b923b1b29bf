// Whole files on a disk, real or simulated: read, and replaced so that a crash leaves the old or the new one.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/heap_bytes.h"
#include "io/machine.h"

namespace cairn::registry {

inline constexpr std::uint64_t snapshot_size_max = std::uint64_t{4} << 30;

// `not_found` when there is none, `integrity` when it is larger than `most`. Cancel: clean.
Task<Result<std::string>> read_file(Call call, io::Machine machine, std::string path, std::uint64_t most);
// Writes PATH.new, makes it durable, puts it in place. Its directory is there. Cancel: partial — either.
Task<Result<>> replace_file(Call call, io::Machine machine, std::string path, std::string bytes);
// The same of bytes that `next` gives in pieces until there are none. Between two of them every other task of
// the shard has its turn. `next` outlives it. Cancel: as above.
Task<Result<>> replace_file(Call call, io::Machine machine, std::string path,
                            const std::function<std::optional<std::string>()>& next);
// `path` and what is missing of the directories above it, below `root`, which is there; durably.
Task<Result<>> make_directories(Call call, io::Machine machine, std::string root, std::string path);

}  // namespace cairn::registry
