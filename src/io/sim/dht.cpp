#include "io/sim/dht.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "io/local_dht.h"
#include "io/machine.h"

namespace cairn::io::sim {
namespace {

constexpr std::uint32_t million = ChoiceSource::million;
constexpr std::size_t near = 8;        // peers that keep a value, and that a peer names in an answer
constexpr std::size_t looked_at = 14;  // of a search
constexpr std::size_t at_once = 4;
constexpr std::uint8_t tries_most = 3;
constexpr std::size_t first_asked = 4;  // by a node that joins
constexpr std::size_t kept_most = 256;  // of one key, by one peer

// Round trips in milliseconds: the quantiles of a log-normal distribution with median 60 and sigma 0.6,
// clipped to 20..300. A table, because a logarithm is not the same on every machine.
constexpr std::array<std::uint16_t, 64> round_trips{
    20, 20, 21, 23, 25, 26, 28, 29,  31,  32,  33,  35,  36,  37,  38,  39,  41,  42,  43,  44, 45, 47,
    48, 49, 50, 51, 53, 54, 55, 57,  58,  59,  61,  62,  64,  65,  67,  68,  70,  72,  74,  75, 77, 79,
    82, 84, 86, 89, 91, 94, 97, 100, 104, 108, 112, 117, 122, 129, 136, 145, 157, 173, 198, 256};
constexpr Duration round_trip_max = Duration::millis(300);

DhtKey draw_id(Random& random) {
  DhtKey id;
  for (std::byte& byte : id.bytes) byte = static_cast<std::byte>(random.next() >> 56);
  return id;
}

bool is_nearer(const DhtKey& a, const DhtKey& b, const DhtKey& to) noexcept {
  for (std::size_t i = 0; i < to.bytes.size(); ++i)
    if (a.bytes[i] != b.bytes[i]) return (a.bytes[i] ^ to.bytes[i]) < (b.bytes[i] ^ to.bytes[i]);
  return false;
}

// The number of leading bits that two ids share.
std::size_t shared_bits(const DhtKey& a, const DhtKey& b) noexcept {
  for (std::size_t i = 0; i < a.bytes.size(); ++i)
    if (const auto differ = static_cast<std::uint8_t>(a.bytes[i] ^ b.bytes[i]); differ != 0)
      return 8 * i + static_cast<std::size_t>(std::countl_zero(differ));
  return 8 * a.bytes.size();
}

std::string draw_bytes(Random& random, std::size_t count) {
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random.next() >> 56);
  return bytes;
}

std::unexpected<Error> closed() noexcept { return fail(error_of(DhtEnd::closed)); }

}  // namespace

class SimDhtPort final : public Dht {
 public:
  SimDhtPort(std::shared_ptr<SimDht> network, SimDht::Number member, Mailbox& home) noexcept
      : network_(std::move(network)), member_(member), home_(home) {}

  Task<Result<DhtOutcome>> get(Call call, DhtKey key, DhtSink take) override {
    CO_TRY_VOID(may_begin(call, "dht get"));
    CO_TRY(std::shared_ptr<DhtAsk> ask, begin(SimDht::Purpose::get, key, {}));
    co_return co_await take_values(call, std::move(ask), std::move(take));
  }
  Task<Result<>> put(Call call, DhtKey key, DhtValue value) override {
    if (const char* fault = find_fault(value)) co_return fail(ErrorCode::invalid, fault);
    CO_TRY_VOID(may_begin(call, "dht put"));
    CO_TRY(std::shared_ptr<DhtAsk> ask, begin(SimDht::Purpose::put, key, std::move(value)));
    co_return co_await wait_for_end(call, std::move(ask));
  }
  Task<Result<DhtStatus>> status(Call) override {
    const auto found = network_->members_.find(member_);
    if (found->second.load->closed) co_return closed();
    co_return network_->status_of(found->second);
  }
  Task<Result<std::vector<DhtPeer>>> export_peers(Call) override {
    const auto found = network_->members_.find(member_);
    if (found->second.load->closed) co_return closed();
    co_return network_->peers_of(found->second);
  }
  Task<Result<>> bootstrap(Call, std::vector<Endpoint> nodes) override {
    const auto found = network_->members_.find(member_);
    if (found->second.load->closed) co_return closed();
    if (nodes.empty()) co_return Result<>{};
    found->second.may_join = true;
    network_->join(member_);
    co_return Result<>{};
  }

 private:
  Result<std::shared_ptr<DhtAsk>> begin(SimDht::Purpose purpose, const DhtKey& key, DhtValue value) {
    const SimDht::Member& member = network_->members_.find(member_)->second;
    TRY(std::shared_ptr<DhtAsk> ask, DhtAsk::make(member.load, home_));
    network_->ask(member_, purpose, key, std::move(value), ask);
    return ask;
  }

