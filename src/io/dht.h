// Dht: a node of a distributed hash table, and each shard's way to it. Values are small, public, live for ten
// minutes, and are kept by whoever is near their key. Three twins: the real network (OpenDhtMaker), one node
// within this process (LocalDhtMaker), and a simulated network (sim::SimDht).
//
//   [DH-1] A value is given to `take` in the task that called get(), and never after get() has returned,
//         whatever still comes from the network.
//   [DH-2] Of one get at most dht_values_most values are given, none larger than dht_value_max, and all gets
//         together hold at most dht_held_most values that were not yet given. What is beyond is dropped and
//         counted.
//   [DH-3] `complete` means that the nodes that are nearest to the key were asked and have answered. A search
//         that could not ask them is an error, so "nothing there" differs from "not known".
//   [DH-4] A put that succeeded was acknowledged by nodes of the network. A value that is there already is
//         renewed when it is put again. Other bytes under its id do not replace it: who changes a value gives
//         it another id.
//   [DH-5] After close() every operation, also one under way, ends with `closed`, and no thread of the
//         network runs any more.
//
// Everything that a get gives comes from strangers. A value may be forged, old, repeated or misplaced, and
// comes in any order: the caller verifies it. Nothing is ever deleted from a network.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/endpoint.h"
#include "base/network.h"
#include "base/result.h"
#include "base/units.h"
#include "runtime/declaration.h"
#include "runtime/task.h"

namespace cairn::io {

struct Machine;

inline constexpr std::size_t dht_value_max = 1024;
inline constexpr std::size_t dht_values_most = 256;     // given by one get
inline constexpr std::size_t dht_under_way_most = 256;  // gets and puts of one node, the abandoned ones too
inline constexpr std::size_t dht_held_most = 16'384;    // values on their way from the network to their gets
inline constexpr Duration dht_value_life = Duration::seconds(600);

// What a service that uses a Dht declares among its locks.
inline constexpr LockDeclaration dht_lock{
    "dht", 27, "searches of the DHT that are under way; the values of a DHT within the process"};

// Where values are kept: the nodes whose ids are nearest to the key keep them.
struct DhtKey {
  std::array<std::byte, 20> bytes{};
  friend auto operator<=>(const DhtKey&, const DhtKey&) = default;
};
// The key of what is said about `address` in one network. The tag names the kind of value. A bystander who
// does not know the address does not learn it from the key.
DhtKey dht_key(std::string_view tag, std::uint32_t network, const Address& address);

struct DhtValue {
  std::uint64_t id = 0;  // its name under its key, never 0
  std::string bytes;
  friend bool operator==(const DhtValue&, const DhtValue&) = default;
};

// Receives a value as soon as it has come. True: enough, the get ends.
using DhtSink = std::function<bool(const DhtValue& value)>;

struct DhtOutcome {
  std::size_t given = 0;    // values that `take` received
  std::size_t dropped = 0;  // values that came and were not given: too many, too large, or of a foreign type
  bool satisfied = false;   // `take` had enough
  bool complete = false;    // DH-3
};

struct DhtStatus {
  bool ready = false;  // knows a good node, or needs none
  std::size_t good_nodes = 0;
  std::size_t dubious_nodes = 0;  // known, but not heard of lately
  std::size_t stored_values = 0;  // that this node keeps for the network
  std::uint64_t stored_bytes = 0;
  std::size_t under_way = 0;  // gets and puts, also those that their callers have left
  std::uint64_t dropped = 0;  // of all gets so far
  std::uint16_t port = 0;     // where it listens; 0: nowhere
};

// A node of the network, to be remembered for the next start.
struct DhtPeer {
  std::array<std::byte, 20> id{};
  IpBytes ip{};  // IPv6, or IPv4 mapped
  std::uint16_t port = 0;
  friend bool operator==(const DhtPeer&, const DhtPeer&) = default;
};

enum class DhtMode : std::uint8_t {
  local,            // within this process
  lan,              // finds its peers by multicast
  private_network,  // knows its peers
  public_network,   // has a public address that does not change
};

struct DhtOptions {
  DhtMode mode = DhtMode::local;
  Endpoint bind{"127.0.0.1", 0};  // an address; port 0 asks the kernel for one
  std::uint32_t network = 0;      // nodes of another network are not heard; 0 belongs to the public one
  std::vector<Endpoint> bootstrap = {};   // asked whenever no node is known
  std::vector<DhtPeer> peers = {};        // of an earlier run
  std::uint64_t store_bytes = 16u << 20;  // kept for the network at most
};

// One shard's way to the node. Gets and puts that cannot be sent are `busy` (too many under way) or
// `not_ready` (no node of the network is known); one that the network failed is `upstream`.
class Dht {
 public:
  virtual ~Dht() = default;

  // Searches for the values of `key` until `take` has enough or the network has no more. Values are worth
  // acting upon at once: the end of a search may lag a second behind its last value.
  // Cancel: partial — the search goes on by itself, unheard, and counts as under way until it ends.
  virtual Task<Result<DhtOutcome>> get(Call call, DhtKey key, DhtSink take) = 0;
  // Until the value is acknowledged. `invalid`: no id, no bytes or too many. The caller puts it again before
  // dht_value_life has passed if it is to stay. Cancel: partial — the value may be stored.
  virtual Task<Result<>> put(Call call, DhtKey key, DhtValue value) = 0;
  // Cancel: clean.
  virtual Task<Result<DhtStatus>> status(Call call) = 0;
  // Nodes that answered lately, to be given as DhtOptions::peers at the next start. Cancel: clean.
  virtual Task<Result<std::vector<DhtPeer>>> export_peers(Call call) = 0;
  // More nodes to begin with, asked now and whenever no node is known.
  // Cancel: partial — some may be known already.
  virtual Task<Result<>> bootstrap(Call call, std::vector<Endpoint> nodes) = 0;
};

// The node: one for each process, shared by its shards. Destroying it closes it and may block: close() first.
class DhtNode {
 public:
  virtual ~DhtNode() = default;
  // `machine` is of the current shard and outlives the port; the port does not outlive the node.
  virtual std::unique_ptr<Dht> make_port(Machine& machine) = 0;
  // Ends what is under way and waits for the node's threads. Again: fine. A timeout: its threads still end,
  // and DH-5 does not hold yet. Cancel: partial — it is closed, but its threads may still run.
  virtual Task<Result<>> close(Call call, Machine& machine) = 0;
};

// Makes nodes: real and simulated processes differ only in the maker they are given.
class DhtMaker {
 public:
  virtual ~DhtMaker() = default;
  // `invalid`: an option makes no sense; `io_failed`: the address cannot be bound. A node without peers is
  // fine: it is not ready. Cancel: partial — the node is made and closed again.
  virtual Task<Result<std::shared_ptr<DhtNode>>> open(Call call, Machine& machine, DhtOptions options) = 0;
};

// Faults of a put, the same for every twin: null, or what is wrong.
const char* find_fault(const DhtValue& value) noexcept;
// The same of the options of a node.
const char* find_fault(const DhtOptions& options) noexcept;

}  // namespace cairn::io
