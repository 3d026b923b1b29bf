// Resolve: what a name or an address stands for.
#include "codec/json_writer.h"
#include "services/index/asked.h"
#include "services/index/shard.h"

namespace cairn::index {

using serve::Request;

namespace {

constexpr std::string_view json_type = "application/json";

void answer_key(Request& request, std::string_view key, std::string_view kind, std::string_view manifest,
                std::string_view tag) {
  request.response.text.reserve(256 + key.size());
  std::string hint;
  hint.reserve(manifest.size() + 11);
  codec::JsonWriter json(request.response.text);
  json.begin_object()
      .field("key", key)
      .field("kind", kind)
      .field("manifest_cid", manifest)
      .field("source", "db")
      .field("etag", tag)
      .field("freshness_s", 0u)
      .field("providers_hint", hint.append("/providers/").append(manifest))
      .end_object()
      .finish();
  request.response.answer_text(json_type);
}

void answer_known(Request& request, std::string_view name, const NameState& state) {
  const std::string tag = format_tag(state);
  request.response.add_field("ETag", tag);
  if (settle_conditions(request, tag)) return;
  std::string key;
  key.reserve(name.size() + 5);
  answer_key(request, key.append("name:").append(name), "name", format_address(*state.manifest),
             std::string_view(tag).substr(1, tag.size() - 2));
}

}  // namespace

// Answers a name whose state is known.
Result<> IndexShard::answer_resolved(Request& request, std::string_view name,
                                     const std::optional<NameState>& state) {
  if (!state || !state->manifest) return fail(ErrorCode::not_found, "there is no such name", Side::client);
  request.response.add_lines(freshness());
  answer_known(request, name, *state);
  return {};
}

Result<bool> IndexShard::try_resolve(Request& request) {
  TRY(const Key key, parse_key(request.route.at[0].text));
  if (key.address || !request.head().query().empty()) return false;
  const auto found = port_->try_find_name(key.name);
  if (!found && found.error().code == ErrorCode::busy) return false;
  if (!found) return fail(found.error());
  TRY_VOID(answer_resolved(request, key.name, *found));
  return true;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request outlives its answer
Task<Result<>> IndexShard::resolve(Call call, Request& request) {
  std::string room;
  CO_TRY(const http::Query query, query_of(request, room));
  CO_TRY_VOID(query.allow_only({"fresh", "scope"}));
  CO_TRY(const Key key, parse_key(request.route.at[0].text));
  if (key.address) co_return co_await resolve_address(call, request, *key.address);
  CO_TRY(const auto found, co_await port_->find_name(call, std::string(key.name)));
  co_return answer_resolved(request, key.name, found);
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request outlives its answer
Task<Result<>> IndexShard::resolve_address(Call call, Request& request, Address address) {
  CO_TRY(const bool there, co_await port_->has_manifest(call, address));
  if (!there) co_return fail(ErrorCode::not_found, "nobody is known to have it", Side::client);
  const std::string text = format_address(address), tag = '"' + text + '"';
  request.response.add_lines(freshness());
  request.response.add_field("ETag", tag);
  if (settle_conditions(request, tag)) co_return Result<>{};
  answer_key(request, text, "cid", text, text);
  co_return Result<>{};
}

}  // namespace cairn::index
