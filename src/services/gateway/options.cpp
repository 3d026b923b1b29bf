#include "services/gateway/options.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>

namespace cairn::gateway {
namespace {

std::optional<std::uint64_t> parse_count(std::string_view text) noexcept {
  std::uint64_t count = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), count);
  if (problem != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return count;
}

struct Assigned {
  std::string_view tenant, value;
};
std::optional<Assigned> split(std::string_view text) noexcept {
  const std::size_t at = text.rfind('=');
  if (at == text.npos || at == 0) return std::nullopt;
  return Assigned{text.substr(0, at), text.substr(at + 1)};
}

std::optional<std::uint32_t> parse_weight(std::string_view text) noexcept {
  const auto weight = parse_count(text);
  if (!weight || *weight == 0 || *weight > 1024) return std::nullopt;
  return static_cast<std::uint32_t>(*weight);
}

// RPS/BYTES; 0: no such quota.
std::optional<QuotaLimits> parse_quota(std::string_view text) noexcept {
  const std::size_t at = text.find('/');
  if (at == text.npos) return std::nullopt;
  const auto rps = parse_count(text.substr(0, at));
  const auto bytes = parse_bytes(text.substr(at + 1));
  if (!rps || *rps > 1'000'000 || !bytes) return std::nullopt;
  return QuotaLimits{*rps, bytes->count};
}

// Of each tenant once.
template <class F>
config::Check each(const char* text, F parse) {
  return {text, [parse](const config::Value& value) {
            std::set<std::string_view> tenants;
            return std::ranges::all_of(
                std::get<std::vector<std::string>>(value), [&](const std::string& one) {
                  const auto assigned = split(one);
                  return assigned && parse(assigned->value) && tenants.insert(assigned->tenant).second;
                });
          }};
}

}  // namespace

FairnessKeys declare_fairness_keys(config::Schema& schema) {
  FairnessKeys keys;
  keys.enabled = schema.add<bool>({.name = "drr.enabled",
                                   .default_value = "true",
                                   .doc = "Whether tenants take turns by their weights. Off: first come, "
                                          "first served, within the same slots.",
                                   .reload = config::Reload::restart});
  keys.default_quantum = schema.add<std::int64_t>({.name = "drr.default_quantum",
                                                   .default_value = "1",
                                                   .doc = "The weight of a tenant without one of its own: "
                                                          "64 units a round.",
                                                   .min = "1",
                                                   .max = "1024"});
  keys.tenant_quanta = schema.add<std::vector<std::string>>(
      {.name = "drr.tenant_quanta",
       .default_value = "",
       .doc = "Weights of tenants.",
       .check = each("TENANT=WEIGHT with a weight from 1 to 1024, each tenant once", parse_weight)});
  keys.workers = schema.add<std::int64_t>({.name = "pools.workers",
                                           .default_value = "0",
                                           .doc = "Workers of the process; 0: one for each core, at most 8.",
                                           .reload = config::Reload::restart,
                                           .min = "0",
                                           .max = "256"});
  keys.worker_slots = schema.add<std::int64_t>({.name = "pools.worker_slots",
                                                .default_value = "16",
                                                .doc = "Requests that a worker runs at once.",
                                                .reload = config::Reload::restart,
                                                .min = "1",
                                                .max = "1024"});
  keys.rps = schema.add<std::int64_t>({.name = "quota.rps",
                                       .default_value = "0",
                                       .doc = "Requests per second of one tenant; 0: no quota.",
                                       .min = "0",
                                       .max = "1000000"});
  keys.bytes_per_day =
      schema.add<Bytes>({.name = "quota.bytes_per_day",
                         .default_value = "0B",
                         .doc = "Bytes of bodies, both ways, of one tenant in a day of UTC; 0: no quota."});
  keys.tenant_quotas = schema.add<std::vector<std::string>>(
      {.name = "quota.tenants",
       .default_value = "",
       .doc = "Quotas of tenants in place of the two above.",
       .check = each("TENANT=RPS/BYTES, as in alice=50/10GiB, each tenant once", parse_quota)});
  return keys;
}

TenantRules read_rules(const config::Snapshot& snapshot, const FairnessKeys& keys) {
  TenantRules rules;
  rules.default_weight = static_cast<std::uint32_t>(snapshot.get(keys.default_quantum));
  rules.default_quota = {static_cast<std::uint64_t>(snapshot.get(keys.rps)),
                         snapshot.get(keys.bytes_per_day).count};
  std::map<std::string, TenantRules::Named, std::less<>> named;
  const auto of = [&](std::string_view tenant) -> TenantRules::Named& {
    const auto at = named.try_emplace(std::string(tenant)).first;
    at->second.name = at->first;
    return at->second;
  };
  for (const std::string& one : snapshot.get(keys.tenant_quanta))
    if (const auto assigned = split(one))
      of(assigned->tenant).weight = parse_weight(assigned->value).value_or(0);
  for (const std::string& one : snapshot.get(keys.tenant_quotas))
    if (const auto assigned = split(one)) of(assigned->tenant).quota = parse_quota(assigned->value);
  for (auto& [name, rule] : named) rules.named.push_back(std::move(rule));
  return rules;
}

}  // namespace cairn::gateway