  std::shared_ptr<SimDht> network_;
  SimDht::Number member_;
  Mailbox& home_;
};

class SimDhtNode final : public DhtNode {
 public:
  SimDhtNode(std::shared_ptr<SimDht> network, const DhtOptions& options)
      : network_(std::move(network)), member_(network_->add_member(options)) {}
  ~SimDhtNode() override {
    network_->close_member(member_);
    network_->members_.erase(member_);
  }
  SimDhtNode(const SimDhtNode&) = delete;
  SimDhtNode& operator=(const SimDhtNode&) = delete;

  std::unique_ptr<Dht> make_port(Machine& machine) override {
    return std::make_unique<SimDhtPort>(network_, member_, machine.mailbox);
  }
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the interface; not used
  Task<Result<>> close(Call, Machine&) override {
    network_->close_member(member_);
    co_return Result<>{};
  }

 private:
  std::shared_ptr<SimDht> network_;
  SimDht::Number member_;
};

// --- the network

std::shared_ptr<SimDht> SimDht::make(Clockwork& clockwork, SimDhtPlan plan) {
  return std::shared_ptr<SimDht>(new SimDht(clockwork, plan));
}

SimDht::SimDht(Clockwork& clockwork, SimDhtPlan plan) : clockwork_(clockwork), random_(plan.seed) {
  clockwork_.probes.declare({"dht.lost", "dht.silent_peer", "dht.unheard", "dht.lie", "dht.repeated",
                             "dht.failed_end", "dht.silent_end", "dht.unacknowledged", "dht.no_node",
                             "dht.all_silent"});
  make_peers(plan);
}

void SimDht::make_peers(const SimDhtPlan& plan) {
  peers_.resize(plan.peers);
  for (Peer& peer : peers_) {
    peer.id = draw_id(random_);
    const std::uint64_t kind = random_.below(million);
    if (kind < plan.dead)
      peer.kind = Kind::dead;
    else if (kind - plan.dead < plan.flapping)
      peer.kind = Kind::flapping;
    else if (kind - plan.dead - plan.flapping < plan.liars)
      peer.kind = Kind::liar;
    peer.round_trip = Duration::millis(round_trips[random_.below(round_trips.size())]);
    peer.phase = Duration::millis(static_cast<std::int64_t>(random_.below(1 << 20)));
  }
  for (Peer& peer : peers_) peer.known = neighbours(peer.id);
}

// Up to eight peers of each distance, where "distance" is how many leading bits they share with `id`: as a
// Kademlia node knows them.
std::vector<std::uint32_t> SimDht::neighbours(const DhtKey& id) {
  std::map<std::size_t, std::vector<std::uint32_t>> by_distance;
  for (std::uint32_t i = 0; i < peers_.size(); ++i)
    if (peers_[i].id != id) by_distance[shared_bits(peers_[i].id, id)].push_back(i);
  std::vector<std::uint32_t> known;
  for (auto& [bits, peers] : by_distance)
    for (std::size_t i = 0; i < near && !peers.empty(); ++i) {
      const auto at = static_cast<std::ptrdiff_t>(random_.below(peers.size()));
      known.push_back(peers[static_cast<std::size_t>(at)]);
      peers.erase(peers.begin() + at);
    }
  return known;
}

std::vector<std::uint32_t> SimDht::nearest_of(std::vector<std::uint32_t> among, const DhtKey& key,
                                              std::size_t count) const {
  std::ranges::sort(
      among, [&](std::uint32_t a, std::uint32_t b) { return is_nearer(peers_[a].id, peers_[b].id, key); });
  if (among.size() > count) among.resize(count);
  return among;
}

std::vector<std::uint32_t> SimDht::nearest(const DhtKey& key, std::size_t count) const {
  std::vector<std::uint32_t> all(peers_.size());
  for (std::uint32_t i = 0; i < all.size(); ++i) all[i] = i;
  return nearest_of(std::move(all), key, count);
}

void SimDht::plant(const DhtKey& key, const DhtValue& value) {
  for (const std::uint32_t peer : nearest(key, near)) keep(peers_[peer], key, value);
}

std::uint64_t SimDht::life_of(const Peer& peer) const noexcept {
  if (faults.life.ns <= 0) return 0;
  return static_cast<std::uint64_t>((clockwork_.now.ns + peer.phase.ns) / faults.life.ns);
}

