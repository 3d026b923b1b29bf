// SimNetwork: the wires between simulated nodes. Bytes arrive in order and intact, or not at all, in any
// pieces and at any time. All other failures that TCP allows can be asked for or left to chance.
//
// A node is reached by its name or as 10.0.0.N (N counts from 1 in the order nodes were added); loopback
// hosts and Unix paths mean the node itself. Segments that a cut or a freeze holds back are not lost: they go
// on when healed, as retransmission would have it. Only a reset on its way is lost.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "io/sim/clockwork.h"
#include "io/sim/pipe.h"
#include "io/stream.h"
#include "runtime/waiter.h"

namespace cairn::io::sim {

// Rates are per million; 0 is never.
struct NetworkFaults {
  std::uint32_t split_write = 0;     // a write takes only a part
  std::uint32_t split_delivery = 0;  // a write arrives in pieces, at different times
  std::uint32_t reset = 0;           // per segment: both sides see a reset
  std::uint32_t vanish = 0;          // per segment: the connection is half open from now on: silence
  std::uint32_t silence = 0;         // per connect: it succeeds, but the peer never answers
  std::uint32_t refuse = 0;          // per connect
  std::uint32_t slow_reader = 0;     // per direction of a connection: a small window that opens late
  std::uint32_t accept_error = 0;    // per accept: out of descriptors; the connection stays queued
  std::uint32_t clog = 0;            // per segment: this direction pauses for clog_for
  Duration latency_min = Duration::micros(100);  // of a pair of nodes, drawn once
  Duration latency_max = Duration::millis(2);
  Duration jitter = Duration::micros(50);  // per segment, on top
  Duration loopback = Duration::micros(10);
  Duration cork_for = Duration::millis(200);  // how long a part segment is held back at most
  Duration syn_retry = Duration::seconds(1);
  Duration slow_for = Duration::millis(200);
  Duration clog_for = Duration::millis(500);
  std::size_t send_buffer = 32 * 1024;  // written and not yet at the reader's side, per direction
  std::size_t window = 32 * 1024;       // sent and not yet read, per direction
  std::size_t slow_window = 1024;
  // A shut window opens again once this much of it is free; 0: a sixteenth, as kernels do over a network.
  // Over loopback a segment is 64 KiB, and so is this.
  std::size_t reopen = 0;
  std::size_t backlog = 128;
};

class SimNetwork;
class SimStream;
class SimListener;

// One shard's way to the network.
class NetworkPort final : public Network {
 public:
  NetworkPort(SimNetwork& network, Shard& shard, unsigned node) noexcept
      : network_(network), shard_(shard), node_(node) {}
  Result<std::unique_ptr<Listener>> listen(const Endpoint& endpoint) override;
  Task<Result<std::unique_ptr<Stream>>> connect(Call call, Endpoint endpoint) override;

  Shard& shard() const noexcept { return shard_; }
  unsigned node() const noexcept { return node_; }

 private:
  SimNetwork& network_;
  Shard& shard_;
  unsigned node_;
};

class SimNetwork {
 public:
  explicit SimNetwork(Clockwork& clockwork);
  SimNetwork(const SimNetwork&) = delete;
  SimNetwork& operator=(const SimNetwork&) = delete;
  ~SimNetwork();

  NetworkFaults faults;
  // What both ends of every connection have agreed upon to speak, as if by ALPN. Outlives the network.
  std::string_view protocol;
  // The same of connections to that port, whatever is spoken elsewhere.
  std::map<std::uint16_t, std::string_view> protocols;

  // Nodes are known by number from here on.
  unsigned add_node(std::string name);

  // --- faults on purpose
  void cut(unsigned from, unsigned to);  // one way
  void partition(unsigned a, unsigned b) { cut(a, b), cut(b, a); }
  void freeze(unsigned node);  // nothing in or out
  void heal(unsigned from, unsigned to);
  void heal();                     // every cut and freeze
  void reset_all(unsigned node);   // every connection of the node, both sides, now
  void vanish_all(unsigned node);  // every connection of the node goes silent
  void set_latency(unsigned from, unsigned to, Duration latency);

