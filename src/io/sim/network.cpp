#include "io/sim/network.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace cairn::io::sim {

SimNetwork::SimNetwork(Clockwork& clockwork) : clockwork_(clockwork) {
  clockwork_.probes.declare({"net.split_write", "net.split_delivery", "net.cut", "net.frozen", "net.reset",
                             "net.reset_lost", "net.half_open", "net.silence", "net.refused",
                             "net.slow_reader", "net.clog", "net.backlog_full", "net.syn_lost",
                             "net.window_full", "net.window_shut", "net.low_water", "net.accept_error",
                             "net.reset_by_close", "net.peer_gone"});
}

SimNetwork::~SimNetwork() { CHECK(listeners_.empty()); }

unsigned SimNetwork::add_node(std::string name) {
  const std::size_t before = hosts_.size();
  hosts_.push_back({std::move(name), true, true, false, 40'000});
  std::vector<Way> larger(hosts_.size() * hosts_.size());
  for (std::size_t from = 0; from < before; ++from)
    for (std::size_t to = 0; to < before; ++to) larger[from * hosts_.size() + to] = ways_[from * before + to];
  ways_ = std::move(larger);
  return static_cast<unsigned>(before);
}

// --- ways

SimNetwork::Way& SimNetwork::way(unsigned from, unsigned to) {
  CHECK(from < hosts_.size() && to < hosts_.size());
  return ways_[from * hosts_.size() + to];
}

bool SimNetwork::held(unsigned from, unsigned to) {
  return from != to && (way(from, to).cut || hosts_[from].frozen || hosts_[to].frozen);
}

Duration SimNetwork::latency(unsigned from, unsigned to) {
  if (from == to) return faults.loopback;
  Way& between = way(from, to);
  if (between.latency.ns < 0)
    between.latency = clockwork_.span(faults.latency_min, faults.latency_max, "net.latency");
  return between.latency + clockwork_.span({0}, faults.jitter, "net.jitter");
}

void SimNetwork::cut(unsigned from, unsigned to) { way(from, to).cut = true; }
void SimNetwork::freeze(unsigned node) { hosts_[node].frozen = true; }
void SimNetwork::set_latency(unsigned from, unsigned to, Duration latency) {
  way(from, to).latency = latency;
}

void SimNetwork::heal(unsigned from, unsigned to) {
  way(from, to).cut = false;
  release_held();
}

void SimNetwork::heal() {
  for (Way& way : ways_) way.cut = false;
  for (Host& host : hosts_) host.frozen = false;
  release_held();
}

void SimNetwork::release_held() {
  for (Connection& connection : connections_) {
    if (!connection.live) continue;
    for (const unsigned to : {0u, 1u}) {
      Pipe& pipe = connection.pipes[to];
      if (pipe.held == 0 || held(connection.ends[1 - to].node, connection.ends[to].node)) continue;
      const Duration delay = latency(connection.ends[1 - to].node, connection.ends[to].node);
      for (; pipe.held != 0; --pipe.held) clockwork_.after(delay, on_segment, this, key(connection), to);
    }
  }
}

void SimNetwork::reset_all(unsigned node) {
  for (Connection& connection : connections_) {
    if (!connection.live || (connection.ends[0].node != node && connection.ends[1].node != node)) continue;
    clockwork_.probes.hit("net.reset");
    fail_end(connection, 0);
    fail_end(connection, 1);
  }
}

void SimNetwork::vanish_all(unsigned node) {
  for (Connection& connection : connections_) {
    if (!connection.live || (connection.ends[0].node != node && connection.ends[1].node != node)) continue;
    clockwork_.probes.hit("net.half_open");
    connection.silent = true;
  }
}

// --- connections

SimNetwork::Connection* SimNetwork::find(std::uint64_t key) noexcept {
  const auto index = static_cast<std::uint32_t>(key);
  if (key == 0 || index >= connections_.size()) return nullptr;
  Connection& connection = connections_[index];
  return connection.live && connection.generation == key >> 32 ? &connection : nullptr;
}

SimNetwork::Connection& SimNetwork::make_connection() {
  if (free_connections_.empty()) {
    free_connections_.push_back(static_cast<std::uint32_t>(connections_.size()));
    connections_.emplace_back().index = free_connections_.back();
  }
  Connection& connection = connections_[free_connections_.back()];
  free_connections_.pop_back();
  ++connection.generation;
  connection.live = true;
  connection.local = connection.silent = false;
  for (const unsigned side : {0u, 1u}) {
    connection.ends[side] = {};
    const bool slow = clockwork_.chance(faults.slow_reader, "net.slow_reader");
    const std::size_t window = slow ? faults.slow_window : faults.window;
    const std::size_t step = faults.reopen == 0 ? window / 16 : std::min(faults.reopen, window);
    connection.pipes[side].reset(faults.send_buffer, window, std::max<std::size_t>(step, 1));
    if (!slow) continue;
    clockwork_.probes.hit("net.slow_reader");
    connection.pipes[side].slow = true;
  }
  ++live_;
  return connection;
}

void SimNetwork::settle(Connection& connection) {
  if (!connection.live || !connection.ends[0].closed || !connection.ends[1].closed) return;
  connection.live = false;
  --live_;
  free_connections_.push_back(connection.index);
}

// --- sending

// Sends `count` bytes at the end of the pipe; a cork holds back less than a full segment.
void SimNetwork::send(Connection& connection, unsigned to, std::size_t count, bool push) {
  constexpr std::size_t full_segment = 1460;
  Pipe& pipe = connection.pipes[to];
  const bool first = pipe.unsent == 0;
  pipe.unsent += count;
  if (pipe.unsent == 0) return;
  if (pipe.corked && !push && pipe.unsent < full_segment) {
    if (first) clockwork_.after(faults.cork_for, on_push, this, key(connection), to);
    return;
  }
  if (pipe.shut) return;
  auto length = static_cast<std::uint32_t>(std::min(pipe.unsent, pipe.open()));
  pipe.unsent -= length;
  if (pipe.unsent > 0) {
    clockwork_.probes.hit("net.window_shut");
    pipe.shut = true;
  }
  if (length == 0) return;
  while (length > 1 && clockwork_.chance(faults.split_delivery, "net.split_delivery")) {
    clockwork_.probes.hit("net.split_delivery");
    const std::uint32_t piece = 1 + clockwork_.choices.pick(length - 1, "net.piece");
    transmit(connection, to, piece);
    length -= piece;
  }
  transmit(connection, to, length);
  if (pipe.finished && pipe.unsent == 0 && !std::exchange(pipe.end_sent, true)) transmit(connection, to, 0);
}

// The reader has made room.
void SimNetwork::open_window(Connection& connection, unsigned to) {
  Pipe& pipe = connection.pipes[to];
  if (!pipe.shut || pipe.open() < pipe.reopen) return;
  pipe.shut = false;
  clockwork_.after(latency(connection.ends[to].node, connection.ends[1 - to].node), on_push, this,
                   key(connection), to);
}

// More has arrived at the reader's side.
void SimNetwork::acknowledge(Connection& connection, unsigned to) {
  Pipe& pipe = connection.pipes[to];
  if (!pipe.blocked) return;
  if (!pipe.above_low_water()) {
    clockwork_.probes.hit("net.low_water");
    return;
  }
  pipe.blocked = false;
  clockwork_.after(latency(connection.ends[to].node, connection.ends[1 - to].node), on_room, this,
                   key(connection), 1 - to);
}

void SimNetwork::transmit(Connection& connection, unsigned to, std::uint32_t length) {
  if (connection.silent) return;
  Pipe& pipe = connection.pipes[to];
  std::int64_t due = (clockwork_.now + latency(connection.ends[1 - to].node, connection.ends[to].node)).ns;
  if (clockwork_.chance(faults.clog, "net.clog")) {
    clockwork_.probes.hit("net.clog");
    due += faults.clog_for.ns;
  }
  pipe.last_due = std::max(pipe.last_due, due);
  pipe.segments.push(length);
  clockwork_.after({pipe.last_due - clockwork_.now.ns}, on_segment, this, key(connection), to);
}

void SimNetwork::finish(Connection& connection, unsigned to) {
  Pipe& pipe = connection.pipes[to];
  if (pipe.finished) return;
  pipe.finished = true;
  send(connection, to, 0, true);
  if (pipe.unsent == 0 && !std::exchange(pipe.end_sent, true)) transmit(connection, to, 0);
}

void SimNetwork::send_reset(Connection& connection, unsigned to) {
  if (connection.silent) return;
  clockwork_.after(latency(connection.ends[1 - to].node, connection.ends[to].node), on_reset, this,
                   key(connection), to);
}

void SimNetwork::fail_end(Connection& connection, unsigned side) {
  End& end = connection.ends[side];
  if (end.closed || end.failed) return;
  end.failed = true;
  Pipe& pipe = connection.pipes[side];
  pipe.bytes.clear();  // bytes that arrived and were not read are lost, as with a real reset
  pipe.segments.clear();
  pipe.arrived = pipe.unsent = 0;
  pipe.shut = false;
  if (end.stream == nullptr) return;
  end.stream->readable.signal();
  end.stream->writable.signal();
  end.stream->tell_peer_gone();
}

void SimNetwork::detach(Connection& connection, unsigned side) noexcept {
  End& end = connection.ends[side];
  if (end.stream != nullptr) end.stream->connection_ = 0;
  end.stream = nullptr;
}

void SimNetwork::close_end(Connection& connection, unsigned side, bool reset) {
  End& end = connection.ends[side];
  if (end.closed) return;
  detach(connection, side);
  if (!end.failed) {
    // Closing with unread bytes sends the peer a reset, which may lose the last bytes sent to it.
    if (!reset && connection.pipes[side].arrived > 0) {
      reset = true;
      clockwork_.probes.hit("net.reset_by_close");
    }
    if (reset)
      send_reset(connection, 1 - side);
    else
      finish(connection, 1 - side);
  }
  end.closed = true;
  settle(connection);
}

// --- events

void SimNetwork::on_segment(void* self, std::uint64_t key, std::uint64_t to) {
  auto& network = *static_cast<SimNetwork*>(self);
  if (Connection* connection = network.find(key)) network.deliver(*connection, static_cast<unsigned>(to));
}

void SimNetwork::deliver(Connection& connection, unsigned to) {
  Pipe& pipe = connection.pipes[to];
  if (connection.silent || pipe.segments.empty()) return;
  const unsigned from = connection.ends[1 - to].node;
  if (held(from, connection.ends[to].node)) {
    clockwork_.probes.hit(way(from, connection.ends[to].node).cut ? Tag("net.cut") : Tag("net.frozen"));
    ++pipe.held;
    return;
  }
  if (clockwork_.chance(faults.vanish, "net.vanish")) {
    clockwork_.probes.hit("net.half_open");
    connection.silent = true;
    return;
  }
  if (clockwork_.chance(faults.reset, "net.reset")) {
    clockwork_.probes.hit("net.reset");
    fail_end(connection, 0);
    fail_end(connection, 1);
    return;
  }
  arrive(connection, to, pipe.segments.pop());
}

void SimNetwork::arrive(Connection& connection, unsigned to, std::uint32_t length) {
  End& end = connection.ends[to];
  Pipe& pipe = connection.pipes[to];
  clockwork_.fold((static_cast<std::uint64_t>(connection.index) << 40) ^ (std::uint64_t{to} << 39) ^ length);
  if (end.gone) {
    clockwork_.probes.hit("net.peer_gone");
    if (hosts_[end.node].up) send_reset(connection, 1 - to);
    return;
  }
  if (end.closed || end.failed) {
    if (length != 0) send_reset(connection, 1 - to);
    return;
  }
  if (length == 0)
    pipe.ended = true;
  else
    pipe.arrived += length;
  delivered_ += length;
  acknowledge(connection, to);
  if (end.stream == nullptr) return;
  end.stream->readable.signal();
  if (length == 0) end.stream->tell_peer_gone();
}

void SimNetwork::on_reset(void* self, std::uint64_t key, std::uint64_t to) {
  auto& network = *static_cast<SimNetwork*>(self);
  Connection* connection = network.find(key);
  if (connection == nullptr || connection->silent) return;
  if (network.held(connection->ends[1 - to].node, connection->ends[to].node)) {
    network.clockwork_.probes.hit("net.reset_lost");  // a reset is not retransmitted
    return;
  }
  network.fail_end(*connection, static_cast<unsigned>(to));
}

void SimNetwork::on_room(void* self, std::uint64_t key, std::uint64_t from) {
  Connection* connection = static_cast<SimNetwork*>(self)->find(key);
  if (connection == nullptr || connection->silent || connection->ends[from].stream == nullptr) return;
  connection->ends[from].stream->writable.signal();
}

void SimNetwork::on_push(void* self, std::uint64_t key, std::uint64_t to) {
  auto& network = *static_cast<SimNetwork*>(self);
  Connection* connection = network.find(key);
  if (connection != nullptr) network.send(*connection, static_cast<unsigned>(to), 0, true);
}

void SimNetwork::on_credit(void* self, std::uint64_t key, std::uint64_t to) {
  auto& network = *static_cast<SimNetwork*>(self);
  Connection* connection = network.find(key);
  if (connection == nullptr) return;
  connection->pipes[to].owed = 0;
  network.open_window(*connection, static_cast<unsigned>(to));
}

// --- crash

void SimNetwork::power_off(unsigned node) {
  Host& host = hosts_[node];
  host.up = host.running = false;
  for (Connection& connection : connections_)
    for (const unsigned side : {0u, 1u}) {
      End& end = connection.ends[side];
      if (!connection.live || end.node != node || end.closed) continue;
      detach(connection, side);
      end.closed = end.gone = true;
      settle(connection);
    }
  for (auto it = listeners_.begin(); it != listeners_.end();) {
    if (it->first.node != node) {
      ++it;
      continue;
    }
    it->second->network_ = nullptr;
    it->second->queue_.clear();
    it = listeners_.erase(it);
  }
}

void SimNetwork::kill(unsigned node) {
  hosts_[node].running = false;
  for (auto it = listeners_.begin(); it != listeners_.end();) {
    SimListener* listener = it->second;
    const bool here = it->first.node == node;
    ++it;
    if (here) listener->close();
  }
  for (Connection& connection : connections_)
    for (const unsigned side : {0u, 1u})
      if (connection.live && connection.ends[side].node == node) close_end(connection, side, false);
}

void SimNetwork::power_on(unsigned node) {
  hosts_[node].up = hosts_[node].running = true;
  for (Connection& connection : connections_)
    for (const unsigned side : {0u, 1u}) {
      if (!connection.live || connection.ends[side].node != node || !connection.ends[side].gone) continue;
      if (connection.pipes[side].bytes.size() != 0) send_reset(connection, 1 - side);
    }
}

}  // namespace cairn::io::sim
