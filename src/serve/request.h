// Request: the pipeline's record of one request, for every carrier; a service answers with it.
//
// It stays with its exchange and is reused with it, so it is allocated once.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "http/exchange.h"
#include "http/forwarded.h"
#include "http/route.h"
#include "runtime/call.h"
#include "runtime/turn.h"
#include "serve/principal.h"

namespace cairn {
class Random;
}

namespace cairn::serve {

// The state that a service keeps for one request between its steps.
struct RequestState {
  virtual ~RequestState() = default;
};

class Request final : public http::Attachment {
 public:
  explicit Request(http::Exchange& of) noexcept : exchange(of), body(of.body), response(of.response) {}

  const http::RequestHead& head() const noexcept { return exchange.request(); }
  const http::Fields& fields() const noexcept { return head().fields; }
  // Who asks: for a request that a trusted peer passes on, the client that it speaks for.
  const io::PeerAddress& peer() const noexcept { return exchange.peer; }
  // The host that the client asked, and whether it did so over TLS, at the first hop.
  std::string_view host() const noexcept { return hop.host.empty() ? head().host() : hop.host; }
  bool encrypted() const noexcept { return hop.encrypted.value_or(exchange.encrypted); }
  Instant started() const noexcept { return exchange.started; }

  http::Exchange& exchange;
  http::RequestBody& body;
  http::Response& response;
  http::RouteMatch route;
  Instant deadline{};   // of the response head
  CallContext context;  // for the calls that this request makes
  std::unique_ptr<RequestState> state;

  // The correlation id as it is echoed: the client's own text, or a ULID. Empty until it was taken.
  std::string_view corr() const noexcept { return {corr_text.data(), corr_size}; }
  std::array<char, 64> corr_text;
  std::uint8_t corr_size = 0;
  http::Forwarded hop;    // as a trusted peer tells of its client; else empty
  std::string path_text;  // room for a path that had escapes

  // The bearer that asks. nullptr: the route needs no capability, or the bearer is not known.
  const Principal* principal() const noexcept { return is_known ? &bearer : nullptr; }
  // For logs and audits.
  std::string_view who() const noexcept { return is_known ? std::string_view(bearer.name) : "anonymous"; }
  bool is_known = false;
  Principal bearer;  // stays allocated between requests

  // The counts that the pipeline has to undo, and the slot of Shares that counts this request for its
  // address.
  std::uint32_t counted = 0;
  std::uint32_t share = 0;
  bool contested = false;  // another address asked too when this request began
  // Its turn while its handler runs. The handler may give it back and go on without. A handler that answers
  // at once may take one before.
  Turn turn;
  // Of Tenancy: the tenant, and what its turn cost.
  std::shared_ptr<void> tenant;
  std::uint32_t cost = 0;

  // Makes the context for the calls that this request makes, once: it continues the caller's trace, or begins
  // one.
  void take_context(Random& random) noexcept;

  void clear() noexcept override {
    turn = Turn();
    route.outcome = http::RouteMatch::Outcome::not_found;
    context = {};
    hop = {};
    state.reset();
    tenant.reset();
    corr_size = 0;
    is_known = false;
    counted = 0;
  }
};

}  // namespace cairn::serve
