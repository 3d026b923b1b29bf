#include "http/route.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "http/scan.h"

namespace cairn::http {
namespace {

constexpr CharacterSet name_characters = character_set("abcdefghijklmnopqrstuvwxyz0123456789._-");
constexpr CharacterSet id_characters =
    character_set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");

bool all_of(std::string_view text, const CharacterSet& set) noexcept {
  for (char c : text)
    if (!set[static_cast<unsigned char>(c)]) return false;
  return true;
}

bool parse_number(std::string_view text, std::uint64_t& number) noexcept {
  if (text.empty() || (text.size() > 1 && text.front() == '0')) return false;
  std::uint64_t value = 0;
  for (char c : text) {
    if (!is_digit(c)) return false;
    if (__builtin_mul_overflow(value, std::uint64_t{10}, &value)) return false;
    if (__builtin_add_overflow(value, static_cast<std::uint64_t>(c - '0'), &value)) return false;
  }
  number = value;
  return true;
}

#if defined(__SSE2__)
// 64 hex digits of either case. The general parser of base takes longer than the rest of a match.
bool parse_digits(const char* text, std::byte* out) noexcept {
  const __m128i zero = _mm_set1_epi8('0');
  __m128i bad = _mm_setzero_si128();
  for (int i = 0; i < 4; ++i) {
    const __m128i c = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text + 16 * i));
    const __m128i digit = _mm_sub_epi8(c, zero);
    const __m128i letter = _mm_sub_epi8(_mm_or_si128(c, _mm_set1_epi8(0x20)), _mm_set1_epi8('a'));
    const __m128i is_digit = _mm_cmpeq_epi8(_mm_min_epu8(digit, _mm_set1_epi8(9)), digit);
    const __m128i is_letter = _mm_cmpeq_epi8(_mm_min_epu8(letter, _mm_set1_epi8(5)), letter);
    bad = _mm_or_si128(bad, _mm_cmpeq_epi8(_mm_or_si128(is_digit, is_letter), _mm_setzero_si128()));
    const __m128i nibbles = _mm_or_si128(_mm_and_si128(is_digit, digit),
                                         _mm_and_si128(is_letter, _mm_add_epi8(letter, _mm_set1_epi8(10))));
    // In each pair of bytes the first digit is the high nibble.
    const __m128i pairs = _mm_and_si128(_mm_or_si128(_mm_slli_epi16(nibbles, 4), _mm_srli_epi16(nibbles, 8)),
                                        _mm_set1_epi16(0xff));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(out + 8 * i), _mm_packus_epi16(pairs, pairs));
  }
  return _mm_movemask_epi8(bad) == 0;
}
#endif

bool parse_address_to(std::string_view text, Address& address) noexcept {
#if defined(__SSE2__)
  return text.size() == 67 && std::memcmp(text.data(), "b3:", 3) == 0 &&
         parse_digits(text.data() + 3, address.bytes.data());
#else
  const auto parsed = parse_address(text);
  if (parsed) address = *parsed;
  return parsed.has_value();
#endif
}

}  // namespace

std::string_view format_allow(MethodSet methods, std::span<char> out) noexcept {
  CHECK(out.size() >= allow_size_max);
  char* at = out.data();
  for (std::size_t i = 0; i < method_count; ++i) {
    if (!methods.has(static_cast<Method>(i))) continue;
    if (at != out.data()) at = std::copy_n(", ", 2, at);
    at = std::copy(method_names[i].begin(), method_names[i].end(), at);
  }
  return {out.data(), static_cast<std::size_t>(at - out.data())};
}

RouteTable::RouteTable(std::span<const Route> routes) {
  nodes_.emplace_back();
  for (const Route& route : routes) add(route);
}

RouteTable::Kind RouteTable::kind_of(std::string_view segment) {
  if (!segment.starts_with('{')) {
    CHECK(segment.find_first_of("{}") == std::string_view::npos);
    return Kind::none;
  }
  const std::size_t colon = segment.find(':');
  CHECK(segment.ends_with('}') && colon != std::string_view::npos);
  const std::string_view kind = segment.substr(colon + 1, segment.size() - colon - 2);
  if (kind == "Address") return Kind::address;
  if (kind == "Name") return Kind::name;
  if (kind == "Id") return Kind::id;
  if (kind == "Int") return Kind::integer;
  if (kind == "Segment") return Kind::segment;
  CHECK(kind == "Rest");
  return Kind::rest;
}

