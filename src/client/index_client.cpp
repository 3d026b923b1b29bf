#include "client/index_client.h"

#include <fmt/format.h>

#include <algorithm>

#include "client/answer.h"
#include "client/index_answer.h"
#include "codec/json_writer.h"
#include "crypto/blake3.h"
#include "format/manifest.h"

namespace cairn::client {
namespace {

constexpr std::size_t answer_max = 4 << 20;
constexpr std::string_view name_word = "name:", address_word = "b3:";

std::unexpected<Failure> not_a_name(std::string_view text) {
  return fail(Failure(ErrorCode::invalid, fmt::format("`{}` is not a name: 1 to 255 of a-z 0-9 . _ - in "
                                                      "segments between single slashes",
                                                      text)));
}

// A key as a target has it. The name's own word keeps a name apart from an address, whatever it is called.
std::optional<std::string> key_of(std::string_view text) {
  if (text.starts_with(address_word)) {
    const auto address = parse_address(text);
    return address ? std::optional(format_address(*address)) : std::nullopt;
  }
  if (text.starts_with(name_word)) text.remove_prefix(name_word.size());
  return format::is_name(text) ? std::optional(fmt::format("{}{}", name_word, text)) : std::nullopt;
}

std::string tag_of(std::uint64_t sequence) { return fmt::format("\"{}\"", sequence); }

bool is_name_beginning(std::string_view text) noexcept {
  return text.size() <= format::name_size_max && std::ranges::all_of(text, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-' ||
                  c == '/';
         });
}

}  // namespace

struct IndexClient::Answer {
  std::string asked;
  int status = 0;
  std::string etag, text;
};

Task<Outcome<IndexClient::Answer>> IndexClient::send(Call call, Ask ask) {
  Answer answer;
  answer.asked = transport_.describe(ask);
  CO_TRY(http::ClientResponse response, co_await transport_.send(call, std::move(ask)));
  answer.status = response.status();
  answer.etag = response.head().fields.get(http::FieldName::etag);
  auto text = co_await response.read_text(call.within(transport_.options().stall), answer_max);
  if (!text) {
    Failure failure(text.error());
    failure.asked = std::move(answer.asked);
    co_return fail(std::move(failure));
  }
  answer.text = std::move(*text);
  co_return answer;
}

Task<Outcome<Resolved>> IndexClient::resolve(Call call, std::string key, bool fresh) {
  const auto wanted = key_of(key);
  if (!wanted) co_return not_a_name(key);
  CO_TRY(Answer answer,
         co_await send(call, {.target = fmt::format("/resolve/{}{}", *wanted, fresh ? "?fresh=true" : "")}));
  CO_TRY(Resolved found, read_answer(answer.asked, answer.text, parse_resolved, answer_max));
  if (found.key != *wanted)
    co_return about_another(std::move(answer.asked), "the answer is about another name or address");
  const bool is_name = wanted->starts_with(name_word);
  if (is_name != (found.kind == Resolved::Kind::name) ||
      (!is_name && format_address(found.manifest) != *wanted))
    co_return about_another(std::move(answer.asked), "the answer is about something else than was asked");
  if (answer.etag != fmt::format("\"{}\"", found.etag))
    co_return about_another(std::move(answer.asked), "the answer has another tag than it says");
  co_return found;
}

Task<Outcome<Providers>> IndexClient::providers(Call call, Address address, ProviderQuery query) {
  std::string target = fmt::format("/providers/{}?limit={}", format_address(address), query.limit);
  if (!query.region.empty()) {
    if (!std::ranges::all_of(query.region, [](char c) {
          return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                 c == '_' || c == '.';
        }))
      co_return fail(Failure(ErrorCode::invalid, "a region is made of letters, digits and . _ -"));
    target += "&region=" + query.region;
  }
  if (query.min_freshness)
    target += fmt::format("&min_freshness={}", query.min_freshness->to_millis() / 1000);
  CO_TRY(Answer answer, co_await send(call, {.target = std::move(target)}));
  CO_TRY(Providers found, read_answer(answer.asked, answer.text, parse_providers, answer_max));
  if (found.address != address)
    co_return about_another(std::move(answer.asked), "the answer is about another address");
  co_return found;
}

