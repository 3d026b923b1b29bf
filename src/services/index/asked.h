// What a request asks for: its query, its key, the page it wants. Every fault of a stranger's text is
// `malformed`, and says what was expected.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/address.h"
#include "http/query.h"
#include "serve/request.h"

namespace cairn::index {

// The query after the '?', parsed strictly. `room` outlives it.
Result<http::Query> query_of(const serve::Request& request, std::string& room);
Result<std::uint64_t> parse_number(std::string_view text);

// The key of /resolve: `b3:` and an address, `name:` and a name, or a bare name. None of it is allocated.
struct Key {
  std::string_view name;  // empty: the key is an address
  std::optional<Address> address;
};
Result<Key> parse_key(std::string_view text);
Result<std::string_view> parse_name(std::string_view text);

// True: the request's conditions decided the answer (304, 412).
bool settle_conditions(serve::Request& request, std::string_view etag);

// How many of a list a request wants.
Result<std::size_t> parse_limit(const http::Query& query, std::size_t usual, std::size_t most);

}  // namespace cairn::index
