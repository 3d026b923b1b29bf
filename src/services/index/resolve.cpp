// Resolve: what a name or an address stands for. A name of this node's own is in its ledger; a name of
// another key's is asked for at other nodes, and so is an address that nobody announced here.
#include "codec/base64.h"
#include "codec/json_writer.h"
#include "services/index/asked.h"
#include "services/index/shard.h"

namespace cairn::index {

using codec::JsonWriter;
using serve::Request;

namespace {

constexpr std::string_view json_type = "application/json";

std::unexpected<Error> no_name() { return fail(ErrorCode::not_found, "there is no such name", Side::client); }
std::unexpected<Error> nobody() {
  return fail(ErrorCode::not_found, "nobody says that it has it", Side::client);
}

std::uint64_t seconds(Duration age) noexcept {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, age.ns) / 1'000'000'000);
}

struct Resolved {
  std::string_view key, kind, manifest, tag;  // the tag without its quotes
  std::string_view source = "db";
  Duration age = {};
};

void answer_resolved(Request& request, const Resolved& resolved) {
  std::string tag;
  tag.reserve(resolved.tag.size() + 2);
  tag.append(1, '"').append(resolved.tag).append(1, '"');
  request.response.add_field("ETag", tag);
  if (settle_conditions(request, tag)) return;
  request.response.text.reserve(256 + resolved.key.size());
  std::string hint;
  hint.reserve(resolved.manifest.size() + 11);
  JsonWriter json(request.response.text);
  json.begin_object()
      .field("key", resolved.key)
      .field("kind", resolved.kind)
      .field("manifest_cid", resolved.manifest)
      .field("source", resolved.source)
      .field("etag", resolved.tag)
      .field("freshness_s", seconds(resolved.age))
      .field("providers_hint", hint.append("/providers/").append(resolved.manifest))
      .end_object()
      .finish();
  request.response.answer_text(json_type);
}

}  // namespace

void IndexShard::count_resolved(const Request& request, AskedFor what) noexcept {
  shared_.metrics.resolve_latency.at(what).observe(slot_, machine_.shard.now() - request.started());
}

Result<> IndexShard::check_wait(Duration left) {
  if (wait_.fits(context_.work.taken(), workers_per_shard * context_.shards, left)) return {};
  return fail(ErrorCode::busy, "it would wait longer than it may take");
}

void IndexShard::answer_name_at(Request& request, std::string_view name, const Address& manifest,
                                std::uint64_t sequence, std::string_view source, Duration age) {
  std::string key;
  key.reserve(name.size() + 5);
  key.append("name:").append(name);
  request.response.add_lines(freshness());
  answer_resolved(request, {key, "name", format_address(manifest), std::to_string(sequence), source, age});
  count_resolved(request, AskedFor::name);
}

void IndexShard::answer_cid(Request& request, const Address& address, std::string_view source, Duration age) {
  const std::string text = format_address(address);
  request.response.add_lines(freshness());
  answer_resolved(request, {text, "cid", text, text, source, age});
  count_resolved(request, AskedFor::cid);
}

// A name of this node's own, as its ledger has it.
Result<> IndexShard::answer_own(Request& request, std::string_view name,
                                const std::optional<NameState>& state) {
  if (!state || !state->manifest) return no_name();
  answer_name_at(request, name, *state->manifest, state->sequence, "db", {});
  return {};
}

// What others said of a name: the newest change, or nothing.
Result<> IndexShard::answer_foreign(Request& request, std::string_view name, const Answer& answer,
                                    std::string_view source, Duration age) {
  if (answer.changes.empty()) return no_name();
  const format::NameChange& change = answer.changes.front().change;
  if (!change.manifest) return no_name();
  answer_name_at(request, name, *change.manifest, change.sequence, source, age);
  return {};
}

// --- without a wait

Result<bool> IndexShard::try_resolve(Request& request) {
  TRY(const Key key, parse_key(request.route.at[0].text));
  if (!request.head().query().empty()) return false;
  if (key.address) return try_address(request, *key.address);
  if (finder_->is_foreign(key.name)) return try_foreign(request, std::string(key.name));
  const auto found = port_->try_find_name(key.name);
  if (!found && found.error().code == ErrorCode::busy) return false;
  if (!found) return fail(found.error());
  TRY_VOID(answer_own(request, key.name, *found));
  return true;
}

Result<bool> IndexShard::try_foreign(Request& request, std::string name) {
  if (const KnownPtr known = finder_->find_known(name)) {
    shared_.metrics.hits.add(slot_);
    TRY_VOID(answer_foreign(request, name, known->answer, "cache", machine_.shard.now() - known->learned));
    return true;
  }
  TRY_VOID(check_wait(policies_.finder.lookup.deadline));
  return false;
}

