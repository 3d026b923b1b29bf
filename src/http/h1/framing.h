// Rules of message framing that both parsers apply to a complete header section.
#pragma once

#include <cstdint>
#include <string_view>

#include "http/fields.h"
#include "http/head.h"

namespace cairn::http {

// Body kind and length as the fields alone announce them (until_close never). Returns why they must be
// refused, or nullptr. Everything that two recipients could read differently is refused: any repetition, both
// fields together, a length that is not plain digits, a coding that is not exactly `chunked`, a coding in an
// HTTP/1.0 message.
const char* find_framing_fault(const Fields& fields, unsigned minor, BodyKind& body,
                               std::uint64_t& length) noexcept;

// HTTP/1.1 persists unless told `close`; HTTP/1.0 only when told `keep-alive`; `close` always wins.
bool is_persistent(const Fields& fields, unsigned minor) noexcept;

// The protocol, of those that a carrier can switch to, that the fields ask to go on with; empty: none.
std::string_view find_upgrade(const Fields& fields) noexcept;

// Whether the field describes a message's framing or one connection. Only the carrier writes such fields.
bool is_framing(FieldName name) noexcept;

// Whether a `Connection` field names more than `close` or `keep-alive`, and whether it names this field: such
// fields belong to one connection and are not passed on. A name too long to tell counts as named.
bool names_fields(const Fields& fields) noexcept;
bool is_of_connection(const Fields& fields, std::string_view name) noexcept;

// `name`, `name:port`, `1.2.3.4:80`, `[::1]:80`; no user, no empty host, no escapes.
bool is_valid_host(std::string_view text) noexcept;

}  // namespace cairn::http
