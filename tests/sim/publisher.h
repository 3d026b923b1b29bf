// Publisher: a task beside the service that replaces a served file again and again, as one must: write aside,
// sync, rename, sync the directory. What the disk does to it must never be seen by a reader.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "io/machine.h"
#include "runtime/task.h"

namespace cairn::simulator {

// Survives the lives of its node.
struct Publication {
  std::uint64_t started = 0;  // the newest version that was begun
  std::uint64_t visible = 0;  // the newest whose rename was confirmed
  std::uint64_t durable = 0;  // the newest that a power cut must leave
};

std::string published_text(std::uint64_t version);
// The version that this is the whole text of.
std::optional<std::uint64_t> read_published(std::string_view text);

inline constexpr const char* published_name = "p.bin";

// One new version.
// Cancel: partial — a temporary file may remain.
Task<Result<>> publish(Call call, io::Disk& disk, Slab& slab, Publication& publication);

}  // namespace cairn::simulator
