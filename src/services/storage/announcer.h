// Announcer: tells the index what this node has: signed provider records of what came and of what went, soon
// after the change, and of everything in a slow walk, so that no record expires while the object is there.
// The index keeps records as soft state: what it lost, and what the announcer could not say in time, is said
// again by such a walk. One task of the process, on its first shard.
//
//   [AN-1] One request is under way at a time, with at most `batch_most` records, and it has a deadline.
//   [AN-2] The sequences of the records rise, over a restart by the clock.
//   [AN-3] A record says what the stores have when it is made, whatever the order of the changes was. Only an
//         object that is not there gets a record without endpoints.
//   [AN-4] Everything is said again after a start, when the index has another epoch, when the feed had no
//         room for a change, and when a batch was given up.
//   [AN-5] A record lives at least three times as long as it takes until the walk comes to it again.
//   [AN-6] After a request it rests for a multiple of the time that the request took, so that signing and
//         checking records takes only a part of the machine. Renewal has a pace of its own.
//   [AN-7] The index hears from a node at least once in `quiet_most`, also from one that has nothing.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "crypto/ed25519.h"
#include "io/machine.h"
#include "observe/log.h"
#include "runtime/backoff.h"
#include "services/storage/endpoints.h"
#include "services/storage/holdings.h"
#include "services/storage/peers.h"
#include "store/change_feed.h"

namespace cairn::storage {

struct AnnouncerOptions {
  std::shared_ptr<const crypto::Ed25519Key> key;                 // the node's
  std::vector<format::Endpoint> endpoints = {};                  // empty: chosen by where the service listens
  std::shared_ptr<const Bound> bound = {};                       // set on the first shard
  std::function<std::vector<IpBytes>()> machine_addresses = {};  // blocks
};

// What became of a request; the label of `announce_requests_total`.
enum class Said : std::uint8_t { taken, busy, unauthorized, refused, unanswered };
inline constexpr std::size_t said_count = 5;

// Numbers that any thread may read.
struct AnnounceStatus {
  std::array<std::atomic<std::uint64_t>, said_count> requests{};  // by Said
  std::atomic<std::uint64_t> covered{0};
  std::atomic<std::uint64_t> pending{0};  // beside those in the feed
  std::atomic<std::int64_t> oldest{0};    // of these, when it came (instant ns); 0: none
};
// Of objects of which the index has yet to be told: how many, and the age of the oldest change.
std::uint64_t count_pending(const store::ChangeFeed& feed, const AnnounceStatus& status) noexcept;
Duration find_lag(const store::ChangeFeed& feed, const AnnounceStatus& status, Instant now) noexcept;

class Announcer {
 public:
  static constexpr std::size_t batch_most = 1000;
  static constexpr Duration gather = Duration::millis(50);
  static constexpr std::uint64_t renewals_per_second = 500;
  static constexpr Duration life_least = Duration::seconds(1800);
  static constexpr Duration life_most = Duration::seconds(47 * 3600);  // the index takes none beyond 48 h
  static constexpr Duration quiet_most = Duration::seconds(60);
  static constexpr Duration patience = Duration::seconds(10);
  static constexpr unsigned tries_most = 8;  // of a batch of changes

  // All outlive it.
  Announcer(io::Machine& machine, store::ChangeFeed& feed, Holdings& holdings, IndexPort& index,
            AnnounceStatus& status, AnnouncerOptions options, observe::Logger log);

  // The task. Cancel: clean — what was not said is said again after the next start.
  Task<> run(Call call);

 private:
  struct Saying {
    Address address;
    bool has = false;
  };
  // A walk over everything: a first one may take half of the time, one after a flood of changes a tenth.
  enum class Pace : std::uint8_t { first, again, renewal };
  struct Walk {
    bool running = false;
    Pace pace = Pace::first;
    std::optional<Address> after;
    std::uint64_t said = 0;
    Instant began, due;
    std::optional<Instant> since;  // of the oldest change that may be known to nobody but the walk
  };
  // Changes that were taken out of the feed and not yet announced.
  struct InHand {
    std::vector<Address> addresses;
    std::optional<Instant> oldest;
    unsigned tries = 0;
  };
  struct Step {
    enum class What : std::uint8_t { changes, walk, sign_of_life } what = What::changes;
    Instant at;
  };

  Instant now() const noexcept { return machine_.shard.now(); }
  void look_at_feed();
  Step next_step() const noexcept;
  int rest() const noexcept;
  Task<> wait(Call call, Instant until);
  Task<> take(Call call, Step::What what);
  Task<> say_changes(Call call);
  Task<> say_page(Call call);
  Task<Said> say(Call call, std::vector<Saying> batch, int rest);
  Task<Result<std::string>> sign(Call call, std::vector<Saying> batch);
  void heard(const IndexPort::Told& told, std::size_t asked);
  void failed(const Error& why);
  void say_all_again(Instant since) noexcept;
  void begin_walk(Pace pace) noexcept;
  void end_walk() noexcept;
  Task<bool> find_endpoints(Call call);
  Duration life() const noexcept;
  void publish() noexcept;

  io::Machine& machine_;
  store::ChangeFeed& feed_;
  Holdings& holdings_;
  IndexPort& index_;
  AnnounceStatus& status_;
  AnnouncerOptions options_;
  observe::Logger log_;

  std::vector<format::Endpoint> endpoints_;
  bool endpoints_stale_ = true;
  std::uint64_t sequence_ = 0;  // the last one given
  std::optional<Ulid> epoch_;
  bool new_epoch_ = false;
  InHand in_hand_;
  Walk walk_;
  Instant next_walk_;
  bool again_ = false;                  // another walk has to follow
  std::optional<Instant> again_since_;  // the change that asked for it
  bool complete_ = false;               // a walk has ended since the index has this epoch
  Duration walk_took_{};                // the last renewal
  Backoff backoff_;
  Instant rest_until_;
  std::optional<Instant> last_heard_;
  observe::LogEvery failure_told_{Duration::seconds(600)}, ignored_told_{Duration::seconds(600)},
      nowhere_told_{Duration::seconds(3600)};
};

}  // namespace cairn::storage
