// What of a message passes the gateway, and what it adds. Hop-by-hop fields, and those that `Connection`
// names, end here; so does everything that a client could only forge.
#pragma once

#include "http/peer_call.h"
#include "serve/peers.h"
#include "serve/request.h"

namespace cairn::gateway {

// Which fields that choose a part or a form of an answer are passed on.
enum class Choosing : std::uint8_t {
  as_asked,
  whole,    // none of a part, and none of another coding
  by_range  // the same, and the upstream is not asked whether the client has it
};

// What a client is told of an upstream that gave no answer. Its own errors stay as they are.
Error told_of(const Error& error) noexcept;

// Whether a query carries a capability, by name or by value: URLs are logged and passed around.
bool has_token(std::string_view query);

// Adds the request's fields to a call. `outside`: the upstream is in another process, so that who asks is
// told in `Forwarded` and its like. Inside, the call itself knows.
void pass_fields(const serve::Request& request, http::PeerCall& call, bool outside,
                 Choosing choosing = Choosing::as_asked);

// The answer's status, fields and type, into the response; a Content-Range, where one is given, instead of
// the answer's own. The type is a view: the call outlives the response. False: the head does not fit.
bool pass_head(const http::PeerCall& call, http::Response& response, std::string_view content_range = {});

// The rest of the answer, as the client takes it, or the conversation that the service agrees to. After
// pass_head().
void answer_with(http::Response& response, serve::Peer::Handle call);

}  // namespace cairn::gateway
