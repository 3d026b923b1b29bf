#include "services/index/finder.h"

namespace cairn::index {
namespace {

FlightLimits flight_limits(const FinderPolicy& policy) {
  FlightLimits limits;
  limits.lasts_max = policy.lookup.deadline;
  return limits;
}

}  // namespace

Finders::Finders(Shard& home, Mailbox& mailbox, const FinderPolicy& policy, std::uint64_t seed)
    : cache(home, mailbox, policy.cache, seed),
      breakers(home, mailbox, policy.breakers),
      flights(flight_limits(policy), seed),
      members_(std::make_shared<const Members>()) {}

void Finders::set_members(MembersPtr members) {
  const bool same = members_.with([&](MembersPtr& now) {
    const bool equal = *now == *members;
    if (!equal) now = std::move(members);
    return equal;
  });
  if (!same) cache.forget_all();
}

Finder::Finder(Finders& finders, Shard& shard, Mailbox& mailbox, const FinderPolicy& policy,
               LookupEvents& events, const crypto::Ed25519PublicKey& own)
    : finders_(finders),
      shard_(shard),
      mailbox_(mailbox),
      policy_(policy),
      own_(own),
      lookups_(shard, mailbox, finders.breakers, *this, &events) {
  finders_.flights.attach(
      shard, mailbox, [this](Call call, Question question) { return look_up(call, std::move(question)); });
}

bool Finder::is_foreign(std::string_view name) const {
  const auto key = finders_.members()->authorities.find(name);
  return key && *key != own_;
}

const Targets& Finder::targets() {
  MembersPtr now = finders_.members();
  if (now != members_) {
    members_ = std::move(now);
    targets_ = make_targets_ ? make_targets_(*members_) : Targets();
  }
  return targets_;
}

KnownPtr Finder::find_known(const Question& question) const {
  return finders_.cache.find(question, shard_.now());
}

// A change counts only if it is its prefix's authority that signed it.
bool Finder::accepts(const format::NameChange& change) const {
  const auto key = finders_.members()->authorities.find(change.name);
  return key && *key == change.key;
}
bool Finder::accepts(const format::ProviderRecord&) const { return true; }

Task<Result<FindingPtr>> Finder::look_up(Call call, Question question) {
  const std::uint64_t generation = finders_.cache.generation();
  Targets targets = this->targets();
  std::erase_if(targets, [&](const TargetPtr& one) { return !one->can_answer(question); });
  targets = best_first(std::move(targets), *finders_.breakers.snapshot(), "");
  auto found = co_await lookups_.run(call, question, std::move(targets), policy_.lookup);
  if (!found && found.error().code != ErrorCode::not_found) co_return fail(found.error());
  // What finds no place is only asked for again.
  (void)finders_.cache.learn(std::move(question), found ? found->answer : Answer{}, generation, mailbox_);
  if (!found) co_return fail(found.error());
  co_return std::make_shared<const Finding>(std::move(*found));
}

Task<Result<Finder::Found>> Finder::find(Call call, Question question, bool fresh) {
  if (const KnownPtr known = fresh ? nullptr : find_known(question)) {
    if (known->answer.is_empty())
      co_return fail(ErrorCode::not_found, "nobody had it a moment ago", Side::client);
    co_return Found{known->answer, true, shard_.now() - known->learned, {}};
  }
  const Call bounded = call.within(policy_.lookup.deadline);
  CO_TRY(const FindingPtr found, co_await finders_.flights.ask(bounded, std::move(question), mailbox_));
  co_return Found{found->answer, false, {}, found->waves};
}

}  // namespace cairn::index
