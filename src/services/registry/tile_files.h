// TileFiles: the tiles and bundles by which readers prove what a checkpoint says, as files below the
// registry's directory.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "crypto/tile.h"
#include "io/machine.h"
#include "services/registry/port.h"

namespace cairn::registry {

class TileFiles {
 public:
  // `port` is of this shard. All outlive it.
  TileFiles(Registry& registry, io::Machine& machine, Port& port) noexcept
      : registry_(registry), machine_(machine), port_(port) {}

  // What a crash or somebody else did to the files for readers, the checkpoint among them: they are compared
  // with what is known, and written anew where they differ. Cancel: partial — some may be.
  Task<Result<>> mend(Call call);
  // Everything that a tree of `size` has and is not on disk yet. Cancel: partial — some may be.
  Task<Result<>> write(Call call, std::uint64_t size);
  // Tiles that the written ones replace. Precondition: no checkpoint on disk speaks of them any more.
  Task<> remove_narrower(Call call);

 private:
  std::string node_bytes(const crypto::TileId& tile);
  Task<Result<std::string>> make_bundle(Call call, crypto::TileId tile, std::uint64_t before);
  Task<Result<>> write_tile(Call call, crypto::TileId tile, std::string bytes, std::uint64_t before);

  Registry& registry_;
  io::Machine& machine_;
  Port& port_;
  std::set<std::string> durable_directories_;
  std::vector<std::string> narrower_;
  std::optional<std::uint64_t> tiles_at_;  // size up to which tiles are on disk; none: not looked yet
};

}  // namespace cairn::registry
