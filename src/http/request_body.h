// RequestBody: the request's body as the handler pulls it, in slices it owns.
//
// Back-pressure is the pulling itself: nothing is read from the connection that was not asked for. The
// first pull sends `100 Continue` to a client that waits for it.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "http/h1/chunked.h"
#include "http/head.h"
#include "runtime/buffer.h"
#include "runtime/task.h"

namespace cairn::http {

class Connection;

class RequestBody {
 public:
  // The next slice; empty at the end. malformed: the framing broke; timeout_read: too slow; body_cap: over
  // the cap; connection_lost. After an error the connection closes behind the answer. Cancel: clean.
  Task<Result<Buffer>> next(Call call);

  // Everything up to the end was pulled (true at once for a request without a body).
  bool done() const noexcept { return done_; }
  // Somebody waits in next().
  bool is_reading() const noexcept { return reading_; }
  std::uint64_t received() const noexcept { return received_; }
  void set_cap(std::uint64_t bytes) noexcept { cap_ = bytes; }

  // For the connection.
  void start(Connection& connection, const RequestHead& head) noexcept;
  void clear() noexcept;
  // Bytes of a fixed-length body that are still to come; 0 when unknown or none.
  std::uint64_t left() const noexcept { return kind_ == BodyKind::length ? left_ : 0; }
  bool awaits_continue() const noexcept { return expects_continue_; }

 private:
  friend class Connection;
  Connection* connection_ = nullptr;
  BodyKind kind_ = BodyKind::none;
  bool done_ = true;
  bool expects_continue_ = false;
  bool reading_ = false;
  std::uint64_t left_ = 0;
  std::uint64_t received_ = 0;
  std::uint64_t cap_ = ~std::uint64_t{0};
  ChunkedDecoder chunks_;
  Instant window_start_{};
  std::uint64_t window_bytes_ = 0;
};

}  // namespace cairn::http
