#include "config/value.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <optional>

#include "base/check.h"
#include "base/utf8.h"

namespace cairn::config {
namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};

using Converted = std::expected<Value, std::string>;
std::unexpected<std::string> rule(std::string text) { return std::unexpected(std::move(text)); }

bool is_clean(std::string_view text) noexcept {
  return is_utf8(text) && std::ranges::none_of(text, [](char c) {
           return (static_cast<unsigned char>(c) < 0x20) || c == 0x7f;
         });
}

template <class T>
std::optional<T> parse_number(std::string_view text) noexcept {
  T number{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// The text of a raw value, if it is one.
const std::string* text_of(const Raw& raw) noexcept {
  if (const auto* text = std::get_if<Text>(&raw)) return &text->text;
  return std::get_if<std::string>(&raw);
}

// A TOML number, or a number written out in a flag or a variable; a TOML string is never a number.
std::optional<std::int64_t> integer_of(const Raw& raw) noexcept {
  if (const auto* number = std::get_if<std::int64_t>(&raw)) return *number;
  if (const auto* text = std::get_if<Text>(&raw)) return parse_number<std::int64_t>(text->text);
  return std::nullopt;
}

Converted to_boolean(const Raw& raw) {
  if (const auto* flag = std::get_if<bool>(&raw)) return *flag;
  if (const auto* text = std::get_if<Text>(&raw); text && (text->text == "true" || text->text == "false"))
    return text->text == "true";
  return rule("must be true or false");
}

Converted to_integer(const Raw& raw) {
  if (const auto number = integer_of(raw)) return *number;
  return rule("must be a whole number");
}

Converted to_real(const Raw& raw) {
  std::optional<double> number;
  if (const auto* real = std::get_if<double>(&raw)) number = *real;
  if (const auto* whole = std::get_if<std::int64_t>(&raw)) number = static_cast<double>(*whole);
  if (const auto* text = std::get_if<Text>(&raw)) number = parse_number<double>(text->text);
  if (number && std::isfinite(*number)) return *number;
  return rule("must be a number");
}

Converted to_duration(const Raw& raw, Unit unit) {
  if (unit != Unit::same) {
    const std::int64_t factor = unit == Unit::seconds ? 1'000'000'000 : 1'000'000;
    const auto number = integer_of(raw);
    std::int64_t ns = 0;
    if (number && *number >= 0 && !__builtin_mul_overflow(*number, factor, &ns)) return Duration{ns};
    return rule(unit == Unit::seconds ? "must be a whole number of seconds"
                                      : "must be a whole number of milliseconds");
  }
  if (const auto* text = text_of(raw))
    if (const auto duration = parse_duration(*text)) return *duration;
  return rule("must be a duration such as 250ms, 5s, 1m, 2h or 30d");
}

// A plain number counts bytes: the keys of this type say `bytes` in their name.
Converted to_bytes(const Raw& raw) {
  if (const auto number = integer_of(raw); number && *number >= 0)
    return Bytes{static_cast<std::uint64_t>(*number)};
  if (const auto* text = text_of(raw))
    if (const auto bytes = parse_bytes(*text)) return *bytes;
  return rule("must be a size such as 512B, 64KiB, 1MiB or 2GiB");
}

Converted to_rate(const Raw& raw) {
  if (const auto* text = text_of(raw))
    if (const auto rate = parse_rate(*text)) return *rate;
  return rule("must be a rate such as 50MiB/s");
}

Converted to_string(const Raw& raw) {
  const auto* text = text_of(raw);
  if (text == nullptr) return rule("must be a text");
  if (!is_clean(*text)) return rule("must be UTF-8 without control characters");
  return *text;
}

Converted to_list(const Raw& raw) {
  std::vector<std::string> list;
  if (const auto* given = std::get_if<std::vector<std::string>>(&raw)) {
    list = *given;
  } else if (const auto* text = std::get_if<Text>(&raw)) {
    std::string_view rest = text->text;
    while (!rest.empty()) {
      const std::size_t comma = std::min(rest.find(','), rest.size());
      list.emplace_back(rest.substr(0, comma));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
  } else {
    return rule("must be a list of texts");
  }
  if (!std::ranges::all_of(list, is_clean)) return rule("must be UTF-8 without control characters");
  return list;
}

Converted to_choice(const Raw& raw, const std::vector<std::string>& choices) {
  if (const auto* text = text_of(raw)) {
    const auto found = std::ranges::find(choices, *text);
    if (found != choices.end()) return Choice{static_cast<std::uint32_t>(found - choices.begin())};
  }
  return rule(fmt::format("must be one of {}", fmt::join(choices, ", ")));
}

void append_escaped(std::string& out, std::string_view text) {
  for (const char c : text) {
    if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
    else
      out += c;
  }
}

std::string quote_list(const std::vector<std::string>& list) {
  std::string out = "[";
  for (const std::string& item : list) {
    if (out.size() > 1) out += ", ";
    out += quote(item);
  }
  return out + "]";
}

}  // namespace

Converted convert(const Raw& raw, Type type, const std::vector<std::string>& choices, Unit unit) {
  switch (type) {
    case Type::boolean:
      return to_boolean(raw);
    case Type::integer:
      return to_integer(raw);
    case Type::duration:
      return to_duration(raw, unit);
    case Type::bytes:
      return to_bytes(raw);
    case Type::rate:
      return to_rate(raw);
    case Type::real:
      return to_real(raw);
    case Type::string:
      return to_string(raw);
    case Type::list:
      return to_list(raw);
    case Type::choice:
      return to_choice(raw, choices);
  }
  CHECK(false);
  return rule("");
}

int compare(const Value& a, const Value& b) {
  CHECK(a.index() == b.index());
  return std::visit(
      [&]<class T>(const T& left) {
        if constexpr (requires { left <=> left; } && !std::same_as<T, bool>) {
          const T& right = std::get<T>(b);
          return left < right ? -1 : right < left ? 1 : 0;
        } else {
          CHECK(false);
          return 0;
        }
      },
      a);
}

std::string quote(std::string_view text) {
  std::string out = "\"";
  append_escaped(out, text);
  return out + "\"";
}

std::string format_value(const Value& value, const std::vector<std::string>& choices) {
  return std::visit(
      Overloaded{[](bool v) -> std::string { return v ? "true" : "false"; },
                 [](std::int64_t v) { return fmt::format("{}", v); },
                 [](Duration v) { return format_duration(v); }, [](Bytes v) { return format_bytes(v); },
                 [](Rate v) { return format_rate(v); }, [](double v) { return fmt::format("{}", v); },
                 [](const std::string& v) { return v; },
                 [](const std::vector<std::string>& v) { return fmt::format("{}", fmt::join(v, ",")); },
                 [&](Choice v) { return choices.at(v.index); }},
      value);
}

std::string format_toml(const Value& value, const std::vector<std::string>& choices) {
  switch (type_of(value)) {
    case Type::boolean:
    case Type::integer:
    case Type::real:
      return format_value(value, choices);
    case Type::list:
      return quote_list(std::get<std::vector<std::string>>(value));
    default:
      return quote(format_value(value, choices));
  }
}

// The TOML form is valid JSON too: quoted texts, arrays of them, and plain numbers.
std::string format_json(const Value& value, const std::vector<std::string>& choices) {
  return format_toml(value, choices);
}

std::string format_raw(const Raw& raw) {
  constexpr std::size_t longest = 80;
  std::string text = std::visit(
      Overloaded{[](const Text& v) { return quote(v.text); },
                 [](bool v) -> std::string { return v ? "true" : "false"; },
                 [](std::int64_t v) { return fmt::format("{}", v); },
                 [](double v) { return fmt::format("{}", v); }, [](const std::string& v) { return quote(v); },
                 [](const std::vector<std::string>& v) { return quote_list(v); },
                 [](const Unsupported& v) { return v.what; }},
      raw);
  if (text.size() > longest) text = text.substr(0, longest) + "...";
  return text;
}

}  // namespace cairn::config
