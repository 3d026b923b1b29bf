#include "serve/peers.h"

#include <algorithm>
#include <limits>

#include "http/local_call.h"
#include "http/remote_call.h"

namespace cairn::serve {

void Peer::set_limits(const PeerLimits& limits) {
  limits_ = limits;
  for (const Lasting lasting : {Lasting::no, Lasting::yes})
    if (http::Client* const client = way(lasting).client.get()) client->raise_limit(connections(lasting));
}

http::Client& Peer::client(Lasting lasting) {
  std::unique_ptr<http::Client>& client = way(lasting).client;
  if (client == nullptr) {
    http::ClientOptions options;
    options.connections_max = connections(lasting);
    options.waiting_max = limits_.waiting;
    // A peer is asked again soon, and opening another connection costs as much as a request itself.
    options.idle_per_host_max = std::numeric_limits<std::size_t>::max();
    options.tls = target_.tls;
    client = std::make_unique<http::Client>(machine_, std::move(options));
  }
  return *client;
}

Peer::Handle Peer::call(Lasting lasting) {
  if (is_inside()) lasting = Lasting::no;  // there is no connection to keep
  std::vector<std::unique_ptr<http::PeerCall>>& spare = way(lasting).spare;
  std::unique_ptr<http::PeerCall> call;
  if (!spare.empty()) {
    call = std::move(spare.back());
    spare.pop_back();
  } else if (is_inside()) {
    call = std::make_unique<http::LocalCall>(machine_, *target_.inside);
  } else {
    call = std::make_unique<http::RemoteCall>(client(lasting), target_.endpoint, retries_);
  }
  return Handle(call.release(), GiveBack{this, lasting});
}

void Peer::give_back(http::PeerCall* call, Lasting lasting) noexcept {
  std::unique_ptr<http::PeerCall> owned(call);
  owned->drop();
  std::vector<std::unique_ptr<http::PeerCall>>& spare = way(lasting).spare;
  if (spare.capacity() < spare_max) spare.reserve(spare_max);
  if (spare.size() < spare_max) spare.push_back(std::move(owned));
}

Task<> Peer::close(Call call) {
  for (Way& way : ways_)
    if (way.client) co_await way.client->close(call);
}

Peers::Peers(io::Machine& machine, std::span<const PeerTarget> targets) {
  for (const PeerTarget& target : targets) peers_.push_back(std::make_unique<Peer>(machine, target));
}

Peer* Peers::find(std::string_view name) noexcept {
  const auto found = std::ranges::find(peers_, name, [](const auto& peer) { return peer->name(); });
  return found == peers_.end() ? nullptr : found->get();
}

Task<> Peers::close(Call call) {
  for (const auto& peer : peers_) co_await peer->close(call);
}

}  // namespace cairn::serve
