// Reload: applies a new configuration while the process runs.
#pragma once

#include <cstddef>
#include <expected>
#include <vector>

#include "config/load.h"
#include "config/snapshot.h"

namespace cairn::config {

// Keys whose values differ, by their index in the schema.
struct Changes {
  std::vector<std::size_t> live;
  std::vector<std::size_t> restart;
  bool empty() const noexcept { return live.empty() && restart.empty(); }
};

// Both are of the same schema.
Changes diff(const Snapshot& before, const Snapshot& after);

struct Reloaded {
  SnapshotPtr snapshot;  // the new live values, the old restart values, the version after the old one
  Changes changes;       // changes.restart took no effect and is to be reported
};

// The result is checked again as a whole: new live values must also agree with the old restart values.
std::expected<Reloaded, Problems> reload(const Snapshot& before, const Snapshot& after);

}  // namespace cairn::config
