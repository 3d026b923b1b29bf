// How simulated connections come about: names, listeners, and the handshake with its retries.
#include <algorithm>
#include <charconv>

#include "base/check.h"
#include "io/sim/network.h"
#include "runtime/wait.h"

namespace cairn::io::sim {
namespace {

bool is_self(std::string_view host) noexcept {
  return host.empty() || host == "localhost" || host == "127.0.0.1" || host == "::1" || host == "0.0.0.0" ||
         host == "::" || host == "*";
}

// 10.0.H.L: the node's number from 1. 0: not such an address.
unsigned number_of(std::string_view host) noexcept {
  if (!host.starts_with("10.0.")) return 0;
  unsigned high = 0;
  unsigned low = 0;
  const char* end = host.data() + host.size();
  const auto first = std::from_chars(host.data() + 5, end, high);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '.') return 0;
  const auto second = std::from_chars(first.ptr + 1, end, low);
  if (second.ec != std::errc() || second.ptr != end || high > 255 || low > 255) return 0;
  return high * 256 + low;
}

}  // namespace

Result<SimNetwork::Address> SimNetwork::resolve(const Endpoint& endpoint, unsigned self,
                                                bool to_listen) const {
  if (!endpoint.path.empty()) return Address{self, 0, endpoint.path};
  if (is_self(endpoint.host)) return Address{self, endpoint.port, {}};
  unsigned node = static_cast<unsigned>(hosts_.size());
  if (const unsigned number = number_of(endpoint.host); number != 0) node = number - 1;
  for (unsigned i = 0; i < hosts_.size(); ++i)
    if (hosts_[i].name == endpoint.host) node = i;
  if (node >= hosts_.size())
    return fail(to_listen ? Error(ErrorCode::invalid, "listen needs an own address")
                          : Error(ErrorCode::connection_lost, "name look-up", Side::upstream));
  if (to_listen && node != self) return fail(ErrorCode::invalid, "listen on another node");
  return Address{node, endpoint.port, {}};
}

