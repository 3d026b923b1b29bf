#include "io/open_dht.h"

// Boost would only be used for types that OpenDHT does not have.
#define MSGPACK_NO_BOOST
#include <opendht/dhtrunner.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <tuple>
#include <utility>

#include "io/dht_ask.h"
#include "io/local_dht.h"
#include "io/machine.h"
#include "runtime/pool.h"

namespace cairn::io {
namespace {

constexpr dht::ValueType::Id value_type = 0xca19;  // of our values
constexpr dht::ValueType::Id foreign_types = 256;  // and all below
constexpr ssize_t requests_per_second = 8192;
constexpr std::size_t greeted_most = 32;

dht::InfoHash to_hash(const DhtKey& key) {
  return {reinterpret_cast<const std::uint8_t*>(key.bytes.data()), key.bytes.size()};
}

// A value as put() makes it: bytes and an id, nobody's signature, for everybody.
bool is_ours(const dht::Value& value) {
  return value.type == value_type && value.id != dht::Value::INVALID_ID && !value.isSigned() &&
         !value.isEncrypted() && value.user_type.empty() && !value.data.empty() &&
         value.data.size() <= dht_value_max;
}

ByteView bytes_of(const dht::Value& value) {
  return {reinterpret_cast<const std::byte*>(value.data.data()), value.data.size()};
}

// Throws when it is no address.
dht::SockAddr to_bind(const Endpoint& endpoint) {
  const std::string host = endpoint.host == "localhost" ? "127.0.0.1" : endpoint.host;
  dht::SockAddr address;
  address.setFamily(host.find(':') == host.npos ? AF_INET : AF_INET6);
  address.setAddress(host.c_str());
  address.setPort(endpoint.port);
  return address;
}

// Both address families as one.
DhtPeer to_peer(const dht::NodeExport& node) {
  DhtPeer peer;
  std::memcpy(peer.id.data(), node.id.data(), peer.id.size());
  if (node.ss.ss_family == AF_INET) {
    sockaddr_in v4;
    std::memcpy(&v4, &node.ss, sizeof v4);
    peer.ip[10] = peer.ip[11] = 0xff;
    std::memcpy(&peer.ip[12], &v4.sin_addr, 4);
    peer.port = ntohs(v4.sin_port);
  } else if (node.ss.ss_family == AF_INET6) {
    sockaddr_in6 v6;
    std::memcpy(&v6, &node.ss, sizeof v6);
    std::memcpy(peer.ip.data(), &v6.sin6_addr, peer.ip.size());
    peer.port = ntohs(v6.sin6_port);
  }
  return peer;
}

dht::NodeExport from_peer(const DhtPeer& peer) {
  dht::NodeExport node{};
  std::memcpy(node.id.data(), peer.id.data(), peer.id.size());
  const IpNetwork mapped = {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff}, 96};
  if (mapped.contains(peer.ip)) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(peer.port);
    std::memcpy(&v4.sin_addr, &peer.ip[12], 4);
    node.sslen = sizeof v4;
    std::memcpy(&node.ss, &v4, sizeof v4);
  } else {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(peer.port);
    std::memcpy(&v6.sin6_addr, peer.ip.data(), peer.ip.size());
    node.sslen = sizeof v6;
    std::memcpy(&node.ss, &v6, sizeof v6);
  }
  return node;
}

// The thread that reads OpenDHT's socket closes it at the end while the other may still send: by a number
// that may be somebody else's connection by then. So nothing is sent any more once it was told to stop.
class Socket final : public dht::net::UdpSocket {
 public:
  using UdpSocket::UdpSocket;
  int sendTo(const dht::SockAddr& to, const std::uint8_t* bytes, std::size_t size, bool replied) override {
    return stopped_.with(
        [&](bool& stopped) { return stopped ? 0 : UdpSocket::sendTo(to, bytes, size, replied); });
  }
  void stop() override {
    stopped_.with([](bool& stopped) { stopped = true; });
    UdpSocket::stop();
  }

