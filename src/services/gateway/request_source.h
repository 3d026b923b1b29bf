// RequestSource: a request's body on its way to an upstream, in the blocks in which it arrives. A body with a
// content coding passes as it came; a copy is decoded, only to count what it would become.
#pragma once

#include <optional>

#include "codec/decode_guard.h"
#include "io/piece.h"
#include "runtime/buffer.h"
#include "serve/request.h"

namespace cairn::gateway {

class RequestSource final : public io::BodySource {
 public:
  // `request` outlives it.
  RequestSource(serve::Request& request, Slab& slab, codec::DecodeGuard guard);

  // Nothing while it is unknown.
  std::optional<std::uint64_t> length() const noexcept;
  // Some of it was asked for: it cannot be sent a second time.
  bool is_begun() const noexcept { return begun_; }
  // When it last gave something, and so, once all of it was given, when it ended.
  Instant last_given() const noexcept { return given_at_; }
  // Why it ended too early: it is the client's fault, and no upstream's.
  const std::optional<Error>& failure() const noexcept { return failure_; }

  // Errors: those of RequestBody::next, decoded_cap, decoded_ratio, malformed. Cancel: clean.
  Task<Result<io::Piece>> next(Call call) override;

 private:
  Task<Result<Buffer>> pull(Call call);
  Result<> count(ByteView coded);

  serve::Request& request_;
  Slab& slab_;
  std::optional<codec::Decoder> decoder_;
  Buffer scratch_;
  std::optional<Error> failure_;
  bool begun_ = false;
  Instant begun_at_ = Instant::never();  // the body was first asked for
  Instant given_at_{};
};

}  // namespace cairn::gateway