bool SimDht::answers(const Peer& peer) const noexcept {
  if (all_dead_ || peer.kind == Kind::dead) return false;
  const std::int64_t at = clockwork_.now.ns + peer.phase.ns;
  if (faults.life.ns > 0 && at % faults.life.ns < faults.life.ns / 10) return false;
  return peer.kind != Kind::flapping || at / faults.flap.ns % 2 == 0;
}

// A value that is there is renewed, never replaced.
void SimDht::keep(Peer& peer, const DhtKey& key, const DhtValue& value) {
  std::vector<Kept>& values = peer.values[key];
  const std::uint64_t life = life_of(peer);
  std::erase_if(values,
                [&](const Kept& kept) { return kept.life != life || kept.expires <= clockwork_.now; });
  const Instant expires = clockwork_.now + dht_value_life;
  for (Kept& kept : values)
    if (kept.value.id == value.id) {
      if (kept.value.bytes == value.bytes) kept.expires = expires;
      return;
    }
  if (values.size() < kept_most) values.push_back({value, expires, life});
}

// --- nodes of the program under test

SimDht::Number SimDht::add_member(const DhtOptions& options) {
  const Number number = ++next_number_;
  Member& member = members_[number];
  member.id = draw_id(random_);
  member.may_join = !options.bootstrap.empty() || !options.peers.empty();
  join(number);
  return number;
}

void SimDht::close_member(Number number) {
  Member& member = members_.find(number)->second;
  member.load->closed.store(true, std::memory_order_relaxed);
  std::erase_if(searches_, [&](const auto& item) { return item.second.member == number; });
}

DhtStatus SimDht::status_of(const Member& member) const {
  DhtStatus status;
  for (const std::uint32_t peer : member.known)
    ++(answers(peers_[peer]) ? status.good_nodes : status.dubious_nodes);
  status.ready = status.good_nodes > 0;
  status.under_way = member.load->under_way.taken();
  status.dropped = member.load->dropped.load(std::memory_order_relaxed);
  return status;
}

std::vector<DhtPeer> SimDht::peers_of(const Member& member) const {
  std::vector<DhtPeer> peers;
  for (const std::uint32_t known : member.known) {
    if (!answers(peers_[known])) continue;
    DhtPeer& peer = peers.emplace_back();
    peer.id = peers_[known].id.bytes;
    peer.ip = {0,
               0,
               0,
               0,
               0,
               0,
               0,
               0,
               0,
               0,
               0xff,
               0xff,
               198,
               18,
               static_cast<std::uint8_t>(known >> 8),
               static_cast<std::uint8_t>(known)};
    peer.port = 4222;
  }
  return peers;
}

void SimDht::join(Number number) {
  Member& member = members_.find(number)->second;
  if (!member.may_join || member.joining != 0 || peers_.empty()) return;
  member.joining = ++next_number_;
  Search& search = searches_[member.joining];
  search.member = number;
  search.purpose = Purpose::join;
  search.key = member.id;
  std::vector<std::uint32_t> first;
  for (std::size_t i = 0; i < first_asked; ++i)
    first.push_back(clockwork_.choices.pick(static_cast<std::uint32_t>(peers_.size()), "dht.first"));
  begin(member.joining, first);
}

void SimDht::joined(Number number, bool ok) {
  Member& member = members_.find(number)->second;
  member.joining = 0;
  if (ok) member.known = neighbours(member.id);
  for (const Number waiting : std::exchange(member.waiting, {})) {
    if (ok)
      begin(waiting, nearest_of(member.known, searches_.find(waiting)->second.key, looked_at));
    else
      finish(waiting, DhtEnd::no_node);
  }
}

void SimDht::ask(Number member_number, Purpose purpose, const DhtKey& key, DhtValue value,
                 std::shared_ptr<DhtAsk> asking) {
  Member& member = members_.find(member_number)->second;
  const Number number = ++next_number_;
  Search& search = searches_[number];
  search.member = member_number;
  search.purpose = purpose;
  search.key = key;
  search.value = std::move(value);
  search.caller.emplace(std::move(asking));
  if (!member.known.empty()) return begin(number, nearest_of(member.known, key, looked_at));
  join(member_number);
  if (member.joining == 0) return finish(number, DhtEnd::no_node);
  member.waiting.push_back(number);
}

// --- searches

void SimDht::begin(Number number, const std::vector<std::uint32_t>& first) {
  learn(searches_.find(number)->second, first);
  step(number);
}

