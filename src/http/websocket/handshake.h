// The opening handshake of a WebSocket: agrees to an exchange that asks for one.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "http/websocket/socket.h"
#include "runtime/random.h"

namespace cairn::http::websocket {

inline constexpr std::string_view protocol = "websocket";  // as Exchange::upgrade has it

inline bool is_asked_for(const Exchange& exchange) noexcept { return exchange.upgrade == protocol; }

// Fills the response of an exchange that asks for a WebSocket. No extension and no subprotocol is agreed to.
// `malformed`: the key is missing where HTTP/1.1 needs one, or is not 16 bytes of base64. `upgrade_required`:
// another version than 13. HTTP/2 needs no key (RFC 8441); where one is given it is answered.
Result<> answer(Exchange& exchange, std::unique_ptr<Talk> talk, Options options = {});

// For a client: a key, and what the server answers to it. The key is no secret: it only shows that the answer
// was made for it.
std::string make_key(Random& random);
std::string hash_key(std::string_view key);

}  // namespace cairn::http::websocket
