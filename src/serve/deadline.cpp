#include "serve/deadline.h"

#include <algorithm>

namespace cairn::serve {
namespace {

// Digits with an optional fraction, as milliseconds. The result is at most one day.
std::optional<std::int64_t> parse_seconds_ms(std::string_view text) noexcept {
  constexpr std::int64_t day_ms = 86'400'000;
  std::int64_t ms = 0;
  std::size_t at = 0;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at)
    ms = std::min(day_ms, ms * 10 + (text[at] - '0') * 1000);
  if (at == 0) return std::nullopt;
  if (at == text.size()) return ms;
  if (text[at++] != '.') return std::nullopt;
  for (std::int64_t scale = 100; at < text.size(); ++at, scale /= 10) {
    if (text[at] < '0' || text[at] > '9') return std::nullopt;
    ms += (text[at] - '0') * scale;
  }
  return ms;
}

}  // namespace

Instant request_deadline(const http::Fields& fields, Instant now, WallTime wall, Duration longest) noexcept {
  std::int64_t ms = longest.to_millis();
  if (auto text = fields.find(http::FieldName::request_timeout))
    if (auto asked = parse_seconds_ms(*text)) ms = std::min(ms, *asked);
  if (auto text = fields.find(http::FieldName::x_deadline_ms))
    if (auto asked = http::parse_content_length(*text))
      ms = static_cast<std::int64_t>(std::min<std::uint64_t>(static_cast<std::uint64_t>(ms), *asked));
  if (auto text = fields.find(http::FieldName::deadline))
    if (auto until = parse_rfc3339(*text)) ms = std::min(ms, std::max<std::int64_t>(0, until->ms - wall.ms));
  return now + Duration::millis(ms);
}

}  // namespace cairn::serve
