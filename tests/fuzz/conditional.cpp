// Preconditions against the table of RFC 9110 section 13.2.2, written as the sentences of that section.
#include <string>
#include <vector>

#include "fuzz/grammar.h"
#include "fuzz/splits.h"
#include "http/conditional.h"
#include "http/h1/parser.h"

namespace cairn {
namespace {

struct Tag {
  bool weak;
  std::string text;
};

// All lines of a field as one list; nothing when it is not `*` or a list of tags.
struct Tags {
  bool any = false;
  bool readable = true;
  std::vector<Tag> list;
};

Tags read_tags(const std::vector<std::string>& lines) {
  Tags tags;
  if (lines.size() == 1 && lines[0] == "*") {
    tags.any = true;
    return tags;
  }
  for (const std::string& line : lines) {
    const std::size_t before = tags.list.size();
    bool need_comma = false;
    for (std::size_t i = 0; i < line.size();) {
      if (line[i] == ' ' || line[i] == '\t') {
        ++i;
      } else if (line[i] == ',') {
        need_comma = false;
        ++i;
      } else {
        Tag tag{line.compare(i, 2, "W/") == 0, ""};
        if (tag.weak) i += 2;
        const std::size_t close =
            i < line.size() && line[i] == '"' ? line.find('"', i + 1) : std::string::npos;
        if (need_comma || close == std::string::npos) {
          tags.readable = false;
          return tags;
        }
        tag.text = line.substr(i, close - i + 1);
        for (char c : tag.text)
          if (c == ' ' || c == '\t') tags.readable = false;
        tags.list.push_back(tag);
        need_comma = true;
        i = close + 1;
      }
    }
    if (tags.list.size() == before) tags.readable = false;
  }
  return tags;
}

bool matches(const Tags& tags, const http::Validators& current, bool weakly) {
  if (tags.any) return current.exists;
  if (!tags.readable) return false;
  for (const Tag& tag : tags.list)
    if (tag.text == current.etag && (weakly || !tag.weak)) return true;
  return false;
}

struct Case {
  std::vector<std::pair<std::string, std::string>> fields;
  std::vector<std::string> lines(std::string_view name) const {
    std::vector<std::string> found;
    for (const auto& [n, v] : fields)
      if (grammar::to_lower(n) == name) found.push_back(v);
    return found;
  }
  std::optional<std::int64_t> date(std::string_view name) const {
    const auto found = lines(name);
    if (found.size() != 1) return std::nullopt;
    const auto time = parse_http_date(found[0]);
    return time ? std::optional(time->ms) : std::nullopt;
  }
};

http::Verdict expected(const Case& c, http::Method method, const http::Validators& current) {
  using http::Precondition;
  const bool get_or_head = method == http::Method::get || method == http::Method::head;
  std::optional<std::int64_t> modified;
  if (current.last_modified) modified = current.last_modified->ms - current.last_modified->ms % 1000;
  // 1, 2
  if (!c.lines("if-match").empty()) {
    if (!matches(read_tags(c.lines("if-match")), current, false)) return {Precondition::failed, false};
  } else if (auto date = c.date("if-unmodified-since"); date && modified && *modified > *date) {
    return {Precondition::failed, false};
  }
  // 3, 4
  if (!c.lines("if-none-match").empty()) {
    const Tags tags = read_tags(c.lines("if-none-match"));
    if (get_or_head && tags.readable && matches(tags, current, true))
      return {Precondition::not_modified, false};
    if (!get_or_head && (!tags.readable || matches(tags, current, true)))
      return {Precondition::failed, false};
  } else if (auto date = c.date("if-modified-since"); get_or_head && date && modified && *modified <= *date) {
    return {Precondition::not_modified, false};
  }
  // 5
  bool range = method == http::Method::get && current.exists && c.lines("range").size() == 1;
  const auto if_range = c.lines("if-range");
  if (!if_range.empty()) {
    const bool same_tag = if_range.size() == 1 && !current.etag.empty() && if_range[0] == current.etag;
    const bool same_date = c.date("if-range") && modified && *c.date("if-range") == *modified;
    range = range && (same_tag || same_date);
  }
  return {Precondition::proceed, range};
}

const char* const names[] = {"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since",
                             "If-Range", "Range"};
const char* const values[] = {"\"a\"",
                              "\"b\"",
                              "W/\"a\"",
                              "*",
                              "\"b\", \"a\"",
                              "\"b\",,W/\"a\" ,",
                              "a",
                              "\"a",
                              "",
                              "Sun, 06 Nov 1994 08:49:37 GMT",
                              "Sun, 06 Nov 1994 08:49:38 GMT",
                              "Sun, 06 Nov 1994 08:49:36 GMT",
                              "yesterday",
                              "bytes=0-1",
                              "*, \"a\"",
                              "\"a\" \"b\""};

}  // namespace
}  // namespace cairn

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cairn;
  if (size < 3) return 0;
  const auto method = static_cast<http::Method>(data[0] % 7);
  http::Validators current;
  current.exists = (data[1] & 1) != 0;
  if (current.exists && (data[1] & 2) != 0) current.etag = "\"a\"";
  if (current.exists && (data[1] & 4) != 0)
    current.last_modified = WallTime{784111777000 + (data[1] & 8 ? 500 : 0)};

  // Fields from the table, then one with the rest of the input as it is.
  std::string head = "GET / HTTP/1.1\r\nHost: a\r\n";
  std::size_t at = 2;
  for (; at + 1 < size && (data[at] & 0x80) == 0; at += 2)
    head += std::string(names[data[at] % std::size(names)]) + ": " +
            values[data[at + 1] % std::size(values)] + "\r\n";
  if (at + 1 < size)
    head += std::string(names[data[at] % std::size(names)]) + ": " +
            std::string(reinterpret_cast<const char*>(data) + at + 1, size - at - 1) + "\r\n";
  head += "\r\n";

  const auto message = grammar::Reader(head, 0, {}).read();
  http::RequestParser parser;
  const auto parsed = parser.parse(head);
  if (message.verdict != grammar::Verdict::accepted || parsed.progress != http::Progress::complete) return 0;
  const http::Verdict got = http::evaluate(parser.head.fields, method, current);
  const http::Verdict want = expected({message.fields}, method, current);
  fuzz::require(got.outcome == want.outcome, "outcome");
  fuzz::require(got.range_applies == want.range_applies, "range applies");
  return 0;
}