void SimDht::learn(Search& search, const std::vector<std::uint32_t>& peers) {
  for (const std::uint32_t peer : peers) {
    const auto at = std::ranges::find_if(search.candidates, [&](const Candidate& candidate) {
      return candidate.peer == peer || is_nearer(peers_[peer].id, peers_[candidate.peer].id, search.key);
    });
    if (at == search.candidates.end() || at->peer != peer) search.candidates.insert(at, {peer});
  }
}

// Sends what may be sent; once the nearest have answered, goes on to what the search is for.
void SimDht::step(Number number) {
  Search& search = searches_.find(number)->second;
  if (search.ending) return;
  std::vector<Candidate*> open;  // that have not failed, the nearest first
  std::size_t waiting = 0;
  for (Candidate& candidate : search.candidates) {
    if (candidate.asked == Asked::failed) continue;
    waiting += candidate.asked == Asked::waiting ? 1 : 0;
    if (open.size() < looked_at) open.push_back(&candidate);
  }
  const std::size_t wanted = std::min(near, open.size());
  const bool settled =
      std::ranges::all_of(open.begin(), open.begin() + static_cast<std::ptrdiff_t>(wanted),
                          [](const Candidate* one) { return one->asked == Asked::answered; });
  if (settled && search.purpose == Purpose::put && !search.storing && !open.empty()) {
    std::vector<Candidate> keepers;
    for (std::size_t i = 0; i < wanted; ++i) keepers.push_back({open[i]->peer});
    search.candidates = std::move(keepers);
    search.storing = true;
    return step(number);
  }
  if (settled) return settle(number, !open.empty());
  for (Candidate* candidate : open)
    if (candidate->asked == Asked::no && waiting < at_once) {
      ++waiting;
      candidate->asked = Asked::waiting;
      send(number, *candidate);
    }
}

void SimDht::send(Number number, Candidate& candidate) {
  ++messages_;
  ++candidate.tries;
  const Peer& peer = peers_[candidate.peer];
  const bool lost = clockwork_.chance(faults.loss, "dht.loss");
  if (lost) PROBE(clockwork_.probes, "dht.lost");
  if (lost || !answers(peer)) {
    ++lost_;
    return clockwork_.after(faults.patience, on_silence, this, number, candidate.peer);
  }
  const Duration jitter = clockwork_.span({0}, peer.round_trip / 8, "dht.jitter");
  clockwork_.after(std::min(peer.round_trip + jitter, round_trip_max), on_answer, this, number,
                   candidate.peer);
}

// Every request ends by one of these two events.
void SimDht::on_answer(void* self, std::uint64_t number, std::uint64_t peer) {
  auto& network = *static_cast<SimDht*>(self);
  const auto search = network.searches_.find(number);
  if (search == network.searches_.end()) return;
  // It went away while the message was under way.
  if (!network.answers(network.peers_[peer])) {
    ++network.lost_;
    return network.clockwork_.after(network.faults.patience, on_silence, self, number, peer);
  }
  for (Candidate& candidate : search->second.candidates)
    if (candidate.peer == peer) {
      if (!network.hear(search->second, candidate)) return network.forget(number);
      return network.step(number);
    }
}

void SimDht::on_silence(void* self, std::uint64_t number, std::uint64_t peer) {
  auto& network = *static_cast<SimDht*>(self);
  const auto search = network.searches_.find(number);
  if (search == network.searches_.end()) return;
  for (Candidate& candidate : search->second.candidates)
    if (candidate.peer == peer) {
      if (candidate.tries < tries_most) return network.send(number, candidate);
      PROBE(network.clockwork_.probes, "dht.silent_peer");
      candidate.asked = Asked::failed;
      return network.step(number);
    }
}

// False: whoever asked has left.
bool SimDht::hear(Search& search, Candidate& candidate) {
  Peer& peer = peers_[candidate.peer];
  candidate.asked = Asked::answered;
  if (search.storing) {
    keep(peer, search.key, search.value);
    return true;
  }
  const std::uint32_t from = candidate.peer;
  learn(search, nearest_of(peers_[from].known, search.key, near));  // may move `candidate`
  if (search.purpose != Purpose::get) return true;
  return peer.kind == Kind::liar ? lie(search, peer) : give_values(search, peer);
}

bool SimDht::give_values(Search& search, Peer& peer) {
  const auto found = peer.values.find(search.key);
  if (found == peer.values.end()) return true;
  std::vector<const DhtValue*> values;
  for (const Kept& kept : found->second)
    if (kept.life == life_of(peer) && kept.expires > clockwork_.now) values.push_back(&kept.value);
  for (std::size_t left = values.size(); left > 0; --left) {
    const std::uint32_t at = clockwork_.choices.pick(static_cast<std::uint32_t>(left), "dht.order");
    if (!give(search, *values[at])) return false;
    values.erase(values.begin() + at);
  }
  return true;
}