std::uint16_t RouteTable::literal_child(std::uint16_t node, std::string_view text) {
  for (const Edge& edge : nodes_[node].literals)
    if (edge.text == text) return edge.child;
  const auto child = static_cast<std::uint16_t>(nodes_.size());
  nodes_.emplace_back();
  nodes_[node].literals.push_back({text, child});
  return child;
}

std::uint16_t RouteTable::parameter_child(std::uint16_t node, Kind kind) {
  if (nodes_[node].parameter == Kind::none) {
    const auto child = static_cast<std::uint16_t>(nodes_.size());
    nodes_.emplace_back();
    nodes_[node].parameter = kind;
    nodes_[node].parameter_child = child;
  }
  CHECK(nodes_[node].parameter == kind);
  return nodes_[node].parameter_child;
}

void RouteTable::add(const Route& route) {
  CHECK(route.pattern.starts_with('/') && !route.methods.empty());
  std::string_view rest = route.pattern.substr(1);
  std::uint16_t node = 0;
  std::size_t parameters = 0;
  std::size_t addresses = 0;
  for (bool last = false; !last;) {
    const std::size_t slash = rest.find('/');
    last = slash == std::string_view::npos;
    const std::string_view segment = rest.substr(0, slash);
    const Kind kind = kind_of(segment);
    CHECK(kind != Kind::rest || last);
    node = kind == Kind::none ? literal_child(node, segment) : parameter_child(node, kind);
    parameters += kind != Kind::none;
    addresses += kind == Kind::address;
    if (!last) rest.remove_prefix(slash + 1);
  }
  CHECK(parameters <= RouteMatch::params_max && addresses <= 1);
  Node& end = nodes_[node];
  for (std::size_t i = 0; i < method_count; ++i) {
    if (!route.methods.has(static_cast<Method>(i))) continue;
    CHECK(!end.allow.has(static_cast<Method>(i)));
    end.by_method[i] = route.id;
  }
  end.allow = end.allow | route.methods;
}

inline bool RouteTable::parse_parameter(Kind kind, std::string_view text, RouteMatch& match) noexcept {
  RouteMatch::Param& param = match.at[match.count++];
  param.text = text;
  switch (kind) {
    case Kind::address:
      return parse_address_to(text, match.address);
    case Kind::integer:
      return parse_number(text, param.number);
    case Kind::name:
      return !text.empty() && text.size() <= 128 && all_of(text, name_characters) && text.front() != '.' &&
             text.front() != '_' && text.front() != '-';
    case Kind::id:
      return !text.empty() && text.size() <= 64 && all_of(text, id_characters);
    case Kind::segment:
      return !text.empty();
    case Kind::rest:
    case Kind::none:
      break;
  }
  return true;
}

RouteMatch RouteTable::match(std::string_view path, Method method) const noexcept {
  RouteMatch match;
  if (!path.starts_with('/')) return match;
  const char* p = path.data() + 1;
  const char* const end = path.data() + path.size();
  const Node* node = nodes_.data();
  for (;;) {
    const auto left = static_cast<std::size_t>(end - p);
    const auto* slash = left == 0 ? nullptr : static_cast<const char*>(std::memchr(p, '/', left));
    const std::string_view segment(p, static_cast<std::size_t>((slash == nullptr ? end : slash) - p));
    const Node* next = nullptr;
    for (const Edge& edge : node->literals)
      if (edge.text == segment) {
        next = &nodes_[edge.child];
        break;
      }
    if (next == nullptr) {
      if (node->parameter == Kind::none) return match;
      if (node->parameter == Kind::rest) {
        if (left == 0) return match;
        match.at[match.count++].text = {p, left};
        slash = nullptr;
      } else if (!parse_parameter(node->parameter, segment, match)) {
        match.outcome = RouteMatch::Outcome::malformed;
        return match;
      }
      next = &nodes_[node->parameter_child];
    }
    node = next;
    if (slash == nullptr) break;
    p = slash + 1;
  }
  if (node->allow.empty()) return match;
  match.allow = node->allow;
  match.id = node->by_method[static_cast<std::size_t>(method)];
  match.outcome =
      node->allow.has(method) ? RouteMatch::Outcome::matched : RouteMatch::Outcome::method_not_allowed;
  return match;
}

}  // namespace cairn::http
