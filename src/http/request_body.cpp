#include "http/request_body.h"

namespace cairn::http {

Task<Result<Buffer>> RequestBody::next(Call call) {
  if (done_) co_return Buffer();
  reading_ = true;
  auto slice = co_await pull(call);
  reading_ = false;
  if (!slice) co_return slice;
  received_ += slice->size();
  if (received_ > cap_) co_return fail(ErrorCode::body_cap, "body over its cap", Side::client);
  co_return slice;
}

}  // namespace cairn::http
