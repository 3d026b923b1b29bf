// OpenDht: a node of a real network, by OpenDHT (Kademlia over UDP). Its headers are heavy and stay in the
// .cpp file.
//
// A node has two threads of OpenDHT's own: one reads the socket, the other does everything else and calls
// back. Calls from a shard only queue their work for the second; whatever takes a lock that this thread holds
// while it works (status, export, close) goes to the pool, lane `upkeep`.
//   [OD-1] What strangers store here is `store_bytes` at most. Values of our type are kept only as they would
//         come from put(), and values of the types that OpenDHT knows not at all.
//   [OD-2] OpenDHT remembers each key that was asked for for an hour. Each costs memory and makes every later
//         search slower; at a limit of its own, OpenDHT hangs. So the node begins anew after half of
//         keys_most as soon as nothing is under way, and after keys_most at once: what is under way then
//         fails as if the network had. It keeps its id, its port, its peers and, unless they are many, the
//         values that it has for others.
//   [OD-3] Gets of one key that overlap share one search of OpenDHT: of two, the second might end as done
//         before it has given all values.
#pragma once

#include <memory>

#include "io/dht.h"

namespace cairn::io {

struct OpenDhtOptions {
  std::size_t keys_most = 2048;  // 8 KB each; with as many a search takes about twice the processor time
};

class OpenDhtMaker final : public DhtMaker {
 public:
  explicit OpenDhtMaker(OpenDhtOptions options = {}) noexcept : options_(options) {}
  // DhtMode::local: a node within the process (LocalDhtMaker). Cancel: shielded — it only binds.
  Task<Result<std::shared_ptr<DhtNode>>> open(Call call, Machine& machine, DhtOptions options) override;

 private:
  OpenDhtOptions options_;
};

}  // namespace cairn::io
