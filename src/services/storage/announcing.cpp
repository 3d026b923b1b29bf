// How the announcer is set up, and what it is given of this process.
#include "runtime/wait.h"
#include "services/storage/shard.h"

namespace cairn::storage {

void StorageShard::prepare_announcing() {
  serve::Peer* const peer = context_.peers.find("index");
  if (shared_.changed == nullptr) return;
  if (peer == nullptr)
    return context_.log.info("nobody is told what this node has: peers.index names no index");
  announcing_ = std::make_unique<Announcing>(
      context_.machine, *peer, shared_.options.announce.token_file,
      IndexPeer::Counters{slot_, context_.metrics.io_timeouts, context_.metrics.backoff_retries});
  announcing_->index.take_keys(context_.keys);
}

// If it failed once, it begins anew: everything is announced again.
Task<> StorageShard::announce(Call call) {
  constexpr Duration soon = Duration::millis(10);
  while (shared_.unopened > 0)
    if (!co_await sleep_for(call, soon)) co_return;
  Announcing& parts = *announcing_;
  parts.holdings.emplace(*shared_.stores, *ports_);
  parts.announcer.emplace(machine_, *shared_.changed, *parts.holdings, parts.index, shared_.announced,
                          shared_.options.announce.announcer, context_.log);
  co_await parts.announcer->run(call);
}

void StorageShard::take_keys(const serve::KeySnapshotPtr& keys) {
  context_.keys = keys;
  if (announcing_) announcing_->index.take_keys(keys);
}

}  // namespace cairn::storage