 private:
  Guarded<bool, dht_lock.rank> stopped_{false};
};

// What the ports and the node share. Callbacks of OpenDHT may use it: the runner goes first, and they with
// it.
class Core {
 public:
  Core(DhtOptions options, std::size_t keys_most) : options_(std::move(options)), keys_most_(keys_most) {}

  // --- these block: for the pool
  Result<> start();
  // The node anew, as OD-2 says. Does nothing when another call was faster.
  void renew();
  void stop();
  // The same without waiting for another that stops it: the last of them ends the threads.
  void drop();
  DhtStatus status();
  std::vector<DhtPeer> export_peers();
  void bootstrap(const std::vector<Endpoint>& nodes);

  // --- from any shard
  const std::shared_ptr<DhtLoad>& load() const noexcept { return load_; }
  bool is_closed() const noexcept { return load_->closed.load(std::memory_order_relaxed); }
  // [OD-2] Now is the time: nothing is under way, or it cannot wait any more.
  bool is_worn() const noexcept {
    const std::size_t keys = keys_.load(std::memory_order_relaxed);
    return keys >= keys_most_ || (keys >= keys_most_ / 2 && load_->under_way.taken() == 0);
  }
  void get(const DhtKey& key, std::shared_ptr<DhtAsk> ask);
  void put(const DhtKey& key, DhtValue value, std::shared_ptr<DhtAsk> ask);

 private:
  Result<> run(const dht::InfoHash& id);
  // Makes nodes known and asks the first of them whether they are there. Gets and puts wait for an answer.
  void greet(std::vector<dht::NodeExport> nodes);

  // [OD-3]
  struct Search {
    Search(Core& of, const DhtKey& key_) : core(of), key(key_) {}
    ~Search() {
      for (std::size_t i = 0; i < values.size(); ++i) core.load_->held.give();
    }
    Search(const Search&) = delete;
    Search& operator=(const Search&) = delete;
    Core& core;
    DhtKey key;
    std::vector<DhtValue> values;  // so far, for gets that come later
    std::size_t dropped = 0;
    std::vector<DhtCaller> callers;
  };
  struct Running {
    explicit Running(std::shared_ptr<Search> of) noexcept : search(std::move(of)) {}
    ~Running() { search->core.hear_end(search, DhtEnd::failed); }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    std::shared_ptr<Search> search;
  };
  using Searches = std::map<DhtKey, std::shared_ptr<Search>>;
  // On OpenDHT's thread.
  void hear_values(Search& search, const std::vector<std::shared_ptr<dht::Value>>& values);
  void hear_end(const std::shared_ptr<Search>& search, DhtEnd how) noexcept;
  DhtEnd end_of(bool ok) const noexcept;

  DhtOptions options_;
  std::size_t keys_most_;
  std::shared_ptr<DhtLoad> load_ = std::make_shared<DhtLoad>();
  // Publish no other memory.
  std::atomic<std::size_t> keys_{0};  // asked for since the node was begun; counted again when asked again
  std::atomic<bool> alone_{true};     // no node is known
  // Of the node, whenever it begins. Who starts or stops the threads holds it: a second stop() waits here
  // until they have ended.
  struct Identity {
    dht::InfoHash id;
    std::vector<dht::NodeExport> peers;
  };
  Guarded<Identity, dht_lock.rank> identity_;
  Guarded<Searches, dht_lock.rank> searches_;
  dht::DhtRunner runner_;
};

// [OD-1] Of a type that is not registered OpenDHT takes anything up to 64 KiB. To register all of them would
// cost 37 MB.
void register_types(dht::DhtRunner& runner) {
  const auto refuse = [](dht::InfoHash, std::shared_ptr<dht::Value>&, const dht::InfoHash&,
                         const dht::SockAddr&) { return false; };
  const auto accept = [](dht::InfoHash, std::shared_ptr<dht::Value>& value, const dht::InfoHash&,
                         const dht::SockAddr&) { return value != nullptr && is_ours(*value); };
  const auto life = std::chrono::nanoseconds(dht_value_life.ns);
  for (dht::ValueType::Id id = 0; id < foreign_types; ++id)
    runner.registerType(dht::ValueType(id, "foreign", life, refuse));
  runner.registerType(dht::ValueType(value_type, "cairn", life, accept));
}

