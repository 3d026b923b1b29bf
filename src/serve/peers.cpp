#include "serve/peers.h"

#include <algorithm>

#include "http/local_call.h"
#include "http/remote_call.h"

namespace cairn::serve {

Peer::Handle Peer::call() {
  std::unique_ptr<http::PeerCall> call;
  if (!spare_.empty()) {
    call = std::move(spare_.back());
    spare_.pop_back();
  } else if (is_inside()) {
    call = std::make_unique<http::LocalCall>(machine_, *target_.inside);
  } else {
    call = std::make_unique<http::RemoteCall>(*client_, target_.endpoint, retries_);
  }
  return Handle(call.release(), GiveBack{this});
}

void Peer::give_back(http::PeerCall* call) noexcept {
  std::unique_ptr<http::PeerCall> owned(call);
  owned->drop();
  if (spare_.capacity() < spare_max) spare_.reserve(spare_max);
  if (spare_.size() < spare_max) spare_.push_back(std::move(owned));
}

Peers::Peers(io::Machine& machine, std::span<const PeerTarget> targets) {
  const auto outside = [](const PeerTarget& target) { return target.inside == nullptr; };
  if (std::ranges::any_of(targets, outside)) {
    http::ClientOptions options;
    // A peer is asked again soon, and opening another connection costs as much as a request itself.
    options.idle_per_host_max = options.connections_max;
    for (const PeerTarget& target : targets)
      if (target.tls) options.tls = target.tls;  // all have the same authorities
    client_ = std::make_unique<http::Client>(machine, std::move(options));
  }
  for (const PeerTarget& target : targets)
    peers_.push_back(std::make_unique<Peer>(machine, target, client_.get()));
}

Peer* Peers::find(std::string_view name) noexcept {
  const auto found = std::ranges::find(peers_, name, [](const auto& peer) { return peer->name(); });
  return found == peers_.end() ? nullptr : found->get();
}

Task<> Peers::close(Call call) {
  if (client_) co_await client_->close(call);
}

}  // namespace cairn::serve
