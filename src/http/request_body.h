// RequestBody: the request's body as the handler pulls it, in slices that the handler owns. Each carrier of
// requests implements it.
//
// Pulling is the back-pressure: the carrier reads nothing from the peer before the handler asks for it.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "runtime/buffer.h"
#include "runtime/task.h"

namespace cairn::http {

class RequestBody {
 public:
  virtual ~RequestBody() = default;

  // The next slice; empty at the end. malformed: the framing broke; timeout_read: too slow; body_cap: over
  // the cap; connection_lost. After an error the rest of the body is lost. Cancel: clean.
  Task<Result<Buffer>> next(Call call);

  // Everything up to the end was pulled (true at once for a request without a body).
  bool done() const noexcept { return done_; }
  // A task waits in next().
  bool is_reading() const noexcept { return reading_; }
  std::uint64_t received() const noexcept { return received_; }
  void set_cap(std::uint64_t bytes) noexcept { cap_ = bytes; }

 protected:
  // Prepares for another request. `done`: it has no body.
  void reset(bool done) noexcept {
    done_ = done;
    reading_ = false;
    received_ = 0;
    cap_ = ~std::uint64_t{0};
  }
  void finish() noexcept { done_ = true; }

 private:
  // As next(), without the cap. Calls finish() with the last slice, or before it returns an empty one.
  virtual Task<Result<Buffer>> pull(Call call) = 0;

  bool done_ = true;
  bool reading_ = false;
  std::uint64_t received_ = 0;
  std::uint64_t cap_ = ~std::uint64_t{0};
};

// The body of a request that has none, for every carrier.
class NoBody final : public RequestBody {
  Task<Result<Buffer>> pull(Call) override { co_return Buffer(); }
};

}  // namespace cairn::http
