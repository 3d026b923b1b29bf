// TileFiles: the tiles and bundles with which readers prove a checkpoint's claims, as files below the
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

  // Mends the files for readers, the checkpoint among them, after a crash or a foreign change: compares them
  // with the ledger, and writes them again where they differ. Cancel: partial — some may be written.
  Task<Result<>> mend(Call call);
  // Writes the missing tiles and bundles of a tree of `size`. Cancel: partial — some may be written.
  Task<Result<>> write(Call call, std::uint64_t size);
  // Removes the tiles that wider ones replaced. Precondition: the checkpoint on disk no longer needs them.
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