Result<> Core::start() {
  return identity_.with([this](Identity& self) -> Result<> {
    self.id = dht::InfoHash::getRandom();
    for (const DhtPeer& peer : options_.peers) self.peers.push_back(from_peer(peer));
    TRY_VOID(run(self.id));
    greet(self.peers);
    bootstrap(options_.bootstrap);
    return {};
  });
}

void Core::greet(std::vector<dht::NodeExport> nodes) {
  if (nodes.empty()) return;
  std::vector<dht::SockAddr> addresses;
  for (const dht::NodeExport& node : nodes) addresses.emplace_back(node.ss, node.sslen);
  if (addresses.size() > greeted_most) addresses.resize(greeted_most);
  runner_.bootstrap(std::move(nodes));
  runner_.bootstrap(std::move(addresses));
}

// OpenDHT throws when it cannot bind.
Result<> Core::run(const dht::InfoHash& id) try {
  dht::DhtRunner::Config config;
  dht::Config& node = config.dht_config.node_config;
  node.node_id = id;
  node.network = options_.network;
  node.max_store_size = static_cast<ssize_t>(options_.store_bytes);
  node.max_store_keys = static_cast<ssize_t>(options_.store_bytes / dht_value_max);
  node.public_stable = options_.mode == DhtMode::public_network;
  // OpenDHT's limits for requests that come in, in all and from one address, are meant for strangers. A node
  // among few of its own kind is asked by each of them whenever that one is asked for something.
  if (options_.mode != DhtMode::public_network) {
    node.max_req_per_sec = requests_per_second;
    node.max_peer_req_per_sec = requests_per_second / 4;
  }
  // Discovery listens on every address of the machine, and nobody out there finds a node on loopback.
  config.peer_discovery = config.peer_publish = options_.mode == DhtMode::lan && !options_.bind.is_loopback();
  const dht::SockAddr address = to_bind(options_.bind);
  const bool is_v6 = address.getFamily() == AF_INET6;  // the other family stays without a socket
  (is_v6 ? config.bind6 : config.bind4) = address;
  dht::DhtRunner::Context context;
  context.sock = std::make_unique<Socket>(config.bind4, config.bind6);
  context.statusChangedCallback = [this](dht::NodeStatus v4, dht::NodeStatus v6) {
    alone_.store(std::max(v4, v6) == dht::NodeStatus::Disconnected, std::memory_order_relaxed);
  };
  runner_.run(config, std::move(context));
  register_types(runner_);
  const std::uint16_t port = std::max(runner_.getBoundPort(AF_INET), runner_.getBoundPort(AF_INET6));
  if (port == 0) {
    runner_.join();
    return fail(ErrorCode::io_failed, "the DHT cannot bind");
  }
  options_.bind.port = port;  // also when it begins anew
  return {};
} catch (const std::exception&) {
  return fail(ErrorCode::io_failed, "the DHT cannot bind");
}

void Core::renew() {
  identity_.with([this](Identity& self) {
    if (is_closed() || !is_worn()) return;
    if (auto peers = runner_.exportNodes(); !peers.empty()) self.peers = std::move(peers);
    // Values that it takes over have nobody's address, by which OpenDHT would decide what goes first when
    // there is no room: they must not fill it.
    auto values = runner_.exportValues();
    if (runner_.getStoreSize().first > options_.store_bytes / 2) values.clear();
    runner_.join();
    alone_.store(true, std::memory_order_relaxed);
    if (!run(self.id)) return;  // the next caller tries again
    keys_.store(0, std::memory_order_relaxed);
    runner_.importValues(values);
    greet(self.peers);
    bootstrap(options_.bootstrap);
  });
}

void Core::stop() {
  load_->closed.store(true, std::memory_order_relaxed);
  identity_.with([this](Identity&) { runner_.join(); });
}