Task<Outcome<NamedObject>> IndexClient::read_named(Call call, Ask ask, std::string name, bool* fresh) {
  if (!format::is_name(name)) co_return not_a_name(name);
  ask.target = "/names/" + name;
  CO_TRY(Answer answer, co_await send(call, std::move(ask)));
  if (fresh != nullptr) *fresh = answer.status == 201;
  CO_TRY(NamedObject found, read_answer(answer.asked, answer.text, parse_named, answer_max));
  if (found.name != name)
    co_return about_another(std::move(answer.asked), "the answer is about another name");
  if (answer.etag != tag_of(found.sequence))
    co_return about_another(std::move(answer.asked), "the answer has another tag than its sequence");
  co_return found;
}

Task<Outcome<NamedObject>> IndexClient::name(Call call, std::string name) {
  CO_TRY(NamedObject found, co_await read_named(call, {}, name, nullptr));
  if (!found.manifest)
    co_return about_another(transport_.describe({.target = "/names/" + name}), "the name has no object");
  co_return found;
}

Task<Outcome<NamedObject>> IndexClient::find_made(Call call, SetName wish, bool removal, Failure refused) {
  if (refused.code() != ErrorCode::precondition_failed || !wish.if_match) co_return fail(std::move(refused));
  const auto newest = co_await history(call, wish.name, std::nullopt, 1);
  if (!newest || newest->changes.empty()) co_return fail(std::move(refused));
  const PastChange& last = newest->changes.front();
  const std::optional<Address> wanted = removal ? std::nullopt : std::optional(wish.manifest);
  if (last.sequence != *wish.if_match + 1 || last.manifest != wanted) co_return fail(std::move(refused));
  co_return NamedObject{wish.name, last.manifest, last.sequence, last.at};
}

Task<Outcome<NameSet>> IndexClient::set_name(Call call, SetName wish) {
  Ask ask{.method = http::Method::put, .has_body = true};
  codec::JsonWriter json(ask.text);
  json.begin_object().field("manifest", format_address(wish.manifest));
  if (!wish.note.empty()) json.field("note", wish.note);
  json.end_object().finish();
  ask.fields.emplace_back("Content-Type", "application/json");
  if (wish.if_match) ask.fields.emplace_back("If-Match", tag_of(*wish.if_match));
  if (wish.only_new) ask.fields.emplace_back("If-None-Match", "*");
  NameSet set;
  auto made = co_await read_named(call, std::move(ask), wish.name, &set.fresh);
  if (!made) made = co_await find_made(call, wish, false, std::move(made.error()));
  if (!made) co_return fail(std::move(made.error()));
  if (made->manifest != wish.manifest)
    co_return about_another(
        transport_.describe({.method = http::Method::put, .target = "/names/" + wish.name}),
        "the name leads to another object than was asked for");
  set.now = std::move(*made);
  co_return set;
}

Task<Outcome<NamedObject>> IndexClient::remove_name(Call call, std::string name,
                                                    std::optional<std::uint64_t> if_match) {
  Ask ask{.method = http::Method::del};
  if (if_match) ask.fields.emplace_back("If-Match", tag_of(*if_match));
  auto gone = co_await read_named(call, std::move(ask), name, nullptr);
  if (!gone)
    gone = co_await find_made(call, {.name = name, .manifest = {}, .if_match = if_match}, true,
                              std::move(gone.error()));
  if (gone && gone->manifest)
    co_return about_another(transport_.describe({.method = http::Method::del, .target = "/names/" + name}),
                            "the name still leads to an object");
  co_return gone;
}

