#include "services/gateway/verified.h"

#include <algorithm>
#include <cstring>

namespace cairn::gateway {
namespace {

using crypto::group_size;

auto mismatch(Way::Try& one) {
  one.end(Breaker::Verdict::wrong, current_shard()->now());
  return fail(ErrorCode::integrity, "the bytes are not those of the address", Side::upstream);
}

auto cut_off() { return fail(ErrorCode::connection_lost, "the object was cut off", Side::upstream); }

// The first `count` bytes of the slice, which loses them.
Buffer split(Buffer& slice, std::size_t count) {
  if (count == slice.size()) return std::move(slice);
  Buffer front = slice.share();
  front.truncate(count);
  slice.consume(count);
  return front;
}

// The call's next bytes. A call outside the process gives buffers only.
Task<Result<Buffer>> pull(Call call, http::PeerCall* from) {
  CO_TRY(io::Piece piece, co_await from->next(call));
  co_return std::move(piece.buffer);
}

}  // namespace

WholeSource::WholeSource(serve::Peer::Handle call, Way::Try one, Slab& slab, const Address& address,
                         std::uint64_t size)
    : call_(std::move(call)),
      one_(std::move(one)),
      slab_(slab),
      address_(address),
      left_(size),
      ahead_((size - 1) / group_size * group_size) {}

Task<Result<io::Piece>> WholeSource::next(Call call) {
  if (ahead_ == 0) co_return co_await finish(call);
  if (slice_.empty()) {
    CO_TRY(slice_, co_await pull(call, call_.get()));
    if (slice_.empty() || slice_.size() > left_) co_return cut_off();
    left_ -= slice_.size();
    hash(slice_);
  }
  Buffer front = split(slice_, static_cast<std::size_t>(std::min<std::uint64_t>(ahead_, slice_.size())));
  ahead_ -= front.size();
  co_return io::Piece(std::move(front));
}

Task<Result<io::Piece>> WholeSource::finish(Call call) {
  if (last_ && last_.empty()) co_return io::Piece();
  keep(std::move(slice_));
  while (left_ > 0) {
    CO_TRY(Buffer slice, co_await pull(call, call_.get()));
    if (slice.empty() || slice.size() > left_) co_return cut_off();
    left_ -= slice.size();
    hash(slice);
    keep(std::move(slice));
  }
  if (hasher_->finish().address != address_) co_return mismatch(one_);
  one_.end(Breaker::Verdict::good, current_shard()->now());
  Buffer whole = last_.share();
  last_.clear();
  co_return io::Piece(std::move(whole));
}

void WholeSource::hash(const Buffer& slice) {
  if (!hasher_) hasher_ = std::make_unique<crypto::ObjectHasher>();
  hasher_->update(slice.bytes());
}

// One slice is kept as it is; of several, one block is made.
void WholeSource::keep(Buffer slice) {
  if (slice.empty()) return;
  if (!last_ && left_ == 0) {
    last_ = std::move(slice);
    return;
  }
  if (!last_) last_ = slab_.take(group_size);
  std::memcpy(last_.room().data(), slice.bytes().data(), slice.size());
  last_.fill(slice.size());
}

RangeSource::RangeSource(serve::Peer::Handle call, Way::Try one, Slab& slab, RangeProof proof,
                         http::ByteRange range)
    : call_(std::move(call)),
      one_(std::move(one)),
      slab_(slab),
      proof_(std::move(proof)),
      range_(range),
      at_(range.first / group_size * group_size) {}

Task<Result<io::Piece>> RangeSource::next(Call call) {
  if (at_ > range_.last) co_return io::Piece();
  const std::size_t wanted = crypto::group_length(proof_.reader.size(), at_ / group_size);
  CO_TRY_VOID(co_await gather(call, wanted));
  if (!proof_.reader.verify_group(at_ / group_size, group_.bytes())) co_return mismatch(one_);
  Buffer piece = std::exchange(group_, Buffer());
  if (at_ + wanted > range_.last + 1) piece.truncate(static_cast<std::size_t>(range_.last + 1 - at_));
  if (range_.first > at_) piece.consume(static_cast<std::size_t>(range_.first - at_));
  at_ += wanted;
  if (at_ > range_.last) one_.end(Breaker::Verdict::good, current_shard()->now());
  co_return io::Piece(std::move(piece));
}

Task<Result<>> RangeSource::gather(Call call, std::size_t wanted) {
  group_ = slab_.take(group_size);
  while (group_.size() < wanted) {
    if (slice_.empty()) {
      CO_TRY(slice_, co_await pull(call, call_.get()));
      if (slice_.empty()) co_return cut_off();
    }
    const std::size_t count = std::min(slice_.size(), wanted - group_.size());
    std::memcpy(group_.room().data(), slice_.bytes().data(), count);
    group_.fill(count);
    slice_.consume(count);
  }
  co_return Result<>{};
}

}  // namespace cairn::gateway
