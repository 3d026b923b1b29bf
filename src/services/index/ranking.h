// Ranking: the order in which a client should try the providers of an address. Pure.
//   [RK-1] The same providers, facts and policy give the same ranking, in whatever order they come. Equal
//         scores go by node key.
//   [RK-2] One entry per node key, of its newest record, at most providers_max. A record of another address,
//         a withdrawn or an expired one never counts, nor do older records of its node.
//   [RK-3] A score lies in 0..1. A provider that is nearer, fresher, healthier or in the region asked for has
//         no lower score for it.
//
// score = bias * region + (1 - bias) * (freshness + nearness + health) / 3, where
//   region     1 in the region of the one who asks, else 0; without a region of the asker, bias is 0
//   freshness  half of itself for each half-life since the provider was last heard of
//   nearness   1 below the first bound of the latency classes, then less by each; 0 where nothing is known
//   health     1 with a closed breaker, a half with a half-open one, 0 with an open one
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/breaker.h"
#include "services/index/provider_set.h"

namespace cairn::index {

struct RankPolicy {
  double region_bias = 0.6;
  Duration freshness_half_life = Duration::seconds(600);
  std::vector<Duration> latency_bounds = {};                     // rising
  std::vector<std::string> allowed_regions = {};                 // empty: all
  std::vector<crypto::Ed25519PublicKey> provider_denylist = {};  // node keys
};

struct RankQuery {
  Address address;
  WallTime now{};
  std::string region = {};                     // empty: none
  std::size_t limit = 5;                       // at most providers_max
  std::optional<Duration> min_freshness = {};  // heard of no longer ago than this
};

// What this node knows of a provider beyond its record.
struct ProviderFacts {
  std::string region = {};               // empty: unknown
  std::optional<Duration> latency = {};  // none: never measured
  Breaker::State breaker = Breaker::State::closed;
  WallTime seen{};  // when it was last heard of
};
using FactsOf = std::function<ProviderFacts(const format::ProviderRecord& record)>;

struct Ranked {
  SignedProvider provider;
  std::string region;
  std::uint32_t latency_class = 0;  // how many bounds its latency reaches; all of them where unknown
  double score = 0;
  Duration age{};  // since it was last heard of

  friend bool operator==(const Ranked&, const Ranked&) = default;
};

// The best first.
std::vector<Ranked> rank(std::span<const SignedProvider> providers, const FactsOf& facts,
                         const RankPolicy& policy, const RankQuery& query);

}  // namespace cairn::index
