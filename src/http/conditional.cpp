#include "http/conditional.h"

#include "http/scan.h"

namespace cairn::http {
namespace {

enum class Match : std::uint8_t { yes, no, unreadable };

struct EntityTag {
  bool weak = false;
  std::string_view opaque;  // with its quotes
};

void skip_blanks(std::string_view& text) noexcept {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
}

// Takes one entity-tag off the front of `text`.
std::optional<EntityTag> take_tag(std::string_view& text) noexcept {
  EntityTag tag;
  if (text.starts_with("W/")) {
    tag.weak = true;
    text.remove_prefix(2);
  }
  if (!text.starts_with('"')) return std::nullopt;
  std::size_t end = 1;
  while (end < text.size() && text[end] != '"') {
    // Blanks are not allowed inside a tag; bytes above 0x7f are.
    if (text[end] == ' ' || is_control(text[end])) return std::nullopt;
    ++end;
  }
  if (end == text.size()) return std::nullopt;
  tag.opaque = text.substr(0, end + 1);
  text.remove_prefix(end + 1);
  return tag;
}

// One list of tags against ours, which is strong: comparing strongly only refuses the weak ones.
Match match_list(std::string_view list, std::string_view etag, bool weak_counts) noexcept {
  Match match = Match::no;
  bool any = false;
  for (;;) {
    skip_blanks(list);
    if (list.empty()) break;
    if (list.front() == ',') {
      list.remove_prefix(1);
      continue;
    }
    const auto tag = take_tag(list);
    if (!tag) return Match::unreadable;
    any = true;
    if (tag->opaque == etag && (weak_counts || !tag->weak)) match = Match::yes;
    skip_blanks(list);
    if (!list.empty() && list.front() != ',') return Match::unreadable;
  }
  return any ? match : Match::unreadable;
}

// All field lines of that name together are one list; `*` stands alone.
Match match_field(const Fields& fields, FieldName name, const Validators& current,
                  bool weak_counts) noexcept {
  if (fields.get(name) == "*" && !fields.repeated(name)) return current.exists ? Match::yes : Match::no;
  Match match = Match::no;
  fields.each(name, [&](std::string_view value) {
    const Match here = match_list(value, current.etag, weak_counts);
    if (here == Match::unreadable || match == Match::unreadable)
      match = Match::unreadable;
    else if (here == Match::yes)
      match = Match::yes;
    return true;
  });
  return match;
}

std::optional<WallTime> single_date(const Fields& fields, FieldName name) noexcept {
  if (!fields.has(name) || fields.repeated(name)) return std::nullopt;
  return parse_http_date(fields.get(name));
}

// Dates on the wire have whole seconds.
std::int64_t seconds(WallTime time) noexcept {
  return time.ms >= 0 ? time.ms / 1000 : (time.ms - 999) / 1000;
}

bool if_range_holds(const Fields& fields, const Validators& current) noexcept {
  if (!fields.has(FieldName::if_range)) return true;
  if (fields.repeated(FieldName::if_range)) return false;
  std::string_view value = fields.get(FieldName::if_range);
  if (value.starts_with('"') || value.starts_with("W/")) {
    const auto tag = take_tag(value);
    return tag && value.empty() && !tag->weak && tag->opaque == current.etag;
  }
  const auto date = parse_http_date(value);
  return date && current.last_modified && seconds(*current.last_modified) == seconds(*date);
}

}  // namespace

Verdict evaluate(const Fields& fields, Method method, const Validators& current) noexcept {
  const bool read = method == Method::get || method == Method::head;
  if (fields.has(FieldName::if_match)) {
    if (match_field(fields, FieldName::if_match, current, false) != Match::yes)
      return {Precondition::failed, false};
  } else if (const auto date = single_date(fields, FieldName::if_unmodified_since);
             date && current.last_modified) {
    if (seconds(*current.last_modified) > seconds(*date)) return {Precondition::failed, false};
  }
  if (fields.has(FieldName::if_none_match)) {
    const Match match = match_field(fields, FieldName::if_none_match, current, true);
    if (match == Match::yes && read) return {Precondition::not_modified, false};
    if (match != Match::no && !read) return {Precondition::failed, false};
  } else if (const auto date = single_date(fields, FieldName::if_modified_since);
             read && date && current.last_modified) {
    if (seconds(*current.last_modified) <= seconds(*date)) return {Precondition::not_modified, false};
  }
  const bool ranged = method == Method::get && current.exists && fields.has(FieldName::range) &&
                      !fields.repeated(FieldName::range);
  return {Precondition::proceed, ranged && if_range_holds(fields, current)};
}

WriteConditions keep_conditions(const Fields& fields) {
  const auto joined = [&](FieldName name) {
    std::optional<std::string> list;
    fields.each(name, [&](std::string_view value) {
      list = list ? *list + ',' + std::string(value) : std::string(value);
      return true;
    });
    return list;
  };
  return {joined(FieldName::if_match), joined(FieldName::if_none_match)};
}

bool allows(const WriteConditions& conditions, const Validators& current) noexcept {
  const auto match = [&](const std::string& list, bool weak_counts) {
    if (list == "*") return current.exists ? Match::yes : Match::no;
    return match_list(list, current.etag, weak_counts);
  };
  if (conditions.if_match && match(*conditions.if_match, false) != Match::yes) return false;
  return !conditions.if_none_match || match(*conditions.if_none_match, true) == Match::no;
}

}  // namespace cairn::http
