// Forwarded (RFC 7239): what a proxy says of the client that it speaks for. Read only from peers that are
// trusted: anybody can send it.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "http/fields.h"
#include "io/stream.h"

namespace cairn::http {

// The last element of the list: what the nearest proxy has seen.
struct Forwarded {
  std::optional<io::PeerAddress> client = {};  // nothing: it is not told, or not as an address
  std::string_view host = {};                  // a view of the field; empty: not told
  std::optional<bool> encrypted = {};
};

// All lines of the field as one list. Strict: every element has to parse, no parameter comes twice in one,
// and `for`, `host` and `proto` have to mean something. `malformed` otherwise, or when there is none.
Result<Forwarded> parse_forwarded(const Fields& fields);
// The same of one line.
Result<Forwarded> parse_forwarded(std::string_view line);

// As cairn sends it: one element. A Unix peer is `_uid.N`. The view is of `room`.
using ForwardedText = std::array<char, 512>;
std::string_view format_forwarded(const io::PeerAddress& client, std::string_view host, bool encrypted,
                                  ForwardedText& room) noexcept;
// The address alone, without a port: `192.0.2.7`, `2001:db8:0:0:0:0:0:1`.
std::string_view format_client(const io::PeerAddress& client, ForwardedText& room) noexcept;

}  // namespace cairn::http
