// Finder: one shard's way to what other nodes know. It asks the cache first, and then, together with all that
// ask the same in the whole process, the targets.
//
// The state that the shards share is in Finders: cache, breakers, flights, and who counts (Judge).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "services/index/breakers.h"
#include "services/index/cache.h"
#include "services/index/flights.h"
#include "services/index/lookup.h"
#include "services/index/members.h"

namespace cairn::index {

inline constexpr LockDeclaration members_lock{
    "members", 16, "what the registry says of names and nodes, to copy the pointer"};

// What a lookup obeys, all of it of one configuration.
struct FinderPolicy {
  LookupPolicy lookup;
  CachePolicy cache;
  BreakerRules breakers;
};

struct Finders {
  // `home` is the shard of the janitors, `mailbox` its own. `seed`: a secret of the process.
  Finders(Shard& home, Mailbox& mailbox, const FinderPolicy& policy, std::uint64_t seed);

  // From any shard. Never null.
  MembersPtr members() const {
    return members_.with([](const MembersPtr& now) { return now; });
  }
  // All that was learned is forgotten if they differ.
  void set_members(MembersPtr members);

  Cache cache;
  BreakerTable breakers;
  Flights flights;

 private:
  Guarded<MembersPtr, members_lock.rank> members_;
};

class Finder final : public Judge {
 public:
  // What was found, and how.
  struct Found {
    Answer answer;
    bool cached = false;
    Duration age{};  // since it was learned
    Waves waves;     // of a lookup
  };

  // All outlive it. One is made for each shard, in their order, before any of them asks.
  Finder(Finders& finders, Shard& shard, Mailbox& mailbox, const FinderPolicy& policy, LookupEvents& events,
         const crypto::Ed25519PublicKey& own);

  // The shard's task: the flights that have their home here. Cancel: clean.
  Task<> run(Call call) { return finders_.flights.run(call); }

  void set_policy(const FinderPolicy& policy) { policy_ = policy; }
  // Makes the shard's targets, whenever the members have changed.
  using MakeTargets = std::function<Targets(const Members& members)>;
  void set_targets(MakeTargets make) {
    make_targets_ = std::move(make);
    members_ = nullptr;
  }
  // The targets of this moment.
  const Targets& targets();

  // Whether another key than this node's speaks for the name. Names without an authority are every node's
  // own.
  bool is_foreign(std::string_view name) const;
  // Without a wait; null: nothing is known at this moment.
  KnownPtr find_known(const Question& question) const;
  // Cached or asked for. `fresh`: asked for in any case. Errors: as LU-2, and `busy`. Cancel: clean — what
  // was begun goes on for others.
  Task<Result<Found>> find(Call call, Question question, bool fresh);

  bool accepts(const format::NameChange& change) const override;
  bool accepts(const format::ProviderRecord& record) const override;

 private:
  // On the question's home shard: one lookup, and what it finds is learned.
  Task<Result<FindingPtr>> look_up(Call call, Question question);

  Finders& finders_;
  Shard& shard_;
  Mailbox& mailbox_;
  FinderPolicy policy_;
  crypto::Ed25519PublicKey own_;
  Lookups lookups_;
  MakeTargets make_targets_;
  MembersPtr members_;  // the targets were made of
  Targets targets_;
};

}  // namespace cairn::index