Task<Outcome<NameHistory>> IndexClient::history(Call call, std::string name,
                                                std::optional<std::uint64_t> after, std::uint64_t limit) {
  if (!format::is_name(name)) co_return not_a_name(name);
  Ask ask{.target = fmt::format("/names/{}?history", name)};
  if (after) ask.target += fmt::format("&after={}", *after);
  ask.target += fmt::format("&limit={}", limit);
  CO_TRY(Answer answer, co_await send(call, std::move(ask)));
  CO_TRY(HistoryOf read, read_answer(answer.asked, answer.text, parse_history, answer_max));
  if (read.name != name) co_return about_another(std::move(answer.asked), "the history is of another name");
  if (after && !read.history.changes.empty() && read.history.changes.front().sequence >= *after)
    co_return about_another(std::move(answer.asked), "the server's list does not go on");
  co_return std::move(read.history);
}

Task<Outcome<NamePage>> IndexClient::names(Call call, std::string prefix, std::string after,
                                           std::uint64_t limit) {
  if (!is_name_beginning(prefix))
    co_return fail(Failure(ErrorCode::invalid, fmt::format("no name begins with `{}`", prefix)));
  if (!after.empty() && !format::is_name(after)) co_return not_a_name(after);
  Ask ask{.target = fmt::format("/names?limit={}", limit)};
  if (!prefix.empty()) ask.target += "&prefix=" + prefix;
  if (!after.empty()) ask.target += "&after=" + after;
  CO_TRY(Answer answer, co_await send(call, std::move(ask)));
  CO_TRY(NamePage page, read_answer(answer.asked, answer.text, parse_names, answer_max));
  for (const ListedName& one : page.names)
    if (!one.name.starts_with(prefix) || (!after.empty() && one.name <= after))
      co_return about_another(std::move(answer.asked), "the list has names that were not asked for");
  if (!page.next.empty() && page.next <= after)
    co_return about_another(std::move(answer.asked), "the server's list does not go on");
  co_return page;
}

Task<Outcome<bool>> IndexClient::each_name(Call call, std::string prefix, std::uint64_t most,
                                           std::function<bool(const ListedName&)> take) {
  std::string after;
  for (;;) {
    CO_TRY(const NamePage page,
           co_await names(call, prefix, after, std::clamp<std::uint64_t>(most, 1, index_page_max)));
    for (const ListedName& one : page.names) {
      if (most == 0) co_return false;
      --most;
      if (!take(one)) co_return false;
    }
    if (page.next.empty()) co_return true;
    if (most == 0) co_return false;
    after = page.next;
  }
}

Task<Outcome<bool>> IndexClient::each_change(Call call, std::string name, std::uint64_t most,
                                             std::function<bool(const PastChange&)> take) {
  std::optional<std::uint64_t> after;
  for (;;) {
    CO_TRY(const NameHistory page,
           co_await history(call, name, after, std::clamp<std::uint64_t>(most, 1, index_page_max)));
    for (const PastChange& one : page.changes) {
      if (most == 0) co_return false;
      --most;
      if (!take(one)) co_return false;
    }
    if (!page.next) co_return true;
    if (most == 0) co_return false;
    after = page.next;
  }
}

Task<Outcome<bool>> IndexClient::put_manifest(Call call, Address address, ByteView bytes) {
  Ask ask{.method = http::Method::put,
          .target = "/manifests/" + format_address(address),
          .view = bytes,
          .has_body = true};
  ask.fields.emplace_back("Content-Type", std::string(format::manifest_media_type));
  CO_TRY(const Answer answer, co_await send(call, std::move(ask)));
  co_return answer.status == 201;
}

Task<Outcome<std::string>> IndexClient::manifest(Call call, Address address) {
  CO_TRY(Answer answer, co_await send(call, {.target = "/manifests/" + format_address(address)}));
  if (crypto::hash_object(as_bytes(answer.text)) != address)
    co_return about_another(std::move(answer.asked), "the bytes have another address");
  co_return std::move(answer.text);
}

}  // namespace cairn::client
