// Tenancy: how a service admits requests that divides its limits among tenants. Without one, the limits are
// divided among addresses (Shares). Called on the request's shard; must not wait.
#pragma once

#include "runtime/turn.h"
#include "serve/metrics.h"
#include "serve/request.h"
#include "serve/route.h"

namespace cairn::serve {

class Tenancy {
 public:
  struct Verdict {
    Error error{ErrorCode::ok, ""};
    Rejected why = Rejected::inflight;
    unsigned retry_after = 1;  // seconds, of an error that passes
    explicit operator bool() const noexcept { return error.code == ErrorCode::ok; }
  };

  virtual ~Tenancy() = default;
  // A request that no health route answers has arrived: finds its tenant and counts it in flight until
  // leave(), or refuses it. `spec`: null when no route matches.
  virtual Verdict admit(Request& request, const RouteSpec* spec) = 0;
  virtual void leave(Request& request) noexcept = 0;
  // The admitted request asks for its turn.
  virtual Seeking seek(Request& request) = 0;
  // Its response is filled, and not yet sent.
  virtual void answering(Request& request) = 0;
  // The answer to an admitted request was sent, or its connection broke first.
  virtual void finished(const Request& request, bool complete) noexcept = 0;
};

}  // namespace cairn::serve
