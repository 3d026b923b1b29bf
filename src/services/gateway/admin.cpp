// GET /admin/tenants: weights, quotas, where each tenant stands, and the last minute, second by second.
#include <vector>

#include "codec/json_writer.h"
#include "services/gateway/shard.h"

namespace cairn::gateway {
namespace {

constexpr std::size_t listed_max = 1000, samples_told = 60;

// A copy of what is told, so that the tenants are not locked while it is written.
struct Row {
  std::string name;
  bool is_address;
  std::uint32_t weight;
  std::int64_t deficit;
  std::uint64_t depth, served, held, inflight;
  QuotaLimits quota;
  std::uint64_t used;
};

void write_row(codec::JsonWriter& json, const Row& row) {
  json.begin_object()
      .field("tenant", row.name)
      .field("kind", row.is_address ? "address" : "token")
      .field("weight", row.weight)
      .field("quantum", row.weight * static_cast<std::uint64_t>(DeficitRoundRobin::quantum))
      .field("deficit", row.deficit)
      .field("depth", row.depth)
      .field("served_units", row.served)
      .field("slots", row.held)
      .field("inflight", row.inflight);
  json.key("quota").begin_object();
  json.field("rps", row.quota.rps)
      .field("bytes_per_day", row.quota.bytes_per_day)
      .field("bytes_used", row.used);
  json.end_object().end_object();
}

void write_sample(codec::JsonWriter& json, const Sample& sample) {
  json.begin_object()
      .field("at", format_rfc3339(sample.at))
      .field("waiting", sample.waiting)
      .field("slots_taken", sample.out)
      .field("slots", sample.slots)
      .field("least_deficit", sample.least_deficit)
      .field("lag_ms", sample.lag.to_millis())
      .field("degraded", static_cast<int>(sample.level))
      .end_object();
}

}  // namespace

Result<> GatewayShard::tell_tenants(serve::Request& request) {
  TRY_VOID(reception_.check_admin(request));
  const Fairness& fairness = shared_.fairness;
  const std::int64_t today = day_of(context_.machine.shard.wall());
  std::vector<Row> rows;
  Tenants& tenants = shared_.fairness.tenants;
  const auto list = [&](const Tenant& tenant) {
    if (rows.size() == listed_max) return;
    const DrrTenant& turns = tenant.turns;
    rows.push_back({tenant.name, tenant.is_address, turns.weight(), turns.deficit(),
                    turns.places.load(std::memory_order_relaxed), turns.served(), turns.held(),
                    tenant.inside.load(std::memory_order_relaxed), tenant.quota.limits(),
                    tenant.quota.used(today)});
  };
  for (Tenants::Walk walk; rows.size() < listed_max && tenants.go_on(walk, list);) {
  }
  std::string& text = request.response.text;
  text.clear();
  codec::JsonWriter json(text);
  json.begin_object()
      .field("drr", fairness.options.drr_enabled)
      .field("slots", fairness.scheduler->slots())
      .field("slots_taken", fairness.scheduler->out())
      .field("waiting", fairness.scheduler->waiting())
      .field("degraded", static_cast<int>(fairness.pressure.level()))
      .field("known", tenants.size());
  json.key("tenants").begin_array();
  for (const Row& row : rows) write_row(json, row);
  json.end_array();
  json.key("history").begin_array();
  for (const Sample& sample : shared_.samples.newest(samples_told)) write_sample(json, sample);
  json.end_array().end_object().finish();
  request.response.add_field("Cache-Control", "no-store");
  request.response.answer_text("application/json");
  return {};
}

}  // namespace cairn::gateway
