// Names: setting and removing them, their lists and their histories.
#include "codec/json_reader.h"
#include "codec/json_writer.h"
#include "serve/answer.h"
#include "services/index/asked.h"
#include "services/index/documents.h"
#include "services/index/incoming.h"

namespace cairn::index {

using codec::JsonWriter;
using serve::Request;

namespace {

constexpr std::string_view json_type = "application/json";
constexpr http::FieldLines revalidate = "Cache-Control: no-cache\r\n";
constexpr std::size_t document_max = 4096;
constexpr std::size_t list_usual = 100, list_most = 1000;

std::unexpected<Error> no_name() { return fail(ErrorCode::not_found, "there is no such name", Side::client); }

// The names of another key are not in this ledger, whatever it knew of them before.
std::unexpected<Error> another_speaks() {
  return fail(ErrorCode::not_found, "another key speaks for this name: ask for it with /resolve",
              Side::client);
}

// `?history` has no value; for the parser it gets an empty one.
std::string with_values(std::string_view raw) {
  constexpr std::string_view word = "history";
  std::string out(raw);
  if (raw == word || raw.starts_with("history&")) out.insert(word.size(), 1, '=');
  return out;
}

void write_state(JsonWriter& json, std::string_view name, const NameState& state) {
  json.field("name", name);
  if (state.manifest) json.field("manifest", format_address(*state.manifest));
  json.field("sequence", state.sequence).field("changed_at", format_rfc3339(state.at));
}

void answer_state(Request& request, std::string_view name, const NameState& state) {
  request.response.add_field("ETag", format_tag(state));
  JsonWriter json(request.response.text);
  json.begin_object();
  write_state(json, name, state);
  json.end_object().finish();
  request.response.answer_text(json_type);
}

}  // namespace

Result<> IndexShard::check_own(std::string_view name) const {
  if (!shared_.finders->members()->known)
    return fail(ErrorCode::not_ready, "the registry was not read yet: another key may speak for this name");
  if (!finder_->is_foreign(name)) return {};
  return fail(ErrorCode::forbidden, "another key speaks for this name", Side::client);
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request's state outlives it
Task<Result<>> IndexShard::take_document(Call call, Request& request, Incoming& incoming) {
  return take_body(call, request, incoming, document_max);
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request's state outlives it
Task<Result<>> IndexShard::set_name(Call call, Request& request, Incoming& incoming) {
  CO_TRY(const std::string_view name, parse_name(request.route.at[0].text));
  CO_TRY_VOID(check_own(name));
  codec::JsonReader reader;
  auto wish = read_wish(reader, incoming.document);
  if (!wish) co_return answer_malformed(request, wish.error(), reader.detail());
  auto mutation = std::make_unique<Mutation>(Mutation::Kind::set_name);
  mutation->by = request.who();
  mutation->name = name;
  mutation->manifest = wish->manifest;
  mutation->note = std::move(wish->note);
  mutation->conditions = http::keep_conditions(request.fields());
  auto done = co_await port_->submit(call, std::move(mutation));
  if (!done) co_return turned_away(done.error());
  request.response.status = done->existed ? 200 : 201;
  if (!done->existed) request.response.add_field("Location", "/names/" + std::string(name));
  answer_state(request, name, done->state);
  co_return Result<>{};
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request outlives its answer
Task<Result<>> IndexShard::remove_name(Call call, Request& request) {
  CO_TRY(const std::string_view name, parse_name(request.route.at[0].text));
  CO_TRY_VOID(check_own(name));
  auto mutation = std::make_unique<Mutation>(Mutation::Kind::remove_name);
  mutation->by = request.who();
  mutation->name = name;
  mutation->conditions = http::keep_conditions(request.fields());
  auto done = co_await port_->submit(call, std::move(mutation));
  if (!done) co_return turned_away(done.error());
  answer_state(request, name, done->state);
  co_return Result<>{};
}

Result<bool> IndexShard::try_name(Request& request) {
  TRY(const std::string_view name, parse_name(request.route.at[0].text));
  if (!request.head().query().empty()) return false;
  if (finder_->is_foreign(name)) return another_speaks();
  const auto found = port_->try_find_name(name);
  if (!found && found.error().code == ErrorCode::busy) return false;
  if (!found) return fail(found.error());
  TRY_VOID(answer_name(request, name, *found));
  return true;
}

Result<> IndexShard::answer_name(Request& request, std::string_view name,
                                 const std::optional<NameState>& state) {
  if (!state || !state->manifest) return no_name();
  request.response.add_lines(revalidate);
  if (settle_conditions(request, format_tag(*state))) {
    request.response.add_field("ETag", format_tag(*state));
    return {};
  }
  answer_state(request, name, *state);
  return {};
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request outlives its answer
Task<Result<>> IndexShard::name(Call call, Request& request) {
  CO_TRY(const std::string_view name, parse_name(request.route.at[0].text));
  if (finder_->is_foreign(name)) co_return another_speaks();
  if (!request.head().query().empty()) co_return co_await history(call, request, std::string(name));
  CO_TRY(const auto found, co_await port_->find_name(call, std::string(name)));
  co_return answer_name(request, name, found);
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request outlives its answer
Task<Result<>> IndexShard::history(Call call, Request& request, std::string name) {
  const std::string raw = with_values(request.head().query());
  std::string room(raw.size(), '\0');
  CO_TRY(const http::Query query, http::parse_query(raw, room));
  CO_TRY_VOID(query.allow_only({"history", "after", "limit"}));
  if (query.find("history") != "")
    co_return fail(ErrorCode::malformed, "ask for a name, or with ?history&after=SEQUENCE&limit=N",
                   Side::client);
  CO_TRY(const std::size_t limit, parse_limit(query, list_usual, list_most));
  std::optional<std::uint64_t> below;
  if (const auto after = query.find("after")) {
    CO_TRY(below, parse_number(*after));
  }
  CO_TRY(const HistoryPage page, co_await port_->history(call, name, below, limit));
  JsonWriter json(request.response.text);
  json.begin_object().field("name", name).key("changes").begin_array();
  for (const PastChange& past : page.changes) {
    json.begin_object().field("sequence", past.change.sequence);
    if (past.change.manifest)
      json.field("manifest", format_address(*past.change.manifest));
    else
      json.key("manifest").null();
    json.field("at", format_rfc3339(past.change.at)).field("key", format_hex(past.change.key));
    if (!past.by.empty()) json.field("by", past.by);
    if (!past.change.note.empty()) json.field("note", past.change.note);
    json.end_object();
  }
  json.end_array();
  if (page.next) json.field("next", *page.next);
  json.end_object().finish();
  request.response.add_lines(revalidate);
  request.response.answer_text(json_type);
  co_return Result<>{};
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request outlives its answer
Task<Result<>> IndexShard::names(Call call, Request& request) {
  std::string room;
  CO_TRY(const http::Query query, query_of(request, room));
  CO_TRY_VOID(query.allow_only({"prefix", "after", "limit"}));
  CO_TRY(const std::size_t limit, parse_limit(query, list_usual, list_most));
  const std::string_view prefix = query.find("prefix").value_or(""), after = query.find("after").value_or("");
  if (prefix.size() > format::name_size_max || after.size() > format::name_size_max)
    co_return fail(ErrorCode::malformed, "no name is so long", Side::client);
  CO_TRY(NamePage page, co_await port_->list(call, std::string(prefix), std::string(after), limit));
  std::erase_if(page.names, [this](const ListedName& one) { return finder_->is_foreign(one.name); });
  JsonWriter json(request.response.text);
  json.begin_object().key("names").begin_array();
  for (const ListedName& one : page.names)
    json.begin_object()
        .field("name", one.name)
        .field("manifest", format_address(*one.state.manifest))
        .field("changed_at", format_rfc3339(one.state.at))
        .end_object();
  json.end_array();
  if (page.next) json.field("next", *page.next);
  json.end_object().finish();
  request.response.add_lines(revalidate);
  request.response.answer_text(json_type);
  co_return Result<>{};
}

}  // namespace cairn::index
