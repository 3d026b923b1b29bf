// Request: what the pipeline knows of one request, whatever carries it, and what a service answers it with.
//
// It stays with its exchange, which is used again and again: it allocates once.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "http/exchange.h"
#include "http/route.h"
#include "runtime/call.h"
#include "serve/principal.h"

namespace cairn::serve {

// What a service keeps about one request between its steps.
struct RequestState {
  virtual ~RequestState() = default;
};

class Request final : public http::Attachment {
 public:
  explicit Request(http::Exchange& of) noexcept : exchange(of), body(of.body), response(of.response) {}

  const http::RequestHead& head() const noexcept { return exchange.request(); }
  const http::Fields& fields() const noexcept { return head().fields; }
  const io::PeerAddress& peer() const noexcept { return exchange.peer; }
  Instant started() const noexcept { return exchange.started; }

  http::Exchange& exchange;
  http::RequestBody& body;
  http::Response& response;
  http::RouteMatch route;
  Instant deadline{};   // of the response head
  CallContext context;  // of what it calls in turn
  std::unique_ptr<RequestState> state;

  // As it is echoed: the client's own text, or a ULID's. Empty before it was taken.
  std::string_view corr() const noexcept { return {corr_text.data(), corr_size}; }
  std::array<char, 64> corr_text;
  std::uint8_t corr_size = 0;
  std::string path_text;  // room for a path that had escapes

  // Who asks. None: the route needs no capability, or nobody does.
  const Principal* principal() const noexcept { return is_known ? &bearer : nullptr; }
  // For logs and audits.
  std::string_view who() const noexcept { return is_known ? std::string_view(bearer.name) : "anonymous"; }
  bool is_known = false;
  Principal bearer;  // keeps its room

  // What the pipeline has counted for it, and where it counted what its address has under way.
  std::uint32_t counted = 0;
  std::uint32_t share = 0;
  bool contested = false;  // another address asked, too, when this began

  void clear() noexcept override {
    route.outcome = http::RouteMatch::Outcome::not_found;
    context = {};
    state.reset();
    corr_size = 0;
    is_known = false;
    counted = 0;
  }
};

}  // namespace cairn::serve
