#include "http/query.h"

#include <algorithm>

#include "base/utf8.h"
#include "http/scan.h"

namespace cairn::http {
namespace {

std::unexpected<Error> malformed(const char* context) noexcept {
  return fail(ErrorCode::malformed, context, Side::client);
}

// Takes from the front of `room` what it needs.
Result<std::string_view> decode(std::string_view raw, std::span<char>& room) noexcept {
  if (!std::ranges::all_of(raw, is_target_character)) return malformed("character not allowed in a query");
  if (raw.find('%') == std::string_view::npos) return raw;
  char* const begin = room.data();
  char* out = begin;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    char c = raw[i];
    if (c == '%') {
      if (raw.size() - i < 3) return malformed("cut escape in the query");
      const int high = hex_value(raw[i + 1]);
      const int low = hex_value(raw[i + 2]);
      if (high < 0 || low < 0) return malformed("escape in the query is not hex");
      c = static_cast<char>(high * 16 + low);
      if (is_control(c)) return malformed("control character in the query");
      i += 2;
    }
    *out++ = c;
  }
  const std::string_view text(begin, static_cast<std::size_t>(out - begin));
  if (!is_utf8(text)) return malformed("query is not UTF-8");
  room = room.subspan(text.size());
  return text;
}

}  // namespace

Result<Query> parse_query(std::string_view raw, std::span<char> buffer) noexcept {
  if (raw.size() > buffer.size()) return malformed("the query is too long");
  Query query;
  while (!raw.empty()) {
    const std::size_t end = raw.find('&');
    const std::string_view pair = raw.substr(0, end);
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos) return malformed("query parameter without =");
    TRY(const std::string_view name, decode(pair.substr(0, equals), buffer));
    TRY(const std::string_view value, decode(pair.substr(equals + 1), buffer));
    if (name.empty()) return malformed("query parameter without a name");
    if (query.find(name)) return malformed("repeated query parameter");
    if (query.count_ == Query::capacity) return malformed("too many query parameters");
    query.pairs_[query.count_++] = {name, value};
    if (end == std::string_view::npos) break;
    raw.remove_prefix(end + 1);
    if (raw.empty()) return malformed("query ends with &");
  }
  return query;
}

std::optional<std::string_view> Query::find(std::string_view name) const noexcept {
  for (const Pair& pair : *this)
    if (pair.name == name) return pair.value;
  return std::nullopt;
}

Result<> Query::allow_only(std::initializer_list<std::string_view> names) const noexcept {
  for (const Pair& pair : *this)
    if (std::ranges::find(names, pair.name) == names.end()) return malformed("unknown query parameter");
  return {};
}

}  // namespace cairn::http
