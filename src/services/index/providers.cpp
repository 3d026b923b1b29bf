// Providers: who has an object. Nodes announce what they have; clients ask where to go.
#include <bit>

#include "base/endpoint.h"
#include "base/network.h"
#include "codec/base64.h"
#include "codec/json_reader.h"
#include "codec/json_writer.h"
#include "crypto/blake3.h"
#include "runtime/pool.h"
#include "services/index/asked.h"
#include "services/index/documents.h"
#include "services/index/incoming.h"
#include "services/index/ranking.h"

namespace cairn::index {

using codec::JsonWriter;
using serve::Request;

namespace {

constexpr std::string_view json_type = "application/json";
constexpr std::size_t announcement_max = std::size_t{1} << 20;
constexpr std::size_t usual_limit = 5;

std::unexpected<Error> nobody() {
  return fail(ErrorCode::not_found, "nobody says that it has it", Side::client);
}
std::unexpected<Error> malformed(const char* why) { return fail(ErrorCode::malformed, why, Side::client); }

std::string format_url(const format::Endpoint& endpoint) {
  const Endpoint at{format_ip(std::bit_cast<IpBytes>(endpoint.ip)), endpoint.port, {}, endpoint.tls};
  return (endpoint.tls ? "https://" : "http://") + format_endpoint(at);
}

}  // namespace

// --- reading

Result<RankQuery> IndexShard::parse_rank_query(const Request& request) const {
  RankQuery out;
  out.address = request.route.address;
  out.now = machine_.shard.wall();
  out.limit = usual_limit;
  if (request.head().query().empty()) return out;
  std::string room;
  TRY(const http::Query query, query_of(request, room));
  TRY_VOID(query.allow_only({"region", "limit", "min_freshness"}));
  TRY(out.limit, parse_limit(query, usual_limit, providers_max));
  out.region = query.find("region").value_or("");
  if (out.region.size() > 64) return malformed("no region has so long a name");
  if (const auto given = query.find("min_freshness")) {
    TRY(const std::uint64_t seconds, parse_number(*given));
    if (seconds > 1'000'000'000) return malformed("min_freshness is in seconds, and not so many");
    out.min_freshness = Duration::seconds(static_cast<std::int64_t>(seconds));
  }
  return out;
}

// What others say, but for what is known here to be over: the DHT deletes nothing.
std::vector<SignedProvider> standing(const Answer& answer, const std::vector<KnownProvider>& known) {
  std::vector<SignedProvider> out = answer.providers;
  drop_superseded(out, known);
  std::erase_if(out, [](const SignedProvider& one) { return one.record.is_withdrawal(); });
  return out;
}

Result<bool> IndexShard::try_providers(Request& request) {
  TRY(const RankQuery query, parse_rank_query(request));
  const auto said = providers_->try_find(query.address);
  if (!said && said.error().code == ErrorCode::busy) return false;
  if (!said) return fail(said.error());
  if (any_stands(*said)) {
    answer_providers(request, query, *said, "local", {});
    return true;
  }
  if (const KnownPtr known = finder_->find_known(query.address)) {
    shared_.metrics.hits.add(slot_);
    const std::vector<SignedProvider> others = standing(known->answer, *said);
    if (others.empty()) return nobody();
    answer_found(request, query, others, machine_.shard.now() - known->learned, "cache", {});
    return true;
  }
  TRY_VOID(check_wait(policies_.finder.lookup.deadline));
  return false;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request outlives its answer
Task<Result<>> IndexShard::providers(Call call, Request& request) {
  CO_TRY(const RankQuery query, parse_rank_query(request));
  CO_TRY(const auto said, co_await providers_->find(call, query.address));
  if (any_stands(said)) {
    answer_providers(request, query, said, "local", {});
    co_return Result<>{};
  }
  CO_TRY(const Finder::Found found, co_await find(call, query.address, false));
  const std::string_view winner = found.cached ? "cache" : found.waves.beta_won ? "beta" : "alpha";
  const std::vector<SignedProvider> others = standing(found.answer, said);
  if (others.empty()) co_return nobody();
  answer_found(request, query, others, found.age, winner, found.waves);
  co_return Result<>{};
}

// What others said: they were heard of when it was learned.
void IndexShard::answer_found(Request& request, const RankQuery& query,
                              const std::vector<SignedProvider>& others, Duration age,
                              std::string_view winner, const Waves& waves) {
  const WallTime heard{machine_.shard.wall().ms - age.ns / 1'000'000};
  std::vector<KnownProvider> known;
  known.reserve(others.size());
  for (const SignedProvider& one : others) known.push_back({one, heard});
  answer_providers(request, query, known, winner, waves);
}

void IndexShard::answer_providers(Request& request, const RankQuery& query,
                                  const std::vector<KnownProvider>& known, std::string_view winner,
                                  const Waves& waves) {
  std::vector<SignedProvider> signed_records;
  signed_records.reserve(known.size());
  for (const KnownProvider& one : known) signed_records.push_back(one);
  const MembersPtr members = shared_.finders->members();
  const auto facts = [&](const format::ProviderRecord& record) {
    ProviderFacts out;
    for (const KnownProvider& one : known)
      if (one.record.key == record.key) out.seen = one.heard;
    const auto region = members->regions_by.find(record.key);
    if (region != members->regions_by.end()) out.region = region->second;
    return out;
  };
  const std::vector<Ranked> ranked = rank(signed_records, facts, policies_.rank, query);
  request.response.add_lines(freshness());
  request.response.text.reserve(256 + 256 * ranked.size());
  JsonWriter json(request.response.text);
  json.begin_object().field("cid", format_address(query.address)).key("providers").begin_array();
  for (const Ranked& one : ranked) {
    const format::ProviderRecord& record = one.provider.record;
    json.begin_object()
        .field("id", format_address(crypto::hash_object(record.key)))
        .field("addr", format_url(record.endpoints.front()));
    if (record.endpoints.size() > 1) {
      json.key("others").begin_array();
      for (std::size_t i = 1; i < record.endpoints.size(); ++i) json.value(format_url(record.endpoints[i]));
      json.end_array();
    }
    json.field("region", one.region)
        .field("class", one.latency_class)
        .field("score", one.score)
        .field("last_seen_s",
               static_cast<std::uint64_t>(std::max<std::int64_t>(0, one.age.ns) / 1'000'000'000))
        .end_object();
  }
  json.end_array().key("hedge").begin_object().field("alpha_ms",
                                                     static_cast<std::uint64_t>(waves.alpha.ns / 1'000'000));
  if (waves.beta) json.field("beta_ms", static_cast<std::uint64_t>(waves.beta->ns / 1'000'000));
  json.field("winner", winner).end_object().end_object().finish();
  request.response.answer_text(json_type);
  count_resolved(request, AskedFor::cid);
}

// --- announcing

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request's state outlives it
Task<Result<>> IndexShard::take_announcement(Call call, Request& request, Incoming& incoming) {
  return take_body(call, request, incoming, announcement_max);
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request's state outlives it
Task<Result<>> IndexShard::announce(Call call, Request& request, Incoming& incoming) {
  const auto document = std::make_shared<const std::string>(std::move(incoming.document));
  struct Read {
    Result<Announcements> batch;
    std::string why;
  };
  CO_TRY(Read read, co_await run(machine_.pool, call, Lane::cpu, [document, now = machine_.shard.wall()] {
           codec::JsonReader reader;
           auto batch = read_announcements(reader, *document, now);
           return Read{std::move(batch), reader.detail()};
         }));
  if (!read.batch) co_return answer_malformed(request, read.batch.error(), read.why);
  Announcements& batch = *read.batch;
  shared_.metrics.refused_records.at(RefusedRecord::forged).add(slot_, batch.forged);
  shared_.metrics.refused_records.at(RefusedRecord::expired).add(slot_, batch.expired);
  auto taken = co_await providers_->announce(call, std::move(batch.records));
  if (!taken) {
    if (taken.error().code == ErrorCode::busy) context_.metrics.count_dropped("announced", slot_);
    co_return fail(taken.error());
  }
  shared_.metrics.refused_records.at(RefusedRecord::older).add(slot_, taken->older);
  shared_.metrics.refused_records.at(RefusedRecord::crowded).add(slot_, taken->crowded);
  JsonWriter json(request.response.text);
  json.begin_object()
      .field("taken", taken->taken)
      .field("ignored", batch.forged + batch.expired + taken->older + taken->crowded)
      .field("epoch", format_ulid(shared_.providers->epoch()))
      .end_object()
      .finish();
  request.response.answer_text(json_type);
  co_return Result<>{};
}

}  // namespace cairn::index