  // --- crash: the node's streams and listeners are dead objects from now on
  void power_off(unsigned node);  // the peers get no reset and no end
  void kill(unsigned node);       // its kernel closes what the process had open
  void power_on(unsigned node);   // the peers' retransmissions are answered by resets

  std::size_t connections() const noexcept { return live_; }
  std::uint64_t bytes_delivered() const noexcept { return delivered_; }

 private:
  friend class NetworkPort;
  friend class SimStream;
  friend class SimListener;
  friend class Dialing;

  struct Address {
    unsigned node = 0;
    std::uint16_t port = 0;
    std::string path;
    friend auto operator<=>(const Address&, const Address&) = default;
  };
  struct End {
    SimStream* stream = nullptr;
    unsigned node = 0;
    std::uint16_t port = 0;
    bool closed = false;  // by its program, or with its node
    bool failed = false;  // a reset has arrived
    bool gone = false;    // its node lost power
  };
  // pipes[s] carries the bytes that end s reads.
  struct Connection {
    std::uint32_t index = 0;
    std::uint32_t generation = 0;
    bool live = false;
    bool local = false;
    bool silent = false;  // half open: nothing arrives any more
    End ends[2];
    Pipe pipes[2];
  };
  struct Dial {
    std::uint32_t index = 0;
    std::uint32_t generation = 0;
    bool live = false;
    bool finished = false;
    NetworkPort* port = nullptr;
    Address to;
    std::uint64_t connection = 0;  // 0: none yet
    Result<> outcome;
    WaitList waiters;
  };
  struct Way {
    Duration latency{-1};
    bool cut = false;
  };
  struct Host {
    std::string name;
    bool up = true;       // has power
    bool running = true;  // has a process that may use the network
    bool frozen = false;
    std::uint16_t next_port = 40'000;
  };

  std::string_view protocol_of(std::uint16_t port) const noexcept {
    const auto at = protocols.find(port);
    return at == protocols.end() ? protocol : at->second;
  }

  // --- naming
  Result<Address> resolve(const Endpoint& endpoint, unsigned self, bool to_listen) const;
  Way& way(unsigned from, unsigned to);
  bool held(unsigned from, unsigned to);
  Duration latency(unsigned from, unsigned to);
  std::uint16_t ephemeral(unsigned node) noexcept;

  // --- connections by key: index and generation
  static std::uint64_t key(const Connection& connection) noexcept {
    return (static_cast<std::uint64_t>(connection.generation) << 32) | connection.index;
  }
  Connection* find(std::uint64_t key) noexcept;
  Connection& make_connection();
  void settle(Connection& connection);  // frees it once neither side needs it

  // --- what streams do; `side` is the caller's end
  Io read(SimStream& stream, std::byte* into, std::size_t count);  // null: thrown away
  Io write(SimStream& stream, std::span<const iovec> parts);
  Io send_file(SimStream& stream, File& file, std::uint64_t offset, std::size_t count);
  std::uint64_t unacknowledged(const SimStream& stream) noexcept;
  void cork(SimStream& stream, bool on);
  void shutdown_send(SimStream& stream);
  void close(SimStream& stream, bool reset);
  // The connection if at least one byte can be written now, else the status that says why not.
  std::pair<Connection*, IoStatus> writable(SimStream& stream);
  std::size_t accept_size(std::size_t wanted, std::size_t room);
  void send(Connection& connection, unsigned to, std::size_t count, bool push = false);
  void transmit(Connection& connection, unsigned to, std::uint32_t length);
  void open_window(Connection& connection, unsigned to);
  void acknowledge(Connection& connection, unsigned to);
  void finish(Connection& connection, unsigned to);
  void close_end(Connection& connection, unsigned side, bool reset);
  void fail_end(Connection& connection, unsigned side);

