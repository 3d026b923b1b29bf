// Query against a reading of its rules by whole strings: split, decode, then look for what is forbidden.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fuzz/grammar.h"
#include "fuzz/splits.h"
#include "http/query.h"

namespace cairn {
namespace {

std::optional<std::string> decode(const std::string& raw) {
  std::string text;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    const int c = static_cast<unsigned char>(raw[i]);
    if (c <= ' ' || c >= 127 || std::string_view("\"<>#\\^`{|}").contains(raw[i])) return std::nullopt;
    if (c != '%') {
      text += raw[i];
      continue;
    }
    if (i + 2 >= raw.size() || !grammar::is_hex(raw[i + 1]) || !grammar::is_hex(raw[i + 2]))
      return std::nullopt;
    const int value = std::stoi(raw.substr(i + 1, 2), nullptr, 16);
    if (value < 32 || value == 127) return std::nullopt;
    text += static_cast<char>(value);
    i += 2;
  }
  return grammar::is_utf8(text) ? std::optional(text) : std::nullopt;
}

using Pairs = std::vector<std::pair<std::string, std::string>>;

std::optional<Pairs> read(const std::string& raw) {
  Pairs pairs;
  if (raw.empty()) return pairs;
  std::vector<std::string> pieces(1);
  for (const char c : raw) {
    if (c == '&')
      pieces.emplace_back();
    else
      pieces.back() += c;
  }
  if (pieces.size() > http::Query::capacity) return std::nullopt;
  std::map<std::string, int> seen;
  for (const std::string& piece : pieces) {
    const std::size_t equals = piece.find('=');
    if (equals == std::string::npos) return std::nullopt;
    const auto name = decode(piece.substr(0, equals));
    const auto value = decode(piece.substr(equals + 1));
    if (!name || !value || name->empty() || ++seen[*name] > 1) return std::nullopt;
    pairs.emplace_back(*name, *value);
  }
  return pairs;
}

void check(const std::string& raw) {
  const fuzz::Exact input(raw);
  const std::unique_ptr<char[]> room(new char[raw.size()]);  // exactly what the contract asks for
  const Result<http::Query> query = http::parse_query(input.view(), {room.get(), raw.size()});
  const std::optional<Pairs> oracle = read(raw);
  fuzz::require(query.has_value() == oracle.has_value(), "verdict");
  if (!query) {
    fuzz::require(query.error().code == ErrorCode::malformed && query.error().side == Side::client, "error");
    return;
  }
  fuzz::require(query->size() == oracle->size(), "count");
  const http::Query::Pair* pair = query->begin();
  for (const auto& [name, value] : *oracle) {
    fuzz::require(pair->name == name && pair->value == value, "pair");
    fuzz::require(query->find(name) == value, "find");
    ++pair;
  }
  fuzz::require(query->allow_only({}).has_value() == oracle->empty(), "allow_only");
}

}  // namespace
}  // namespace cairn

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string raw(reinterpret_cast<const char*>(data), size);
  cairn::check(raw);
  // The bytes as pairs over a small alphabet: nearly always grammatical.
  constexpr std::string_view letters[] = {"a",   "b", "%61", "%C3%A9", "+",   "1",   "=",
                                          "%26", "%", "%0",  "&",      "%00", "a=1", "&b="};
  std::string likely = "n=";
  for (std::size_t i = 0; i < size && i < 200; ++i) likely += letters[data[i] % std::size(letters)];
  cairn::check(likely);
  return 0;
}
