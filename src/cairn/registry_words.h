// Parses the words of the registry verbs' command lines, and reports their failures.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/units.h"
#include "cairn/exit_code.h"
#include "cairn/terminal.h"
#include "format/signed_commit.h"

namespace cairn::cli {

// Decimal digits, no sign, no leading zero.
std::optional<std::uint64_t> parse_version_number(std::string_view text) noexcept;
// The flag's number, or `otherwise` without the flag; nothing when it is not a number.
std::optional<std::uint64_t> read_number(const Invocation& invocation, std::string_view flag,
                                         std::uint64_t otherwise) noexcept;
// A span from now, or a time in RFC 3339.
std::optional<WallTime> parse_when(std::string_view text);

// A file, or stdin for `-`.
client::Outcome<std::string> read_input(const std::string& path, std::size_t most);

client::Outcome<format::TrustRoots> read_trust_roots(const std::string& path);

// Prints the failure, and returns the verb's exit.
Exit complain(const Terminal& terminal, const client::Failure& failure, std::string_view subject = {});

}  // namespace cairn::cli