std::uint16_t SimNetwork::ephemeral(unsigned node) noexcept {
  Host& host = hosts_[node];
  if (host.next_port == 65'535) host.next_port = 40'000;
  return host.next_port++;
}

std::string SimNetwork::format(const Address& address) const {
  if (!address.path.empty()) return "unix:" + address.path;
  const unsigned number = address.node + 1;
  return "10.0." + std::to_string(number >> 8) + '.' + std::to_string(number & 255) + ':' +
         std::to_string(address.port);
}

// --- listening

Result<std::unique_ptr<Listener>> NetworkPort::listen(const Endpoint& endpoint) {
  if (!network_.hosts_[node_].running) return fail(ErrorCode::io_failed, "listen");
  TRY(SimNetwork::Address address, network_.resolve(endpoint, node_, true));
  if (address.path.empty() && address.port == 0) address.port = network_.ephemeral(node_);
  // Shards of a node share a port, each with its own queue; one shard has it once.
  const auto [first, last] = network_.listeners_.equal_range(address);
  for (auto it = first; it != last; ++it)
    if (&it->second->shard_ == &shard_ || !address.path.empty()) return fail(ErrorCode::conflict, "listen");
  auto listener = std::make_unique<SimListener>(network_, shard_, network_.format(address),
                                                address.path.empty() && endpoint.is_loopback());
  network_.listeners_.emplace(std::move(address), listener.get());
  return listener;
}

SimListener* SimNetwork::pick_listener(const Address& address) {
  const auto count = static_cast<std::uint32_t>(listeners_.count(address));
  if (count == 0) return nullptr;
  return std::next(listeners_.lower_bound(address), clockwork_.choices.pick(count, "net.listener"))->second;
}

void SimNetwork::stop_listening(SimListener& listener) {
  std::erase_if(listeners_, [&](const auto& item) { return item.second == &listener; });
  for (const std::uint64_t queued : listener.queue_)
    if (Connection* connection = find(queued)) close_end(*connection, 1, true);
  listener.queue_.clear();
}

void SimListener::close() noexcept {
  if (network_ == nullptr) return;
  std::exchange(network_, nullptr)->stop_listening(*this);
  acceptable.signal();
}

Listener::Accepted SimListener::try_accept() noexcept {
  if (network_ == nullptr) return {IoStatus::failed, nullptr};
  if (queue_.empty()) {
    acceptable.clear();
    return {IoStatus::would_block, nullptr};
  }
  Clockwork& clockwork = network_->clockwork_;
  if (clockwork.chance(network_->faults.accept_error, "net.accept_error")) {
    clockwork.probes.hit("net.accept_error");
    return {IoStatus::failed, nullptr};
  }
  const std::uint64_t connection = queue_.front();
  queue_.pop_front();
  auto stream = std::make_unique<SimStream>(*network_, shard_, connection, 1u);
  stream->peer_.loopback = loopback_;
  return {IoStatus::done, std::move(stream)};
}

// --- connecting

SimNetwork::Dial& SimNetwork::begin_dial(NetworkPort& port, Address to) {
  if (free_dials_.empty()) {
    free_dials_.push_back(static_cast<std::uint32_t>(dials_.size()));
    dials_.emplace_back().index = free_dials_.back();
  }
  Dial& dial = dials_[free_dials_.back()];
  free_dials_.pop_back();
  ++dial.generation;
  dial.live = true;
  dial.finished = false;
  dial.port = &port;
  dial.to = std::move(to);
  dial.connection = 0;
  dial.outcome = {};
  return dial;
}

void SimNetwork::end_dial(Dial& dial) noexcept {
  if (Connection* connection = find(dial.connection))
    close_end(*connection, 0, true);  // no stream was made of it
  dial.live = false;
  free_dials_.push_back(dial.index);
}

void SimNetwork::on_syn(void* self, std::uint64_t index, std::uint64_t generation) {
  auto& network = *static_cast<SimNetwork*>(self);
  Dial& dial = network.dials_[index];
  if (dial.live && dial.generation == generation && network.hosts_[dial.port->node()].running)
    network.syn(dial);
}

void SimNetwork::syn(Dial& dial) {
  const unsigned from = dial.port->node();
  const auto retry = [&](Tag why) {
    clockwork_.probes.hit(why);
    clockwork_.after(faults.syn_retry, on_syn, this, dial.index, dial.generation);
  };
  if (!hosts_[dial.to.node].up || held(from, dial.to.node)) return retry("net.syn_lost");
  if (clockwork_.chance(faults.silence, "net.silence")) {
    clockwork_.probes.hit("net.silence");
    join(dial, true);
    return answer(dial, {});
  }
  SimListener* listener = pick_listener(dial.to);
  if (listener == nullptr || clockwork_.chance(faults.refuse, "net.refuse")) {
    clockwork_.probes.hit("net.refused");
    return answer(dial, fail(ErrorCode::connection_lost, "connection refused", Side::upstream));
  }
  if (listener->queue_.size() >= faults.backlog) return retry("net.backlog_full");
  join(dial, false);
  listener->queue_.push_back(dial.connection);
  listener->acceptable.signal();
  answer(dial, {});
}

void SimNetwork::join(Dial& dial, bool silent) {
  Connection& connection = make_connection();
  dial.connection = key(connection);
  connection.silent = silent;
  connection.local = !dial.to.path.empty();
  connection.ends[0].node = dial.port->node();
  connection.ends[0].port = ephemeral(dial.port->node());
  connection.ends[1].node = dial.to.node;
  connection.ends[1].port = dial.to.port;
  if (silent) connection.ends[1].closed = true;
}

void SimNetwork::answer(Dial& dial, Result<> outcome) {
  dial.outcome = outcome;
  clockwork_.after(latency(dial.to.node, dial.port->node()), on_answer, this, dial.index, dial.generation);
}

void SimNetwork::on_answer(void* self, std::uint64_t index, std::uint64_t generation) {
  auto& network = *static_cast<SimNetwork*>(self);
  Dial& dial = network.dials_[index];
  if (!dial.live || dial.generation != generation) return;
  if (network.held(dial.to.node, dial.port->node())) {
    network.clockwork_.probes.hit("net.syn_lost");
    network.clockwork_.after(network.faults.syn_retry, on_answer, self, index, generation);
    return;
  }
  dial.finished = true;
  if (!dial.waiters.empty()) wake(dial.waiters.front());
}

// A dial from its first packet to its stream. Leaving early gives the connection up, with a reset.
class Dialing {
 public:
  Dialing(SimNetwork& network, NetworkPort& port, SimNetwork::Address to)
      : network_(network), dial_(network.begin_dial(port, std::move(to))) {}
  ~Dialing() { network_.end_dial(dial_); }
  Dialing(const Dialing&) = delete;
  Dialing& operator=(const Dialing&) = delete;
  SimNetwork::Dial* operator->() noexcept { return &dial_; }

 private:
  SimNetwork& network_;
  SimNetwork::Dial& dial_;
};

Task<Result<std::unique_ptr<Stream>>> NetworkPort::connect(Call call, Endpoint endpoint) {
  CO_TRY(SimNetwork::Address to, network_.resolve(endpoint, node_, false));
  const unsigned node = to.node;
  Dialing dial(network_, *this, std::move(to));
  if (!call.stopped() && !call.expired() && network_.hosts_[node_].running)
    network_.clockwork_.after(network_.latency(node_, node), SimNetwork::on_syn, &network_, dial->index,
                              dial->generation);
  CO_TRY_VOID(co_await ListWait(call, dial->waiters, "connect"));
  CO_TRY_VOID(dial->outcome);
  const std::uint64_t connection = std::exchange(dial->connection, 0);
  const SimNetwork::Connection* made = network_.find(connection);
  if (made == nullptr || made->ends[0].closed)
    co_return fail(ErrorCode::connection_lost, "connect", Side::upstream);
  co_return std::make_unique<SimStream>(network_, shard_, connection, 0u);
}

}  // namespace cairn::io::sim
