#include "base/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstring>
#include <span>

namespace cairn {
namespace {

struct Unit {
  std::string_view suffix;
  std::uint64_t factor;
};

constexpr Unit duration_units[] = {{"ns", 1},
                                   {"us", 1'000},
                                   {"ms", 1'000'000},
                                   {"s", 1'000'000'000},
                                   {"m", 60ull * 1'000'000'000},
                                   {"h", 3600ull * 1'000'000'000},
                                   {"d", 86400ull * 1'000'000'000}};
constexpr Unit size_units[] = {{"B", 1},           {"KB", 1000},        {"KiB", 1ull << 10},
                               {"MB", 1'000'000},  {"MiB", 1ull << 20}, {"GB", 1'000'000'000},
                               {"GiB", 1ull << 30}};

std::optional<std::uint64_t> parse_with(std::span<const Unit> units, std::string_view text) noexcept {
  std::uint64_t number = 0;
  auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc{} || end == text.data()) return std::nullopt;
  std::string_view suffix = text.substr(static_cast<std::size_t>(end - text.data()));
  for (const Unit& unit : units) {
    if (unit.suffix != suffix) continue;
    std::uint64_t value = 0;
    if (__builtin_mul_overflow(number, unit.factor, &value)) return std::nullopt;
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())) return std::nullopt;
    return value;
  }
  return std::nullopt;
}

// Largest unit that divides the value; decimal sizes are never chosen for output.
std::string format_with(std::span<const Unit> units, std::uint64_t value, bool binary_only) {
  const Unit* best = &units[0];
  for (const Unit& unit : units)
    if ((!binary_only || unit.factor == 1 || unit.suffix.find('i') != std::string_view::npos) && value != 0 &&
        value % unit.factor == 0)
      best = &unit;
  return fmt::format("{}{}", value / best->factor, best->suffix);
}

// Days since 1970-01-01 of a proleptic Gregorian date (Howard Hinnant's closed form, restated).
constexpr std::int64_t days_from_civil(std::int64_t y, unsigned m, unsigned d) noexcept {
  y -= m <= 2;
  const std::int64_t era = (y >= 0 ? y : y - 399) / 400;
  const auto yoe = static_cast<unsigned>(y - era * 400);
  const unsigned doy = (153 * (m > 2 ? m - 3 : m + 9) + 2) / 5 + d - 1;
  const unsigned doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
  return era * 146097 + static_cast<std::int64_t>(doe) - 719468;
}

struct Civil {
  std::int64_t year;
  unsigned month, day;
};

constexpr Civil civil_from_days(std::int64_t z) noexcept {
  z += 719468;
  const std::int64_t era = (z >= 0 ? z : z - 146096) / 146097;
  const auto doe = static_cast<unsigned>(z - era * 146097);
  const unsigned yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
  const unsigned doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
  const unsigned mp = (5 * doy + 2) / 153;
  const unsigned d = doy - (153 * mp + 2) / 5 + 1;
  const unsigned m = mp < 10 ? mp + 3 : mp - 9;
  return {static_cast<std::int64_t>(yoe) + era * 400 + (m <= 2), m, d};
}

constexpr unsigned days_in_month(std::int64_t year, unsigned month) noexcept {
  constexpr unsigned days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  return month == 2 && leap ? 29 : days[month - 1];
}

// Exactly `width` digits at `at`.
std::optional<unsigned> digits(std::string_view text, std::size_t at, std::size_t width) noexcept {
  if (at + width > text.size()) return std::nullopt;
  unsigned value = 0;
  for (std::size_t i = at; i < at + width; ++i) {
    if (text[i] < '0' || text[i] > '9') return std::nullopt;
    value = value * 10 + static_cast<unsigned>(text[i] - '0');
  }
  return value;
}

struct Fields {
  std::optional<unsigned> year, month, day, hour, minute, second;
};

std::optional<WallTime> wall_time(const Fields& f) noexcept {
  if (!f.year || !f.month || !f.day || !f.hour || !f.minute || !f.second) return std::nullopt;
  if (*f.month < 1 || *f.month > 12 || *f.day < 1 || *f.day > days_in_month(*f.year, *f.month))
    return std::nullopt;
  if (*f.hour > 23 || *f.minute > 59 || *f.second > 59) return std::nullopt;
  const std::int64_t seconds =
      days_from_civil(*f.year, *f.month, *f.day) * 86400 + *f.hour * 3600 + *f.minute * 60 + *f.second;
  return WallTime{seconds * 1000};
}

constexpr std::string_view month_names = "JanFebMarAprMayJunJulAugSepOctNovDec";
constexpr std::string_view day_names = "ThuFriSatSunMonTueWed";  // 1970-01-01 was a Thursday

struct Clock24 {
  Civil date;
  unsigned weekday, hour, minute, second, milli;
};

Clock24 split(WallTime time) noexcept {
  std::int64_t days = time.ms / 86'400'000;
  std::int64_t rest = time.ms % 86'400'000;
  if (rest < 0) {
    rest += 86'400'000;
    --days;
  }
  const auto weekday = static_cast<unsigned>(((days % 7) + 7) % 7);
  const auto r = static_cast<unsigned>(rest);
  return {civil_from_days(days), weekday, r / 3'600'000, r / 60'000 % 60, r / 1000 % 60, r % 1000};
}

}  // namespace

std::optional<Duration> parse_duration(std::string_view text) noexcept {
  auto value = parse_with(duration_units, text);
  if (!value) return std::nullopt;
  return Duration{static_cast<std::int64_t>(*value)};
}

std::optional<Bytes> parse_bytes(std::string_view text) noexcept {
  auto value = parse_with(size_units, text);
  if (!value) return std::nullopt;
  return Bytes{*value};
}

std::optional<Rate> parse_rate(std::string_view text) noexcept {
  if (!text.ends_with("/s")) return std::nullopt;
  auto value = parse_bytes(text.substr(0, text.size() - 2));
  if (!value) return std::nullopt;
  return Rate{value->count};
}

std::string format_duration(Duration duration) {
  if (duration.ns == 0) return "0s";
  return format_with(duration_units, static_cast<std::uint64_t>(duration.ns), false);
}
std::string format_bytes(Bytes bytes) { return format_with(size_units, bytes.count, true); }
std::string format_rate(Rate rate) { return format_bytes({rate.bytes_per_second}) + "/s"; }

std::optional<WallTime> parse_rfc3339(std::string_view text) noexcept {
  if (text.size() < 20 || text[4] != '-' || text[7] != '-' || (text[10] != 'T' && text[10] != 't') ||
      text[13] != ':' || text[16] != ':')
    return std::nullopt;
  auto time = wall_time({digits(text, 0, 4), digits(text, 5, 2), digits(text, 8, 2), digits(text, 11, 2),
                         digits(text, 14, 2), digits(text, 17, 2)});
  if (!time) return std::nullopt;
  std::size_t at = 19;
  if (text[at] == '.') {
    std::int64_t scale = 100, fraction = 0;
    std::size_t start = ++at;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at, scale /= 10)
      fraction += (text[at] - '0') * scale;
    if (at == start) return std::nullopt;
    time->ms += fraction;
  }
  std::string_view zone = text.substr(at);
  if (zone == "Z" || zone == "z") return time;
  if (zone.size() != 6 || (zone[0] != '+' && zone[0] != '-') || zone[3] != ':') return std::nullopt;
  auto hours = digits(zone, 1, 2);
  auto minutes = digits(zone, 4, 2);
  if (!hours || !minutes || *hours > 23 || *minutes > 59) return std::nullopt;
  const std::int64_t offset = static_cast<std::int64_t>(*hours * 60 + *minutes) * 60'000;
  return WallTime{zone[0] == '+' ? time->ms - offset : time->ms + offset};
}

std::string format_rfc3339(WallTime time) {
  Clock24 c = split(time);
  std::string text = fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}", c.date.year, c.date.month, c.date.day,
                                 c.hour, c.minute, c.second);
  if (c.milli != 0) text += fmt::format(".{:03}", c.milli);
  return text + "Z";
}

std::optional<WallTime> parse_http_date(std::string_view text) noexcept {
  // IMF-fixdate only: the two obsolete forms are treated as absent, as RFC 9110 lets a cache do.
  if (text.size() != http_date_size || text.substr(25) != " GMT" || text[3] != ',' || text[4] != ' ')
    return std::nullopt;
  std::size_t month = month_names.find(text.substr(8, 3));
  if (month == std::string_view::npos || month % 3 != 0) return std::nullopt;
  if (text[7] != ' ' || text[11] != ' ' || text[16] != ' ' || text[19] != ':' || text[22] != ':')
    return std::nullopt;
  return wall_time({digits(text, 12, 4), static_cast<unsigned>(month / 3 + 1), digits(text, 5, 2),
                    digits(text, 17, 2), digits(text, 20, 2), digits(text, 23, 2)});
}

void format_http_date_to(WallTime time, char* out) noexcept {
  Clock24 c = split(time);
  auto two = [](char* at, unsigned value) {
    at[0] = static_cast<char>('0' + value / 10);
    at[1] = static_cast<char>('0' + value % 10);
  };
  std::memcpy(out, "Thu, 00 Jan 0000 00:00:00 GMT", http_date_size);
  std::memcpy(out, day_names.data() + c.weekday * 3, 3);
  std::memcpy(out + 8, month_names.data() + (c.date.month - 1) * 3, 3);
  two(out + 5, c.date.day);
  two(out + 12, static_cast<unsigned>(c.date.year / 100));
  two(out + 14, static_cast<unsigned>(c.date.year % 100));
  two(out + 17, c.hour);
  two(out + 20, c.minute);
  two(out + 23, c.second);
}

std::string format_http_date(WallTime time) {
  std::string text(http_date_size, '\0');
  format_http_date_to(time, text.data());
  return text;
}

}  // namespace cairn