// The real one tells a value once; a repeat is a fault.
bool SimDht::give(Search& search, const DhtValue& value) {
  const bool news = search.given.emplace(value.id, value.bytes).second;
  const bool repeated = clockwork_.chance(faults.repeat, "dht.repeat");
  if (repeated) PROBE(clockwork_.probes, "dht.repeated");
  bool wanted = search.caller->wanted();
  for (int times = (news ? 1 : 0) + (repeated ? 1 : 0); times > 0 && wanted; --times)
    wanted = search.caller->give(value.id, as_bytes(value.bytes));
  return wanted;
}

bool SimDht::lie(Search& search, Peer& peer) {
  PROBE(clockwork_.probes, "dht.lie");
  Random random(clockwork_.choices.pick(0xffff'ffffu, "dht.junk"));
  const auto junk = [&](std::size_t count) { return DhtValue{random.next() | 1, draw_bytes(random, count)}; };
  switch (static_cast<Lie>(clockwork_.choices.pick(5, "dht.lie"))) {
    case Lie::forged: {
      const auto found = peer.values.find(search.key);
      if (found == peer.values.end() || found->second.empty()) return give(search, junk(100));
      DhtValue forged = found->second.front().value;
      forged.bytes[random.below(forged.bytes.size())] ^= 1;
      return give(search, forged);
    }
    case Lie::oversized:
      return give(search, junk(dht_value_max + 1 + random.below(1024)));
    case Lie::foreign:
      return search.caller->drop();
    case Lie::misplaced: {
      for (const auto& [key, values] : peer.values)
        if (key != search.key && !values.empty()) return give(search, values.front().value);
      return give(search, junk(100));
    }
    case Lie::flood: {
      for (std::size_t i = 0; i < dht_values_most + 44; ++i)
        if (!give(search, junk(32))) return false;
      return true;
    }
  }
  return true;
}

// All peers that should have been asked were asked, or none was left to ask.
void SimDht::settle(Number number, bool heard) {
  Search& search = searches_.find(number)->second;
  search.ending = true;
  if (search.purpose == Purpose::join) return finish(number, heard ? DhtEnd::complete : DhtEnd::no_node);
  if (!heard) {
    PROBE(clockwork_.probes, "dht.all_silent");
    // Of a put, only those that were to keep the value are silent.
    if (!search.storing) members_.find(search.member)->second.known.clear();
    return end_later(number, DhtEnd::failed);
  }
  if (search.purpose == Purpose::put) {
    if (!clockwork_.chance(faults.unacknowledged, "dht.unacknowledged"))
      return end_later(number, DhtEnd::complete);
    PROBE(clockwork_.probes, "dht.unacknowledged");
    return;
  }
  if (clockwork_.chance(faults.silent_end, "dht.silent_end")) {
    PROBE(clockwork_.probes, "dht.silent_end");
    return;
  }
  const bool failed = clockwork_.chance(faults.failed_end, "dht.failed_end");
  if (failed) PROBE(clockwork_.probes, "dht.failed_end");
  end_later(number, failed ? DhtEnd::failed : DhtEnd::complete);
}

void SimDht::end_later(Number number, DhtEnd how) {
  const Duration lag = clockwork_.span({0}, faults.lag, "dht.lag");
  clockwork_.after(lag, on_end, this, number, static_cast<std::uint64_t>(how));
}

void SimDht::on_end(void* self, std::uint64_t number, std::uint64_t how) {
  auto& network = *static_cast<SimDht*>(self);
  if (network.searches_.contains(number)) network.finish(number, static_cast<DhtEnd>(how));
}

void SimDht::finish(Number number, DhtEnd how) {
  if (how == DhtEnd::no_node) PROBE(clockwork_.probes, "dht.no_node");
  const auto node = searches_.extract(number);
  const Search& search = node.mapped();
  if (search.purpose == Purpose::join) return joined(search.member, how == DhtEnd::complete);
  search.caller->end(how);
}

void SimDht::forget(Number number) {
  PROBE(clockwork_.probes, "dht.unheard");
  searches_.erase(number);
}

// --- the maker

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller waits
Task<Result<std::shared_ptr<DhtNode>>> SimDht::open(Call call, Machine& machine, DhtOptions options) {
  if (const char* fault = find_fault(options)) co_return fail(ErrorCode::invalid, fault);
  if (options.mode == DhtMode::local) co_return co_await LocalDhtMaker().open(call, machine, options);
  co_return std::make_shared<SimDhtNode>(shared_from_this(), options);
}

}  // namespace cairn::io::sim
