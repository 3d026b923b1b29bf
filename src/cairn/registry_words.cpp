#include "cairn/registry_words.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdio>

#include "io/process.h"

namespace cairn::cli {

using client::Failure;
using client::Outcome;

std::optional<std::uint64_t> parse_version_number(std::string_view text) noexcept {
  std::uint64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || problem != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (text.size() > 1 && text[0] == '0') return std::nullopt;
  return number;
}

std::optional<std::uint64_t> read_number(const Invocation& invocation, std::string_view flag,
                                         std::uint64_t otherwise) noexcept {
  const auto text = invocation.find(flag);
  return text ? parse_version_number(*text) : otherwise;
}

std::optional<WallTime> parse_when(std::string_view text) {
  if (const auto span = parse_duration(text)) return WallTime{io::wall_clock().ms + span->to_millis()};
  return parse_rfc3339(text);
}

Outcome<std::string> read_input(const std::string& path, std::size_t most) {
  if (path != "-") {
    auto text = io::read_small_file(path, most);
    if (!text) return fail(Failure(text.error().code, fmt::format("{} {}", path, text.error().context)));
    return std::move(*text);
  }
  std::string text;
  char block[65536];
  while (const std::size_t count = std::fread(block, 1, sizeof block, stdin)) {
    text.append(block, count);
    if (text.size() > most) return fail(Failure(ErrorCode::invalid, "stdin is too large"));
  }
  return text;
}

Outcome<format::TrustRoots> read_trust_roots(const std::string& path) {
  TRY(const std::string text, read_input(path, 64 << 10));
  std::string detail;
  auto roots = format::parse_trust_roots(text, detail);
  if (!roots) return fail(Failure(ErrorCode::malformed, fmt::format("{}: {}", path, detail)));
  return std::move(*roots);
}

Exit complain(const Terminal& terminal, const Failure& failure, std::string_view subject) {
  if (failure.code() != ErrorCode::cancelled) terminal.complain(failure, subject);
  return exit_of(failure);
}

}  // namespace cairn::cli
