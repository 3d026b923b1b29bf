// Forwarded against a reading of RFC 7239 that first cuts the text at every comma and semicolon outside of
// quotes. What is read is then written, and read again.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "fuzz/grammar.h"
#include "fuzz/splits.h"
#include "http/forwarded.h"

namespace cairn {
namespace {

// The parts between separators; nothing where quotes do not close.
std::optional<std::vector<std::string>> cut(const std::string& text, char at) {
  std::vector<std::string> parts(1);
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\') {
      if (i + 1 == text.size()) return std::nullopt;
      parts.back() += c;
      parts.back() += text[++i];
      continue;
    }
    if (c == '"') quoted = !quoted;
    if (c == at && !quoted)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  if (quoted) return std::nullopt;
  return parts;
}

std::string trim(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t") + 1 - first);
}

bool is_token(const std::string& text) {
  return !text.empty() && text.find_first_not_of(
                              "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
                              "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == std::string::npos;
}

// A token, or a string whose quotes close at its end and nowhere before.
bool is_value(const std::string& text) {
  if (is_token(text)) return true;
  if (text.size() < 2 || text.front() != '"' || text.back() != '"') return false;
  for (std::size_t i = 1; i + 1 < text.size(); ++i) {
    if (text[i] == '"') return false;
    if (text[i] == '\\' && ++i + 1 == text.size()) return false;
  }
  return true;
}

// Whether the list has the form of one; not whether its addresses are any.
bool is_list(const std::string& line) {
  const auto elements = cut(line, ',');
  if (!elements) return false;
  for (const std::string& element : *elements) {
    const auto pairs = cut(trim(element), ';');
    if (!pairs) return false;
    std::vector<std::string> names;
    for (const std::string& pair : *pairs) {
      const std::size_t equals = pair.find('=');
      if (equals == std::string::npos || !is_token(pair.substr(0, equals)) ||
          !is_value(pair.substr(equals + 1)))
        return false;
      const std::string name = grammar::to_lower(pair.substr(0, equals));
      const bool known = name == "for" || name == "by" || name == "host" || name == "proto";
      if (known && std::ranges::find(names, name) != names.end()) return false;
      names.push_back(name);
    }
  }
  return true;
}

void check(const std::string& line) {
  const fuzz::Exact input(line);
  const auto read = http::parse_forwarded(input.view());
  if (!is_list(line)) {
    fuzz::require(!read, "what is no list was read");
    return;
  }
  if (!read || !read->client) return;
  http::ForwardedText room;
  const std::string_view text =
      http::format_forwarded(*read->client, read->host, read->encrypted.value_or(false), room);
  const auto again = http::parse_forwarded(text);
  fuzz::require(again.has_value(), "what was written cannot be read");
  io::PeerAddress client = *read->client;
  client.port = 0;
  fuzz::require(again->client && *again->client == client, "another client");
  fuzz::require(again->host == read->host || read->host.size() > 300, "another host");
  fuzz::require(again->encrypted == read->encrypted.value_or(false), "another scheme");
}

}  // namespace
}  // namespace cairn

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  cairn::check(text);
  cairn::check("for=" + text);
  cairn::check("for=\"" + text + "\"");
  cairn::check("for=192.0.2.1;" + text);
  cairn::check("for=192.0.2.1, " + text);
  return 0;
}
