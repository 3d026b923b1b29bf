// Body: a request's body as a service reads it: decoded under the guard, capped, pulled slice by slice.
#pragma once

#include <optional>

#include "codec/decode_guard.h"
#include "http/request_body.h"
#include "runtime/buffer.h"
#include "serve/request.h"

namespace cairn::serve {

class Body {
 public:
  // `request` outlives this. If admission let a content coding pass that no decoder knows, next() returns the
  // error.
  Body(Request& request, Slab& slab, codec::DecodeGuard guard);

  // The next decoded slice; empty at the end. Errors: those of RequestBody::next, decoded_cap,
  // decoded_ratio, malformed. Cancel: clean.
  Task<Result<Buffer>> next(Call call);
  // The whole body, for bodies that are documents. body_cap when it is over `most`.
  Task<Result<std::string>> read_all(Call call, std::size_t most);

 private:
  Task<Result<Buffer>> next_decoded(Call call);

  http::RequestBody& body_;
  Slab& slab_;
  std::optional<codec::Decoder> decoder_;
  std::optional<Error> refused_;
  Buffer raw_;
  bool output_full_ = false;
  bool ended_ = false;
};

}  // namespace cairn::serve
