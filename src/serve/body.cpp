#include "serve/body.h"

namespace cairn::serve {

Body::Body(Request& request, Slab& slab, codec::DecodeGuard guard) : body_(request.body), slab_(slab) {
  auto coding = request.fields().find(http::FieldName::content_encoding);
  if (!coding) return;
  auto decoder = codec::make_decoder(*coding, guard);
  if (decoder)
    decoder_.emplace(std::move(*decoder));
  else
    refused_ = decoder.error();
}

Task<Result<Buffer>> Body::next(Call call) {
  return decoder_ || refused_ ? next_decoded(call) : body_.next(call);
}

Task<Result<Buffer>> Body::next_decoded(Call call) {
  if (refused_) co_return fail(*refused_);
  while (!ended_) {
    if (raw_.empty() && !output_full_) {
      CO_TRY(raw_, co_await body_.next(call));
      if (raw_.empty()) {
        ended_ = true;
        CO_TRY_VOID(decoder_->finish());
        break;
      }
    }
    Buffer slice = slab_.take(Slab::medium);
    CO_TRY(const auto progress, decoder_->step(raw_.bytes(), slice.room()));
    output_full_ = progress.produced == slice.room().size();
    raw_.consume(progress.consumed);
    if (progress.produced == 0) continue;
    slice.fill(progress.produced);
    co_return slice;
  }
  co_return Buffer();
}

Task<Result<std::string>> Body::read_all(Call call, std::size_t most) {
  std::string text;
  for (;;) {
    CO_TRY(Buffer slice, co_await next(call));
    if (slice.empty()) co_return text;
    if (text.size() + slice.size() > most)
      co_return fail(ErrorCode::body_cap, "body over its cap", Side::client);
    text += as_text(slice.bytes());
  }
}

}  // namespace cairn::serve