void Core::drop() {
  if (!load_->closed.exchange(true, std::memory_order_relaxed)) runner_.join();
}

DhtStatus Core::status() {
  const dht::NodeInfo info = runner_.getNodeInfo();
  DhtStatus status;
  status.good_nodes = info.ipv4.good_nodes + info.ipv6.good_nodes;
  status.dubious_nodes = info.ipv4.dubious_nodes + info.ipv6.dubious_nodes;
  status.ready = status.good_nodes > 0;
  std::tie(status.stored_bytes, status.stored_values) = runner_.getStoreSize();
  status.under_way = load_->under_way.taken();
  status.dropped = load_->dropped.load(std::memory_order_relaxed);
  status.port = std::max(info.bound4, info.bound6);
  return status;
}

std::vector<DhtPeer> Core::export_peers() {
  std::vector<DhtPeer> peers;
  for (const dht::NodeExport& node : runner_.exportNodes()) peers.push_back(to_peer(node));
  return peers;
}

void Core::bootstrap(const std::vector<Endpoint>& nodes) {
  for (const Endpoint& node : nodes) runner_.bootstrap(node.host, std::to_string(node.port));
}

void Core::get(const DhtKey& key, std::shared_ptr<DhtAsk> ask) {
  const DhtCaller caller(std::move(ask));
  const std::shared_ptr<Search> begun = searches_.with([&](Searches& searches) -> std::shared_ptr<Search> {
    std::shared_ptr<Search>& search = searches[key];
    const bool is_new = search == nullptr;
    if (is_new) search = std::make_shared<Search>(*this, key);
    for (const DhtValue& value : search->values) (void)caller.give(value.id, as_bytes(value.bytes));
    for (std::size_t i = 0; i < search->dropped; ++i) (void)caller.drop();
    search->callers.push_back(caller);
    return is_new ? search : nullptr;
  });
  if (begun == nullptr) return;
  keys_.fetch_add(1, std::memory_order_relaxed);
  // Whichever way OpenDHT lets go of these, the search ends.
  const auto running = std::make_shared<Running>(begun);
  const dht::GetCallback give = [this, running](const std::vector<std::shared_ptr<dht::Value>>& values) {
    hear_values(*running->search, values);
    return true;
  };
  const dht::DoneCallbackSimple end = [this, running](bool ok) { hear_end(running->search, end_of(ok)); };
  runner_.get(to_hash(key), give, end);
}

void Core::hear_values(Search& search, const std::vector<std::shared_ptr<dht::Value>>& values) {
  searches_.with([&](Searches&) {
    for (const auto& value : values) {
      const bool ours = is_ours(*value);
      for (const DhtCaller& caller : search.callers)
        (void)(ours ? caller.give(value->id, bytes_of(*value)) : caller.drop());
      if (ours && search.values.size() < dht_values_most && load_->held.try_take())
        search.values.push_back({value->id, std::string(as_text(bytes_of(*value)))});
      else
        ++search.dropped;
    }
  });
}

void Core::hear_end(const std::shared_ptr<Search>& search, DhtEnd how) noexcept {
  searches_.with([&](Searches& searches) {
    if (const auto at = searches.find(search->key); at != searches.end() && at->second == search)
      searches.erase(at);
    for (const DhtCaller& caller : std::exchange(search->callers, {})) caller.end(how);
  });
}

void Core::put(const DhtKey& key, DhtValue value, std::shared_ptr<DhtAsk> ask) {
  keys_.fetch_add(1, std::memory_order_relaxed);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(value.bytes.data());
  auto put = std::make_shared<dht::Value>(value_type, bytes, value.bytes.size(), value.id);
  const dht::DoneCallbackSimple end = [this, caller = DhtCaller(std::move(ask))](bool ok) {
    caller.end(end_of(ok));
  };
  runner_.put(to_hash(key), std::move(put), end);
}

