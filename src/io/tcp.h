// TCP and Unix sockets on a Loop: the real twin of Stream, Listener and Network.
#pragma once

#include "io/loop.h"
#include "io/stream.h"
#include "runtime/pool.h"

namespace cairn::io {

class TcpNetwork : public Network {
 public:
  // `pool` runs name look-ups (lane dns).
  TcpNetwork(Loop& loop, Pool& pool) noexcept : loop_(loop), pool_(pool) {}

  // TCP with SO_REUSEPORT: every shard binds its own. A Unix socket is made 0600 in a 0700 directory.
  Result<std::unique_ptr<Listener>> listen(const Endpoint& endpoint) override;
  Task<Result<std::unique_ptr<Stream>>> connect(Call call, Endpoint endpoint) override;

 private:
  Loop& loop_;
  Pool& pool_;
};

// Fails when another process listens there. Shards share a port, so their own bind would not notice another
// instance.
Result<> probe_bind(const Endpoint& endpoint);

}  // namespace cairn::io
