// SimDht: a distributed hash table of many simulated nodes, and the maker of nodes that join it. As rude as
// the real one: the end of a search lags behind its values or says that it failed, values come repeated,
// late, in any order, forged, too large and of foreign types, puts stay unacknowledged, callbacks come after
// their get was left, and no node may answer at all.
//
// The simulated nodes (peers) keep values and answer what a Kademlia node would: the peers that they know
// nearest to a key, and the key's values. A search asks four of the nearest known at a time until the eight
// nearest have answered; a request that is not answered is sent three times. Each request is a message with a
// round trip of its own. Which peers exist, whom they know, how far and of what kind they are is drawn from
// one seed; what happens to a message is drawn from the choices of the world.
//
// One object for each network, beside its world; the nodes and ports keep it alive.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "io/dht.h"
#include "io/dht_ask.h"
#include "io/sim/clockwork.h"
#include "runtime/random.h"

namespace cairn::io::sim {

// Who the peers are. Rates are per million peers.
struct SimDhtPlan {
  std::uint32_t peers = 64;
  std::uint32_t dead = 0;      // known to others, but never answer
  std::uint32_t flapping = 0;  // answer in one of two periods of SimDhtFaults::flap
  std::uint32_t liars = 0;     // acknowledge without keeping, and answer with junk
  std::uint64_t seed = 1;
};

// Rates are per million; 0 is never. They may change at any time.
struct SimDhtFaults {
  std::uint32_t loss = 0;                    // per message: it, or its answer, is lost
  std::uint32_t failed_end = 0;              // per get: its end says "failed" although peers have answered
  std::uint32_t silent_end = 0;              // per get: its end is never told
  std::uint32_t unacknowledged = 0;          // per put: kept by its peers, but its end is never told
  std::uint32_t repeat = 0;                  // per value: it is given again
  Duration lag = Duration::seconds(1);       // the end of a search comes up to this much later
  Duration patience = Duration::seconds(1);  // until a request is sent again
  Duration flap = Duration::seconds(10);
  // How long a peer stays before another takes its place, which knows no values and begins with being away
  // for a tenth of that time. Zero: for ever.
  Duration life{};
};

class SimDht final : public DhtMaker, public std::enable_shared_from_this<SimDht> {
 public:
  // `clockwork` outlives every event; nodes may outlive the object that made it.
  static std::shared_ptr<SimDht> make(Clockwork& clockwork, SimDhtPlan plan = {});

  // A node that begins without DhtOptions::bootstrap and ::peers knows nobody.
  Task<Result<std::shared_ptr<DhtNode>>> open(Call call, Machine& machine, DhtOptions options) override;

  SimDhtFaults faults;

  // --- faults on purpose
  void set_all_dead(bool dead) noexcept { all_dead_ = dead; }
  // Peers by distance to `key`, the nearest first.
  std::vector<std::uint32_t> nearest(const DhtKey& key, std::size_t count) const;
  void kill(std::uint32_t peer) noexcept { peers_[peer].kind = Kind::dead; }
  void make_liar(std::uint32_t peer) noexcept { peers_[peer].kind = Kind::liar; }
  // Gives the value to the eight nearest peers, without a message.
  void plant(const DhtKey& key, const DhtValue& value);

  // --- what happened
  std::uint64_t messages() const noexcept { return messages_; }       // requests sent by nodes
  std::uint64_t lost() const noexcept { return lost_; }               // of these, never answered
  std::size_t searches() const noexcept { return searches_.size(); }  // under way, also the abandoned ones

 private:
  friend class SimDhtNode;
  friend class SimDhtPort;
  using Number = std::uint64_t;

  enum class Kind : std::uint8_t { honest, dead, flapping, liar };
  enum class Lie : std::uint8_t { forged, oversized, foreign, misplaced, flood };
  struct Kept {
    DhtValue value;
    Instant expires;
    std::uint64_t life;  // of the peer that took it
  };
  struct Peer {
    DhtKey id;
    Kind kind = Kind::honest;
    Duration round_trip{};
    Duration phase{};
    std::vector<std::uint32_t> known;
    std::map<DhtKey, std::vector<Kept>> values;
  };
  // A node of the program under test.
  struct Member {
    std::shared_ptr<DhtLoad> load = std::make_shared<DhtLoad>();
    DhtKey id{};
    bool may_join = false;  // knows whom to ask first
    Number joining = 0;     // the search by which it joins; 0: none
    std::vector<std::uint32_t> known;
    std::vector<Number> waiting;  // searches that begin once it has joined
  };
  enum class Purpose : std::uint8_t { join, get, put };
  enum class Asked : std::uint8_t { no, waiting, answered, failed };
  struct Candidate {
    std::uint32_t peer;
    Asked asked = Asked::no;
    std::uint8_t tries = 0;
  };
  struct Search {
    Number member = 0;
    Purpose purpose = Purpose::join;
    DhtKey key{};
    DhtValue value;                     // of a put
    std::optional<DhtCaller> caller;    // none: of a join
    std::vector<Candidate> candidates;  // the nearest first
    std::set<std::pair<std::uint64_t, std::string>> given;
    bool storing = false;
    bool ending = false;
  };

  SimDht(Clockwork& clockwork, SimDhtPlan plan);
  void make_peers(const SimDhtPlan& plan);
  std::vector<std::uint32_t> neighbours(const DhtKey& id);
  std::vector<std::uint32_t> nearest_of(std::vector<std::uint32_t> among, const DhtKey& key,
                                        std::size_t count) const;

  Number add_member(const DhtOptions& options);
  void close_member(Number number);
  DhtStatus status_of(const Member& member) const;
  std::vector<DhtPeer> peers_of(const Member& member) const;
  void join(Number number);
  void joined(Number number, bool ok);
  void ask(Number member, Purpose purpose, const DhtKey& key, DhtValue value, std::shared_ptr<DhtAsk> asking);

  void begin(Number number, const std::vector<std::uint32_t>& first);
  void learn(Search& search, const std::vector<std::uint32_t>& peers);
  void step(Number number);
  void send(Number number, Candidate& candidate);
  bool hear(Search& search, Candidate& candidate);
  bool give_values(Search& search, Peer& peer);
  bool give(Search& search, const DhtValue& value);
  bool lie(Search& search, Peer& peer);
  void keep(Peer& peer, const DhtKey& key, const DhtValue& value);
  void settle(Number number, bool heard);
  void end_later(Number number, DhtEnd how);
  void finish(Number number, DhtEnd how);
  void forget(Number number);

  bool answers(const Peer& peer) const noexcept;
  std::uint64_t life_of(const Peer& peer) const noexcept;
  static void on_answer(void* self, std::uint64_t number, std::uint64_t peer);
  static void on_silence(void* self, std::uint64_t number, std::uint64_t peer);
  static void on_end(void* self, std::uint64_t number, std::uint64_t how);

  Clockwork& clockwork_;
  Random random_;
  std::vector<Peer> peers_;  // by id
  std::map<Number, Member> members_;
  std::map<Number, Search> searches_;
  Number next_number_ = 0;
  std::uint64_t messages_ = 0;
  std::uint64_t lost_ = 0;
  bool all_dead_ = false;
};

}  // namespace cairn::io::sim
