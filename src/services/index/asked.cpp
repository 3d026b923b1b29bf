#include "services/index/asked.h"

#include <charconv>

#include "format/name.h"
#include "http/conditional.h"
#include "serve/answer.h"

namespace cairn::index {
namespace {

constexpr std::string_view name_word = "name:", address_word = "b3:";

std::unexpected<Error> malformed(const char* why) { return fail(ErrorCode::malformed, why, Side::client); }

}  // namespace

Result<http::Query> query_of(const serve::Request& request, std::string& room) {
  const std::string_view raw = request.head().query();
  room.resize(raw.size());
  return http::parse_query(raw, room);
}

Result<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || problem != std::errc() || end != text.data() + text.size() ||
      (text.size() > 1 && text[0] == '0'))
    return malformed("a number was expected in the query");
  return value;
}

Result<std::string_view> parse_name(std::string_view text) {
  if (!format::is_name(text))
    return malformed("a name is 1 to 255 of a-z, 0-9, '.', '_', '-' in segments between slashes");
  return text;
}

Result<Key> parse_key(std::string_view text) {
  if (text.starts_with(address_word)) {
    const auto address = parse_address(text);
    if (!address) return malformed("an address is b3: and 64 hex digits");
    return Key{{}, *address};
  }
  if (text.starts_with(name_word)) text.remove_prefix(name_word.size());
  TRY(const std::string_view name, parse_name(text));
  return Key{name, {}};
}

bool settle_conditions(serve::Request& request, std::string_view etag) {
  const http::Verdict verdict = http::evaluate(request.fields(), request.head().method,
                                               {.etag = etag, .last_modified = {}, .exists = true});
  if (verdict.outcome == http::Precondition::proceed) return false;
  if (verdict.outcome == http::Precondition::not_modified)
    request.response.status = 304;
  else
    serve::answer_error(request, {ErrorCode::precondition_failed, "it has another tag", Side::client});
  return true;
}

Result<std::size_t> parse_limit(const http::Query& query, std::size_t usual, std::size_t most) {
  const auto given = query.find("limit");
  if (!given) return usual;
  TRY(const std::uint64_t limit, parse_number(*given));
  if (limit == 0 || limit > most)
    return malformed("the limit of this list is higher than 0, and not so high");
  return static_cast<std::size_t>(limit);
}

}  // namespace cairn::index