  // --- events
  static void on_segment(void* self, std::uint64_t key, std::uint64_t to);
  static void on_reset(void* self, std::uint64_t key, std::uint64_t to);
  static void on_room(void* self, std::uint64_t key, std::uint64_t from);
  static void on_push(void* self, std::uint64_t key, std::uint64_t to);
  static void on_credit(void* self, std::uint64_t key, std::uint64_t to);
  static void on_syn(void* self, std::uint64_t index, std::uint64_t generation);
  static void on_answer(void* self, std::uint64_t index, std::uint64_t generation);
  void send_reset(Connection& connection, unsigned to);
  void deliver(Connection& connection, unsigned to);
  void arrive(Connection& connection, unsigned to, std::uint32_t length);
  void release_held();
  void detach(Connection& connection, unsigned side) noexcept;

  // --- connecting
  Dial& begin_dial(NetworkPort& port, Address to);
  void end_dial(Dial& dial) noexcept;
  void syn(Dial& dial);
  void answer(Dial& dial, Result<> outcome);
  void join(Dial& dial, bool silent);
  SimListener* pick_listener(const Address& address);
  void stop_listening(SimListener& listener);
  std::string format(const Address& address) const;

  Clockwork& clockwork_;
  std::vector<Host> hosts_;
  std::vector<Way> ways_;  // from * hosts + to
  std::multimap<Address, SimListener*> listeners_;
  std::deque<Connection> connections_;
  std::vector<std::uint32_t> free_connections_;
  std::deque<Dial> dials_;
  std::vector<std::uint32_t> free_dials_;
  std::size_t live_ = 0;
  std::uint64_t delivered_ = 0;
};

class SimStream final : public Stream {
 public:
  SimStream(SimNetwork& network, Shard& shard, std::uint64_t connection, unsigned side);
  ~SimStream() override;
  Io try_read(MutableByteView into) noexcept override {
    return network_.read(*this, into.data(), into.size());
  }
  Io try_discard(std::size_t count) noexcept override { return network_.read(*this, nullptr, count); }
  Io try_writev(std::span<const iovec> parts) noexcept override { return network_.write(*this, parts); }
  Io try_send_file(File& file, std::uint64_t offset, std::size_t count) noexcept override {
    return network_.send_file(*this, file, offset, count);
  }
  std::uint64_t unacknowledged() const noexcept override { return network_.unacknowledged(*this); }
  void cork(bool on) noexcept override { network_.cork(*this, on); }
  void shutdown_send() noexcept override { network_.shutdown_send(*this); }
  void close(bool reset = false) noexcept override { network_.close(*this, reset); }
  PeerAddress peer() const noexcept override { return peer_; }
  std::string_view protocol() const noexcept override { return network_.protocol_of(port_); }

 private:
  friend class SimNetwork;
  friend class SimListener;
  SimNetwork& network_;
  std::uint64_t connection_;
  unsigned side_;
  std::uint16_t port_;  // that was connected to
  PeerAddress peer_;
};

class SimListener final : public Listener {
 public:
  SimListener(SimNetwork& network, Shard& shard, std::string address, bool loopback) noexcept
      : Listener(shard), network_(&network), shard_(shard), local_(std::move(address)), loopback_(loopback) {}
  ~SimListener() override { close(); }
  Accepted try_accept() noexcept override;
  void close() noexcept override;
  std::string local_address() const override { return local_; }
  std::size_t queued() const noexcept { return queue_.size(); }

 private:
  friend class SimNetwork;
  friend class NetworkPort;
  SimNetwork* network_;  // null once closed
  Shard& shard_;
  std::string local_;
  bool loopback_;
  std::deque<std::uint64_t> queue_;
};

}  // namespace cairn::io::sim