DhtEnd Core::end_of(bool ok) const noexcept {
  if (ok) return DhtEnd::complete;
  return alone_.load(std::memory_order_relaxed) ? DhtEnd::no_node : DhtEnd::failed;
}

class OpenPort final : public Dht {
 public:
  OpenPort(std::shared_ptr<Core> core, Machine& machine) noexcept
      : core_(std::move(core)), pool_(machine.pool), home_(machine.mailbox) {}

  Task<Result<DhtOutcome>> get(Call call, DhtKey key, DhtSink take) override {
    CO_TRY_VOID(may_begin(call, "dht get"));
    CO_TRY_VOID(co_await keep_fresh(call));
    CO_TRY(std::shared_ptr<DhtAsk> ask, DhtAsk::make(core_->load(), home_));
    core_->get(key, ask);
    co_return co_await take_values(call, std::move(ask), std::move(take));
  }
  Task<Result<>> put(Call call, DhtKey key, DhtValue value) override {
    if (const char* fault = find_fault(value)) co_return fail(ErrorCode::invalid, fault);
    CO_TRY_VOID(may_begin(call, "dht put"));
    CO_TRY_VOID(co_await keep_fresh(call));
    CO_TRY(std::shared_ptr<DhtAsk> ask, DhtAsk::make(core_->load(), home_));
    core_->put(key, std::move(value), ask);
    co_return co_await wait_for_end(call, std::move(ask));
  }
  Task<Result<DhtStatus>> status(Call call) override {
    if (core_->is_closed()) co_return fail(error_of(DhtEnd::closed));
    co_return co_await run(pool_, call, Lane::upkeep, [core = core_] { return core->status(); });
  }
  Task<Result<std::vector<DhtPeer>>> export_peers(Call call) override {
    if (core_->is_closed()) co_return fail(error_of(DhtEnd::closed));
    co_return co_await run(pool_, call, Lane::upkeep, [core = core_] { return core->export_peers(); });
  }
  Task<Result<>> bootstrap(Call call, std::vector<Endpoint> nodes) override {
    if (core_->is_closed()) co_return fail(error_of(DhtEnd::closed));
    co_return co_await run(pool_, call, Lane::upkeep,
                           [core = core_, nodes = std::move(nodes)] { core->bootstrap(nodes); });
  }

 private:
  // [OD-2]
  Task<Result<>> keep_fresh(Call call) {
    if (!core_->is_worn() || core_->is_closed()) co_return Result<>{};
    co_return co_await run(pool_, call, Lane::upkeep, [core = core_] { core->renew(); });
  }

  std::shared_ptr<Core> core_;
  Pool& pool_;
  Mailbox& home_;
};

class OpenNode final : public DhtNode {
 public:
  explicit OpenNode(std::shared_ptr<Core> core) noexcept : core_(std::move(core)) {}
  ~OpenNode() override { core_->drop(); }
  OpenNode(const OpenNode&) = delete;
  OpenNode& operator=(const OpenNode&) = delete;

  std::unique_ptr<Dht> make_port(Machine& machine) override {
    return std::make_unique<OpenPort>(core_, machine);
  }
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller waits
  Task<Result<>> close(Call call, Machine& machine) override {
    core_->load()->closed.store(true, std::memory_order_relaxed);
    co_return co_await run(machine.pool, call, Lane::upkeep, [core = core_] { core->stop(); });
  }

 private:
  std::shared_ptr<Core> core_;
};

}  // namespace

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller waits
Task<Result<std::shared_ptr<DhtNode>>> OpenDhtMaker::open(Call call, Machine& machine, DhtOptions options) {
  if (const char* fault = find_fault(options)) co_return fail(ErrorCode::invalid, fault);
  if (options.mode == DhtMode::local) co_return co_await LocalDhtMaker().open(call, machine, options);
  auto core = std::make_shared<Core>(std::move(options), options_.keys_most);
  CO_TRY_VOID(co_await run(machine.pool, call.shield(), Lane::upkeep, [core] { return core->start(); }));
  co_return std::make_shared<OpenNode>(std::move(core));
}

}  // namespace cairn::io
