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
// Writes PATH.new, makes it durable, and renames it to PATH. The directory must exist. Cancel: partial — the
// old file or the new one is there.
Task<Result<>> replace_file(Call call, io::Machine machine, std::string path, std::string bytes);
// The same for bytes that `next` gives in pieces until it gives none. The shard's other tasks run between two
// pieces. `next` outlives the call. Cancel: as above.
Task<Result<>> replace_file(Call call, io::Machine machine, std::string path,
                            const std::function<std::optional<std::string>()>& next);
// Makes the directory `path` and the missing directories between it and `root`, durably. `root` must exist.
Task<Result<>> make_directories(Call call, io::Machine machine, std::string root, std::string path);

}  // namespace cairn::registry
