#include "services/index/ranking.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

namespace cairn::index {
namespace {

double freshness_of(Duration age, Duration half_life) noexcept {
  if (half_life.ns <= 0) return age.ns <= 0 ? 1 : 0;
  return std::exp2(-age.to_seconds() / half_life.to_seconds());
}

std::uint32_t class_of(const std::optional<Duration>& latency, std::span<const Duration> bounds) noexcept {
  if (!latency) return static_cast<std::uint32_t>(bounds.size());
  return static_cast<std::uint32_t>(
      std::ranges::count_if(bounds, [&](Duration bound) { return *latency >= bound; }));
}

double nearness_of(const ProviderFacts& facts, std::uint32_t latency_class, std::size_t bounds) noexcept {
  if (!facts.latency) return 0;
  return 1 - static_cast<double>(latency_class) / static_cast<double>(bounds + 1);
}

double health_of(Breaker::State state) noexcept {
  return state == Breaker::State::closed ? 1 : state == Breaker::State::half_open ? 0.5 : 0;
}

bool is_in(const auto& list, const auto& value) { return std::ranges::find(list, value) != list.end(); }

// Nothing: it is not to be offered.
std::optional<Ranked> judge(const SignedProvider& provider, const FactsOf& facts_of, const RankPolicy& policy,
                            const RankQuery& query) {
  const format::ProviderRecord& record = provider.record;
  if (!is_fresh(record, query.now) || is_in(policy.provider_denylist, record.key)) return std::nullopt;
  ProviderFacts facts = facts_of(record);
  if (!policy.allowed_regions.empty() && !is_in(policy.allowed_regions, facts.region)) return std::nullopt;
  // A clock that was set back makes nobody fresher than fresh.
  const Duration age = Duration::millis(std::max<std::int64_t>(0, query.now.ms - facts.seen.ms));
  if (query.min_freshness && age > *query.min_freshness) return std::nullopt;

  Ranked out;
  out.provider = provider;
  out.age = age;
  out.latency_class = class_of(facts.latency, policy.latency_bounds);
  const double rest =
      (freshness_of(age, policy.freshness_half_life) +
       nearness_of(facts, out.latency_class, policy.latency_bounds.size()) + health_of(facts.breaker)) /
      3;
  const double bias = query.region.empty() ? 0 : std::clamp(policy.region_bias, 0.0, 1.0);
  out.score = std::clamp(bias * (facts.region == query.region ? 1 : 0) + (1 - bias) * rest, 0.0, 1.0);
  out.region = std::move(facts.region);
  return out;
}

}  // namespace

std::vector<Ranked> rank(std::span<const SignedProvider> providers, const FactsOf& facts,
                         const RankPolicy& policy, const RankQuery& query) {
  // The record in force of each node, whether or not it says that the object is there.
  std::map<crypto::Ed25519PublicKey, const SignedProvider*> newest;
  for (const SignedProvider& provider : providers) {
    if (provider.record.address != query.address) continue;
    const SignedProvider*& known = newest[provider.record.key];
    if (known == nullptr || is_newer(provider, *known)) known = &provider;
  }
  std::vector<Ranked> ranked;
  for (const auto& [key, provider] : newest)
    if (auto one = judge(*provider, facts, policy, query)) ranked.push_back(std::move(*one));
  std::ranges::sort(ranked, {},
                    [](const Ranked& one) { return std::tuple(-one.score, one.provider.record.key); });
  const std::size_t most = std::min(query.limit, providers_max);
  if (ranked.size() > most) ranked.erase(ranked.begin() + static_cast<std::ptrdiff_t>(most), ranked.end());
  return ranked;
}

}  // namespace cairn::index
