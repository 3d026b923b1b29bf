#include "services/gateway/request_source.h"

#include "services/gateway/pace.h"

namespace cairn::gateway {

RequestSource::RequestSource(serve::Request& request, Slab& slab, codec::DecodeGuard guard)
    : request_(request), slab_(slab) {
  const auto coding = request.fields().find(http::FieldName::content_encoding);
  if (!coding || request.body.done()) return;
  if (auto decoder = codec::make_decoder(*coding, guard)) decoder_.emplace(std::move(*decoder));
}

std::optional<std::uint64_t> RequestSource::length() const noexcept {
  const http::RequestHead& head = request_.head();
  return head.body == http::BodyKind::length ? std::optional(head.content_length) : std::nullopt;
}

Task<Result<io::Piece>> RequestSource::next(Call call) {
  begun_ = true;
  if (failure_) co_return fail(*failure_);
  auto slice = co_await pull(call);
  if (!slice) {
    // A wait that was ended from here is nobody's fault, and may be taken up again.
    if (slice.error().stop == StopReason::none) failure_ = slice.error();
    co_return fail(slice.error());
  }
  co_return io::Piece(std::move(*slice));
}

Task<Result<Buffer>> RequestSource::pull(Call call) {
  if (begun_at_ == Instant::never()) begun_at_ = current_shard()->now();
  CO_TRY(Buffer slice, co_await next_in_pace(call, request_, begun_at_));
  if (!slice.empty()) given_at_ = current_shard()->now();
  if (decoder_ && slice.empty()) CO_TRY_VOID(decoder_->finish());
  if (decoder_) CO_TRY_VOID(count(slice.bytes()));
  co_return slice;
}

// What comes out is dropped; the decoder counts it under the guard.
Result<> RequestSource::count(ByteView coded) {
  if (!scratch_) scratch_ = slab_.take(Slab::medium);
  for (bool full = false; !coded.empty() || full;) {
    TRY(const auto progress, decoder_->step(coded, scratch_.room()));
    full = progress.produced == scratch_.room().size();
    coded = coded.subspan(progress.consumed);
  }
  return {};
}

}  // namespace cairn::gateway
