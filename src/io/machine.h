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
  Mailbox& mailbox;  // where other shards reach this one
  Pool& pool;        // for work that blocks and is not a file's
  Memory& memory;    // that can be sent like a file
};

}  // namespace cairn::io
