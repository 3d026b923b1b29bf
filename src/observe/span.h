// Trace context: the W3C `traceparent` header in and out. Nothing is exported here.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::observe {

struct TraceId {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  constexpr bool valid() const noexcept { return (high | low) != 0; }
  friend constexpr auto operator<=>(const TraceId&, const TraceId&) = default;
};

// A position in a trace: 32 bytes, trivially copyable.
struct SpanContext {
  static constexpr std::uint8_t sampled_flag = 1;

  TraceId trace_id;
  std::uint64_t span_id = 0;
  std::uint8_t flags = 0;

  constexpr bool valid() const noexcept { return trace_id.valid() && span_id != 0; }
  constexpr bool sampled() const noexcept { return (flags & sampled_flag) != 0; }
  friend constexpr auto operator<=>(const SpanContext&, const SpanContext&) = default;
};

// The caller brings the randomness; a zero is turned into a valid id.
SpanContext start_trace(std::uint64_t random_high, std::uint64_t random_low, std::uint64_t random_span,
                        bool sampled) noexcept;
// Same trace and flags, a new span.
SpanContext child_of(const SpanContext& parent, std::uint64_t random_span) noexcept;

constexpr std::size_t traceparent_size = 55;
// Version 00 is strict: 55 characters, lowercase hex, neither id zero. A later version may continue after
// the flags with `-…` and only its sampled flag is kept; ff and everything else is no context, and the
// caller starts a trace of its own.
std::optional<SpanContext> parse_traceparent(std::string_view header) noexcept;
// Always version 00; exactly traceparent_size characters.
void format_traceparent_to(const SpanContext& context, char* out) noexcept;
std::string format_traceparent(const SpanContext& context);
std::string format_trace_id(const TraceId& id);

}  // namespace cairn::observe
