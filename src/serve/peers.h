// Peers: the other services that a service calls, by name, on one shard. In the same process a call goes
// straight into the other service's pipeline; otherwise over pooled connections. The service cannot tell
// which.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "http/answerer.h"
#include "http/client.h"
#include "http/peer_call.h"
#include "io/machine.h"

namespace cairn::serve {

// Where to reach a service that another one calls.
struct PeerTarget {
  std::string name;
  http::Answerer* inside = nullptr;  // if it is in the same process, on the same shard; outlives the caller
  io::Endpoint endpoint = {};        // where it is otherwise
  // Who vouches for it, if it speaks TLS.
  std::shared_ptr<const io::TlsClient> tls = {};
};

class Peer {
 public:
  struct GiveBack {
    Peer* peer = nullptr;
    void operator()(http::PeerCall* call) const noexcept { peer->give_back(call); }
  };
  using Handle = std::unique_ptr<http::PeerCall, GiveBack>;

  // `client` is needed for a peer in another process. Both references outlive this.
  Peer(io::Machine& machine, const PeerTarget& target, http::Client* client)
      : machine_(machine), target_(target), client_(client) {}

  std::string_view name() const noexcept { return target_.name; }
  bool is_inside() const noexcept { return target_.inside != nullptr; }
  // How often a request to another process is sent again; before the first call().
  void set_retries(const http::RetryPolicy& retries) noexcept { retries_ = retries; }
  // Serves one request after the other. The unread rest of an answer is dropped with the handle.
  Handle call();

 private:
  static constexpr std::size_t spare_max = 64;
  void give_back(http::PeerCall* call) noexcept;

  io::Machine& machine_;
  PeerTarget target_;
  http::Client* client_;
  http::RetryPolicy retries_ = {};
  std::vector<std::unique_ptr<http::PeerCall>> spare_;
};

class Peers {
 public:
  Peers(io::Machine& machine, std::span<const PeerTarget> targets);
  // nullptr: the configuration names no such service.
  Peer* find(std::string_view name) noexcept;
  // Closes the connections, once the service has ended. Cancel: partial — idle connections are closed.
  Task<> close(Call call);

 private:
  std::unique_ptr<http::Client> client_;  // none: every peer is inside
  std::vector<std::unique_ptr<Peer>> peers_;
};

}  // namespace cairn::serve
