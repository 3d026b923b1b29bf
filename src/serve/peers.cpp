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
    call = std::make_unique<http::RemoteCall>(*client_, target_.endpoint);
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
  if (std::ranges::any_of(targets, [](const PeerTarget& target) { return target.inside == nullptr; }))
    client_ = std::make_unique<http::Client>(machine, http::ClientOptions{});
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
