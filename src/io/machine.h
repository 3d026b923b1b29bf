// Machine: one shard's view of the world: everything a service may touch, real or simulated.
#pragma once

#include "io/file.h"
#include "io/memory.h"
#include "io/stream.h"
#include "runtime/buffer.h"
#include "runtime/mailbox.h"
#include "runtime/pool.h"
#include "runtime/shard.h"

namespace cairn::io {

// Unpredictable bytes for keys and nonces. Apart from Shard::random(), which is for jitter.
class Entropy {
 public:
  virtual ~Entropy() = default;
  virtual void fill(MutableByteView out) noexcept = 0;
};

struct Machine {
  Shard& shard;
  Slab& slab;
  Network& network;
  Disk& disk;
  Entropy& entropy;
  Mailbox& mailbox;  // the way in from other shards
  Pool& pool;        // for blocking work other than file operations
  Memory& memory;    // memory that can be sent like a file

  // The same, with the disk by the lane `commit`, which no reader fills.
  Machine for_commits() const noexcept { return by(disk.commits()); }
  Machine for_upkeep() const noexcept { return by(disk.upkeep()); }

 private:
  Machine by(Disk& other) const noexcept {
    return {shard, slab, network, other, entropy, mailbox, pool, memory};
  }
};

}  // namespace cairn::io
