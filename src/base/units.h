// The units that types carry: Duration, Instant, WallTime, Bytes, Rate; and their text forms.
//
// Durations are written `250ms 5s 1m 2h 30d`, sizes `512B 64KiB 1MiB 2GiB` (also `KB MB GB`, decimal),
// rates `50MiB/s`. One number, one unit, no blank, no sign.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace cairn {

struct Duration {
  std::int64_t ns = 0;

  static constexpr Duration nanos(std::int64_t n) { return {n}; }
  static constexpr Duration micros(std::int64_t n) { return {n * 1'000}; }
  static constexpr Duration millis(std::int64_t n) { return {n * 1'000'000}; }
  static constexpr Duration seconds(std::int64_t n) { return {n * 1'000'000'000}; }

  constexpr std::int64_t to_millis() const { return ns / 1'000'000; }
  constexpr double to_seconds() const { return static_cast<double>(ns) / 1e9; }

  friend constexpr auto operator<=>(Duration, Duration) = default;
  friend constexpr Duration operator+(Duration a, Duration b) { return {a.ns + b.ns}; }
  friend constexpr Duration operator-(Duration a, Duration b) { return {a.ns - b.ns}; }
  friend constexpr Duration operator*(Duration a, std::int64_t n) { return {a.ns * n}; }
  friend constexpr Duration operator/(Duration a, std::int64_t n) { return {a.ns / n}; }
};

// A point on the monotonic clock of one process (or one simulated world). Never leaves it.
struct Instant {
  std::int64_t ns = 0;

  static constexpr Instant never() { return {std::numeric_limits<std::int64_t>::max()}; }

  friend constexpr auto operator<=>(Instant, Instant) = default;
  // Saturates: `never` plus anything is `never`.
  friend constexpr Instant operator+(Instant t, Duration d) {
    if (d.ns > 0 && t.ns > std::numeric_limits<std::int64_t>::max() - d.ns) return never();
    return {t.ns + d.ns};
  }
  friend constexpr Duration operator-(Instant a, Instant b) { return {a.ns - b.ns}; }
};

// Milliseconds since 1970 UTC. For people, files and tokens; never to measure how long something took.
struct WallTime {
  std::int64_t ms = 0;
  friend constexpr auto operator<=>(WallTime, WallTime) = default;
};

struct Bytes {
  std::uint64_t count = 0;
  static constexpr Bytes kib(std::uint64_t n) { return {n << 10}; }
  static constexpr Bytes mib(std::uint64_t n) { return {n << 20}; }
  static constexpr Bytes gib(std::uint64_t n) { return {n << 30}; }
  friend constexpr auto operator<=>(Bytes, Bytes) = default;
};

struct Rate {
  std::uint64_t bytes_per_second = 0;
  friend constexpr auto operator<=>(Rate, Rate) = default;
};

std::optional<Duration> parse_duration(std::string_view text) noexcept;
std::optional<Bytes> parse_bytes(std::string_view text) noexcept;
std::optional<Rate> parse_rate(std::string_view text) noexcept;
// The shortest exact form that parses back to the same value.
std::string format_duration(Duration duration);
std::string format_bytes(Bytes bytes);
std::string format_rate(Rate rate);

// RFC 3339 in UTC (`2026-01-31T12:00:00Z`, fraction optional) and the IMF-fixdate of HTTP.
std::optional<WallTime> parse_rfc3339(std::string_view text) noexcept;
std::string format_rfc3339(WallTime time);
std::optional<WallTime> parse_http_date(std::string_view text) noexcept;
constexpr std::size_t http_date_size = 29;
void format_http_date_to(WallTime time, char* out) noexcept;  // exactly http_date_size characters
std::string format_http_date(WallTime time);

}  // namespace cairn
