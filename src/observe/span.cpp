#include "observe/span.h"

namespace cairn::observe {
namespace {

// Lowercase only: the header's grammar knows no other digit.
std::optional<std::uint64_t> parse_lower_hex(std::string_view text) noexcept {
  std::uint64_t value = 0;
  for (const char c : text) {
    unsigned digit = 0;
    if (c >= '0' && c <= '9')
      digit = static_cast<unsigned>(c - '0');
    else if (c >= 'a' && c <= 'f')
      digit = static_cast<unsigned>(c - 'a') + 10;
    else
      return std::nullopt;
    value = value << 4 | digit;
  }
  return value;
}

void format_lower_hex(std::uint64_t value, std::size_t digits, char* out) noexcept {
  for (std::size_t i = digits; i-- > 0; value >>= 4) out[i] = "0123456789abcdef"[value & 15];
}

}  // namespace

SpanContext start_trace(std::uint64_t random_high, std::uint64_t random_low, std::uint64_t random_span,
                        bool sampled) noexcept {
  if ((random_high | random_low) == 0) random_low = 1;
  return {.trace_id = {random_high, random_low},
          .span_id = random_span != 0 ? random_span : 1,
          .flags = sampled ? SpanContext::sampled_flag : std::uint8_t{0}};
}

SpanContext child_of(const SpanContext& parent, std::uint64_t random_span) noexcept {
  SpanContext child = parent;
  child.span_id = random_span != 0 ? random_span : 1;
  return child;
}

std::optional<SpanContext> parse_traceparent(std::string_view header) noexcept {
  if (header.size() < traceparent_size) return std::nullopt;
  if (header[2] != '-' || header[35] != '-' || header[52] != '-') return std::nullopt;
  const auto version = parse_lower_hex(header.substr(0, 2));
  const auto high = parse_lower_hex(header.substr(3, 16));
  const auto low = parse_lower_hex(header.substr(19, 16));
  const auto span_id = parse_lower_hex(header.substr(36, 16));
  const auto flags = parse_lower_hex(header.substr(53, 2));
  if (!version || !high || !low || !span_id || !flags || *version == 0xff) return std::nullopt;
  if (header.size() > traceparent_size && (*version == 0 || header[traceparent_size] != '-'))
    return std::nullopt;
  // Flags of a version we do not know may mean anything but `sampled`, which is kept by all of them.
  const std::uint64_t known = *version == 0 ? 0xff : SpanContext::sampled_flag;
  SpanContext context{
      .trace_id = {*high, *low}, .span_id = *span_id, .flags = static_cast<std::uint8_t>(*flags & known)};
  if (!context.valid()) return std::nullopt;
  return context;
}

void format_traceparent_to(const SpanContext& context, char* out) noexcept {
  out[0] = out[1] = '0';
  out[2] = out[35] = out[52] = '-';
  format_lower_hex(context.trace_id.high, 16, out + 3);
  format_lower_hex(context.trace_id.low, 16, out + 19);
  format_lower_hex(context.span_id, 16, out + 36);
  format_lower_hex(context.flags, 2, out + 53);
}

std::string format_traceparent(const SpanContext& context) {
  std::string text(traceparent_size, '\0');
  format_traceparent_to(context, text.data());
  return text;
}

std::string format_trace_id(const TraceId& id) {
  std::string text(32, '\0');
  format_lower_hex(id.high, 16, text.data());
  format_lower_hex(id.low, 16, text.data() + 16);
  return text;
}

}  // namespace cairn::observe
