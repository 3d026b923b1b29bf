#include "services/storage/announcer.h"

#include <algorithm>

#include "codec/base64.h"
#include "runtime/pool.h"
#include "runtime/wait.h"

namespace cairn::storage {
namespace {

// A record is signed in 25 us. One job of the pool does so many.
constexpr std::size_t chunk = 100;
constexpr BackoffPolicy again_policy{.base = Duration::millis(100), .cap = Duration::seconds(30), .tries = 0};
// So many times as long as a request took it rests after it. More changes than it can say, so that a walk has
// to, are a flood: then the machine has better things to do.
constexpr int rest_of_first = 1, rest_usual = 3, rest_in_flood = 9;

Said judge(const Error& why) noexcept {
  switch (why.code) {
    case ErrorCode::busy:
      return Said::busy;
    case ErrorCode::unauthorized:
    case ErrorCode::forbidden:
      return Said::unauthorized;
    case ErrorCode::malformed:
      return Said::refused;
    default:
      return Said::unanswered;
  }
}

Instant at_or_never(bool holds, Instant at) noexcept { return holds ? at : Instant::never(); }

}  // namespace

std::uint64_t count_pending(const store::ChangeFeed& feed, const AnnounceStatus& status) noexcept {
  return feed.depth().changes + status.pending;
}

Duration find_lag(const store::ChangeFeed& feed, const AnnounceStatus& status, Instant now) noexcept {
  Instant oldest = feed.depth().oldest.value_or(now);
  if (const std::int64_t held = status.oldest; held != 0) oldest = std::min(oldest, Instant{held});
  return std::max(Duration{}, now - oldest);
}

Announcer::Announcer(io::Machine& machine, store::ChangeFeed& feed, Holdings& holdings, IndexPort& index,
                     AnnounceStatus& status, AnnouncerOptions options, observe::Logger log)
    : machine_(machine),
      feed_(feed),
      holdings_(holdings),
      index_(index),
      status_(status),
      options_(std::move(options)),
      log_(log),
      backoff_(again_policy) {}

Task<> Announcer::run(Call call) {
  feed_.listen(machine_.mailbox);
  again_since_ = now();
  begin_walk(Pace::first);
  while (!call.stopped()) {
    look_at_feed();
    publish();
    const Step step = next_step();
    if (step.at > now())
      co_await wait(call, step.at);
    else
      co_await take(call, step.what);
  }
}

// --- what to do next

void Announcer::look_at_feed() {
  if (feed_.depth().all)
    if (const auto since = feed_.take(0).all) say_all_again(*since);
  if (!std::exchange(new_epoch_, false)) return;
  complete_ = false;
  // Two indexes behind one address would make it begin for ever.
  if (walk_.running && walk_.pace == Pace::first && now() - walk_.began < quiet_most)
    return say_all_again(now());
  log_.info("the index has another epoch: everything is announced again");
  say_all_again(now());
  begin_walk(Pace::first);
}

Announcer::Step Announcer::next_step() const noexcept {
  const store::ChangeFeed::Depth depth = feed_.depth();
  const Instant first = depth.oldest.value_or(now()) + gather;
  const Instant changes = !in_hand_.addresses.empty() ? now() : at_or_never(depth.changes > 0, first);
  const Instant walk = walk_.running ? walk_.due : again_ ? now() : next_walk_;
  const Instant sign_of_life = last_heard_ ? *last_heard_ + quiet_most : now();
  Step next{Step::What::changes, std::max(changes, rest_until_)};
  for (const Step& other : {Step{Step::What::walk, std::max(walk, rest_until_)},
                            Step{Step::What::sign_of_life, std::max(sign_of_life, rest_until_)}})
    if (other.at < next.at && next.at > now()) next = other;
  return next;
}

Task<> Announcer::wait(Call call, Instant until) {
  if (in_hand_.addresses.empty() && feed_.depth().changes == 0)
    (void)co_await feed_.wait(call.by(until));
  else
    (void)co_await sleep_until(call, until);
}

Task<> Announcer::take(Call call, Step::What what) {
  if (what == Step::What::walk && !walk_.running) begin_walk(again_ ? Pace::again : Pace::renewal);
  if (endpoints_stale_ && !co_await find_endpoints(call)) co_return;
  if (what == Step::What::changes) co_return co_await say_changes(call);
  if (what == Step::What::walk) co_return co_await say_page(call);
  (void)co_await say(call, {}, rest_usual);
}

int Announcer::rest() const noexcept {
  if (again_ || (walk_.running && walk_.pace == Pace::again)) return rest_in_flood;
  return walk_.running && walk_.pace == Pace::first ? rest_of_first : rest_usual;
}

// --- changes

Task<> Announcer::say_changes(Call call) {
  if (in_hand_.addresses.empty()) {
    store::ChangeFeed::Taken taken = feed_.take(batch_most);
    if (taken.all) say_all_again(*taken.all);
    std::ranges::sort(taken.changed);
    const auto twice = std::ranges::unique(taken.changed);
    taken.changed.erase(twice.begin(), twice.end());
    in_hand_ = {std::move(taken.changed), taken.oldest, 0};
    publish();
  }
  std::vector<Saying> batch;
  batch.reserve(in_hand_.addresses.size());
  const Call bounded = call.within(patience);
  for (std::size_t i = 0; i < in_hand_.addresses.size(); ++i) {
    const auto has = co_await holdings_.has(bounded, in_hand_.addresses[i]);
    if (call.stopped()) co_return;
    if (has)
      batch.push_back({in_hand_.addresses[i], *has});
    else
      say_all_again(in_hand_.oldest.value_or(now()));
  }
  const Said said = batch.empty() ? Said::taken : co_await say(call, std::move(batch), rest());
  if (call.stopped()) co_return;
  if (said != Said::taken && said != Said::refused && ++in_hand_.tries < tries_most) co_return;
  if (said != Said::taken) say_all_again(in_hand_.oldest.value_or(now()));
  in_hand_ = {};
}

// --- everything

void Announcer::say_all_again(Instant since) noexcept {
  again_ = true;
  if (!again_since_) again_since_ = since;
}

void Announcer::begin_walk(Pace pace) noexcept {
  walk_ = {.running = true, .pace = pace, .after = {}, .said = 0, .began = now(), .due = now(), .since = {}};
  walk_.since = std::exchange(again_since_, std::nullopt);
  again_ = false;
  endpoints_stale_ = true;  // the machine may have others by now
  next_walk_ = now() + Duration::nanos(life().ns / 3);
}

void Announcer::end_walk() noexcept {
  walk_.running = false;
  complete_ = true;
  if (walk_.pace == Pace::renewal) walk_took_ = now() - walk_.began;
}

Task<> Announcer::say_page(Call call) {
  auto page = co_await holdings_.list(call.within(patience), walk_.after, batch_most);
  if (call.stopped()) co_return;
  if (!page) co_return failed(page.error());
  const std::size_t count = page->addresses.size();
  if (count > 0) {
    std::vector<Saying> batch;
    batch.reserve(count);
    for (const Address& address : page->addresses) batch.push_back({address, true});
    const Said said = co_await say(call, std::move(batch), rest());
    if (said != Said::taken && said != Said::refused) co_return;  // the same page again
  }
  walk_.after = page->last;
  walk_.said += count;
  if (walk_.pace == Pace::renewal)
    walk_.due = std::max(
        walk_.due + Duration::nanos(static_cast<std::int64_t>(count * 1'000'000'000 / renewals_per_second)),
        now());
  if (!page->last) end_walk();
}

// The pace of renewal, or what it really took, three times: AN-5.
Duration Announcer::life() const noexcept {
  const std::uint64_t seconds = std::min<std::uint64_t>(holdings_.count() / renewals_per_second, 1'000'000);
  const Duration walk = std::max(Duration::seconds(static_cast<std::int64_t>(seconds)), walk_took_);
  return std::clamp(walk * 3, life_least, life_most);
}

Task<bool> Announcer::find_endpoints(Call call) {
  std::vector<format::Endpoint> found = options_.endpoints;
  if (found.empty() && options_.bound != nullptr) {
    const Bound bound = *options_.bound;
    std::vector<IpBytes> machine;
    if (bound.is_wildcard() && options_.machine_addresses) {
      auto asked = co_await cairn::run(machine_.pool, call.within(patience), Lane::upkeep,
                                       [ask = options_.machine_addresses] { return ask(); });
      if (asked) machine = std::move(*asked);
    }
    found = choose_endpoints(bound, machine);
  }
  if (!found.empty()) {
    endpoints_ = std::move(found);
    endpoints_stale_ = false;
    co_return true;
  }
  if (!endpoints_.empty()) co_return true;  // those of before
  if (!call.stopped() && nowhere_told_.due(now()))
    log_.warn(
        "nothing is announced: no address is known at which others reach this service; "
        "announce.endpoints names one");
  rest_until_ = now() + quiet_most;
  co_return false;
}

// --- one request

Task<Said> Announcer::say(Call call, std::vector<Saying> batch, int rest) {
  const Instant began = now();
  const std::size_t asked = batch.size();
  const Call bounded = call.within(patience);
  auto document = co_await sign(bounded, std::move(batch));
  Result<IndexPort::Told> told = fail(ErrorCode::internal, "not asked");
  if (document)
    told = co_await index_.tell(bounded, std::move(*document));
  else
    told = fail(document.error());
  if (call.stopped()) co_return Said::unanswered;
  const Said said = told ? Said::taken : judge(told.error());
  status_.requests[static_cast<std::size_t>(said)].fetch_add(1, std::memory_order_relaxed);
  rest_until_ = now() + (now() - began) * rest;
  if (told)
    heard(*told, asked);
  else
    failed(told.error());
  co_return said;
}

// AN-2: numbers that no later record gets, in the order of the batch.
Task<Result<std::string>> Announcer::sign(Call call, std::vector<Saying> batch) {
  const WallTime wall = machine_.shard.wall();
  const WallTime expiry{wall.ms + life().to_millis()};
  std::uint64_t next =
      std::max(sequence_ + 1, static_cast<std::uint64_t>(std::max<std::int64_t>(wall.ms, 0)) * 1000);
  sequence_ = next + batch.size();
  std::string document = R"({"records":[)";
  for (std::size_t at = 0; at < batch.size(); at += chunk) {
    std::vector<Saying> some(batch.begin() + static_cast<std::ptrdiff_t>(at),
                             batch.begin() + static_cast<std::ptrdiff_t>(std::min(at + chunk, batch.size())));
    CO_TRY(const std::string text,
           co_await cairn::run(machine_.pool, call, Lane::cpu,
                               [some = std::move(some), key = options_.key, endpoints = endpoints_, expiry,
                                next]() -> Result<std::string> {
                                 std::string out;
                                 format::ProviderRecord record{{}, key->public_key(), {}, next, expiry};
                                 for (const Saying& one : some) {
                                   record.address = one.address;
                                   if (one.has != !record.endpoints.empty())
                                     record.endpoints = one.has ? endpoints : std::vector<format::Endpoint>();
                                   TRY(const std::string bytes, format::sign_provider_record(record, *key));
                                   ++record.sequence;
                                   out += out.empty() ? "\"" : ",\"";
                                   out += codec::encode_base64(as_bytes(bytes));
                                   out += '"';
                                 }
                                 return out;
                               }));
    next += chunk;
    if (at > 0) document += ',';
    document += text;
  }
  document += "]}";
  co_return document;
}

void Announcer::heard(const IndexPort::Told& told, std::size_t asked) {
  backoff_.reset();
  last_heard_ = now();
  if (epoch_ && *epoch_ != told.epoch) new_epoch_ = true;
  epoch_ = told.epoch;
  if (asked > 0 && told.taken == 0 && ignored_told_.due(now()))
    log_.warn("the index has later records of this node, or too many of others: is the clock behind?",
              {{"ignored", told.ignored}});
}

void Announcer::failed(const Error& why) {
  rest_until_ =
      std::max(rest_until_, now() + backoff_.next(machine_.shard.random()).value_or(again_policy.cap));
  const auto held = failure_told_.due(now());
  if (!held) return;
  log_.warn(judge(why) == Said::unauthorized
                ? "what this node has is not announced: the index wants a capability with op node.peer; "
                  "announce.token_file names its file"
                : "what this node has could not be announced, and is announced later",
            {{"code", name_of(why.code)}, {"why", why.context}, {"suppressed", *held}});
}

// --- numbers

void Announcer::publish() noexcept {
  const std::uint64_t all = holdings_.count();
  const bool tells_more = walk_.running && walk_.pace != Pace::renewal;
  const std::uint64_t to_walk = tells_more ? all - std::min(all, walk_.said) : again_ ? all : 0;
  const std::uint64_t waiting = in_hand_.addresses.size();
  status_.pending = waiting + to_walk;
  status_.covered = complete_ ? all - std::min(all, waiting + feed_.depth().changes) : walk_.said;
  Instant oldest = in_hand_.oldest.value_or(Instant::never());
  if (again_since_) oldest = std::min(oldest, *again_since_);
  if (walk_.running && walk_.since) oldest = std::min(oldest, *walk_.since);
  status_.oldest = oldest == Instant::never() ? 0 : oldest.ns;
}

}  // namespace cairn::storage