Result<bool> IndexShard::try_address(Request& request, const Address& address) {
  const auto kept = port_->try_has_manifest(address);
  const auto said = providers_->try_find(address);
  if ((kept && *kept) || (said && !said->empty())) {
    answer_cid(request, address, "db", {});
    return true;
  }
  if (!kept || !said) return false;
  if (const KnownPtr known = finder_->find_known(address)) {
    shared_.metrics.hits.add(slot_);
    if (known->answer.is_empty()) return nobody();
    answer_cid(request, address, "cache", machine_.shard.now() - known->learned);
    return true;
  }
  TRY_VOID(check_wait(policies_.finder.lookup.deadline));
  return false;
}

// --- as a job

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request outlives its answer
Task<Result<>> IndexShard::resolve(Call call, Request& request) {
  std::string room;
  CO_TRY(const http::Query query, query_of(request, room));
  CO_TRY_VOID(query.allow_only({"fresh", "scope"}));
  const auto scope = query.find("scope"), wish = query.find("fresh");
  if ((scope && *scope != "local") || (wish && *wish != "true" && *wish != "false"))
    co_return fail(ErrorCode::malformed, "ask with fresh=true, or with scope=local", Side::client);
  CO_TRY(const Key key, parse_key(request.route.at[0].text));
  if (scope) co_return co_await answer_peer(call, request, key);
  const bool fresh = wish == "true";
  if (key.address) co_return co_await resolve_address(call, request, *key.address, fresh);
  const std::string name(key.name);
  if (finder_->is_foreign(name)) {
    CO_TRY(const Finder::Found found, co_await find(call, name, fresh));
    co_return answer_foreign(request, name, found.answer, found.cached ? "cache" : "dht", found.age);
  }
  CO_TRY(const auto found, co_await port_->find_name(call, name));
  co_return answer_own(request, name, found);
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request outlives its answer
Task<Result<>> IndexShard::resolve_address(Call call, Request& request, Address address, bool fresh) {
  CO_TRY(bool here, co_await port_->has_manifest(call, address));
  if (!here) {
    CO_TRY(const auto said, co_await providers_->find(call, address));
    here = !said.empty();
  }
  if (here) {
    answer_cid(request, address, "db", {});
    co_return Result<>{};
  }
  CO_TRY(const Finder::Found found, co_await find(call, address, fresh));
  answer_cid(request, address, found.cached ? "cache" : "dht", found.age);
  co_return Result<>{};
}

Task<Result<Finder::Found>> IndexShard::find(Call call, Question question, bool fresh) {
  const Instant begun = machine_.shard.now();
  const bool for_name = asks_for_name(question);
  auto found = co_await finder_->find(call, std::move(question), fresh);
  wait_.count(machine_.shard.now() - begun);
  if (found && found->cached)
    shared_.metrics.hits.add(slot_);
  else
    shared_.metrics.misses.add(slot_);
  if (!found && found.error().code == ErrorCode::timeout) shared_.metrics.deadline_hits.add(slot_);
  if (!found && found.error().code == ErrorCode::not_found) co_return for_name ? no_name() : nobody();
  co_return found;
}

// Another index node asks: it gets the signed records that are here, and what is known from others only if
// it was signed.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request outlives its answer
Task<Result<>> IndexShard::answer_peer(Call call, Request& request, Key key) {
  std::vector<std::string> records;
  if (key.address) {
    CO_TRY(const auto said, co_await providers_->find(call, *key.address));
    for (const KnownProvider& one : said) records.push_back(one.bytes);
  } else if (!finder_->is_foreign(key.name)) {
    const std::string name(key.name);
    CO_TRY(const auto state, co_await port_->find_name(call, name));
    if (state) {
      CO_TRY(std::string bytes, co_await port_->read_change(call, name, state->sequence));
      records.push_back(std::move(bytes));
    }
  }
  const Question question = key.address ? Question(*key.address) : Question(std::string(key.name));
  if (const KnownPtr known = records.empty() ? finder_->find_known(question) : nullptr) {
    for (const SignedProvider& one : known->answer.providers) records.push_back(one.bytes);
    for (const SignedChange& one : known->answer.changes) records.push_back(one.bytes);
  }
  if (records.empty()) co_return fail(ErrorCode::not_found, "not here", Side::client);
  JsonWriter json(request.response.text);
  json.begin_object().key("records").begin_array();
  for (const std::string& one : records) json.value(codec::encode_base64(as_bytes(one)));
  json.end_array().end_object().finish();
  request.response.answer_text(json_type);
  co_return Result<>{};
}

}  // namespace cairn::index
