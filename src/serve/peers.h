// Peers: the other services that a service calls, by name, on one shard. In the same process a call goes
// straight into the other service's pipeline; otherwise over pooled connections. The service cannot tell
// which.
#pragma once

#include <array>
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

// Whether a call may take as long as it likes: a long poll, or a stream.
enum class Lasting : std::uint8_t { no, yes };

// How many connections a shard has to a peer in another process. What lasts has its own, so that it keeps no
// other call from the peer; and no peer has those of another.
struct PeerLimits {
  std::size_t connections = 256, lasting = 256;
  std::size_t waiting = 256;  // calls of each kind that wait for a connection; beyond them `busy`
};

class Peer {
 public:
  struct GiveBack {
    Peer* peer = nullptr;
    Lasting lasting = Lasting::no;
    void operator()(http::PeerCall* call) const noexcept { peer->give_back(call, lasting); }
  };
  using Handle = std::unique_ptr<http::PeerCall, GiveBack>;

  // The machine outlives it.
  Peer(io::Machine& machine, const PeerTarget& target) : machine_(machine), target_(target) {}

  std::string_view name() const noexcept { return target_.name; }
  bool is_inside() const noexcept { return target_.inside != nullptr; }
  // How often a request to another process is sent again; before the first call().
  void set_retries(const http::RetryPolicy& retries) noexcept { retries_ = retries; }
  // Before the first call() as they are; later only more connections.
  void set_limits(const PeerLimits& limits);
  // Serves one request after the other. The unread rest of an answer is dropped with the handle.
  Handle call(Lasting lasting = Lasting::no);
  // Closes the connections. Cancel: partial — idle connections are closed.
  Task<> close(Call call);

 private:
  static constexpr std::size_t spare_max = 64;
  struct Way {
    std::unique_ptr<http::Client> client;  // made with the first call to another process
    std::vector<std::unique_ptr<http::PeerCall>> spare;
  };
  Way& way(Lasting lasting) noexcept { return ways_[static_cast<std::size_t>(lasting)]; }
  std::size_t connections(Lasting lasting) const noexcept {
    return lasting == Lasting::yes ? limits_.lasting : limits_.connections;
  }
  http::Client& client(Lasting lasting);
  void give_back(http::PeerCall* call, Lasting lasting) noexcept;

  io::Machine& machine_;
  PeerTarget target_;
  http::RetryPolicy retries_ = {};
  PeerLimits limits_ = {};
  std::array<Way, 2> ways_;  // by Lasting
};

class Peers {
 public:
  Peers(io::Machine& machine, std::span<const PeerTarget> targets);
  // nullptr: the configuration names no such service.
  Peer* find(std::string_view name) noexcept;
  // Closes the connections, once the service has ended. Cancel: partial — idle connections are closed.
  Task<> close(Call call);

 private:
  std::vector<std::unique_ptr<Peer>> peers_;
};

}  // namespace cairn::serve
