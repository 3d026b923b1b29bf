#include "crypto/proof.h"

#include <algorithm>

#include "base/check.h"

namespace cairn::crypto {

ProofReader::ProofReader(const Address& address, std::uint64_t first_byte, std::uint64_t last_byte) noexcept
    : address_(address), first_byte_(first_byte), last_byte_(last_byte) {
  CHECK(first_byte <= last_byte);
}

ProofReader::ProofReader(const Address& address, std::uint64_t first_byte, std::uint64_t last_byte,
                         std::span<Hash> room) noexcept
    : ProofReader(address, first_byte, last_byte) {
  has_room_ = true;
  room_ = room;
}

Result<std::size_t> ProofReader::update(ByteView bytes) {
  std::size_t taken = 0;
  while (taken < bytes.size() && (state_ == State::size || state_ == State::parents)) {
    const std::size_t item = state_ == State::size ? proof_head_size : parent_size;
    const std::size_t now = std::min(item - item_bytes_, bytes.size() - taken);
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(taken), now,
                item_.begin() + static_cast<std::ptrdiff_t>(item_bytes_));
    taken += now;
    item_bytes_ += now;
    if (item_bytes_ < item) break;
    item_bytes_ = 0;
    if (auto result = state_ == State::size ? take_size() : take_parent(); !result) {
      state_ = State::failed;
      error_ = result.error();
    }
  }
  if (state_ == State::failed) return fail(error_);
  return taken;
}

Result<> ProofReader::take_size() {
  std::uint64_t size = 0;
  for (unsigned i = 0; i < proof_head_size; ++i) size |= std::to_integer<std::uint64_t>(item_[i]) << (8 * i);
  if (size > object_size_max)
    return fail(ErrorCode::malformed, "a proof of an object larger than any", Side::upstream);
  const std::uint64_t last = size == 0 ? 0 : size - 1;
  if (first_byte_ > last)
    return fail(ErrorCode::integrity, "a proof of an object that ends before the range", Side::upstream);
  range_ = groups_of_bytes(first_byte_, std::min(last_byte_, last));
  if (range_.count() > (has_room_ ? room_.size() : proof_groups_max))
    return fail(ErrorCode::body_cap, "a proof of more groups than are read at once");
  size_ = size;
  state_ = State::parents;
  push({0, group_count(size)}, address_.bytes);
  settle();
  return {};
}

Result<> ProofReader::take_parent() {
  const Node node = pending_[--depth_];
  Hash left, right;
  std::copy_n(item_.begin(), left.size(), left.begin());
  std::copy_n(item_.begin() + left.size(), right.size(), right.begin());
  const bool is_root = node.span == GroupSpan{0, group_count(size_)};
  if (merge(left, right, is_root) != node.hash)
    return fail(ErrorCode::integrity, "a parent in a proof has another hash", Side::upstream);
  push({node.span.middle(), node.span.end}, right);
  push({node.span.first, node.span.middle()}, left);
  settle();
  return {};
}

// Nodes that the range does not touch are not part of the proof.
void ProofReader::push(GroupSpan span, const Hash& hash) noexcept {
  if (!span.touches(range_)) return;
  CHECK(depth_ < pending_.size());
  pending_[depth_++] = {span, hash};
}

void ProofReader::settle() {
  for (; depth_ != 0 && pending_[depth_ - 1].span.count() == 1; --depth_) {
    const Hash& hash = pending_[depth_ - 1].hash;
    if (has_room_)
      room_[in_room_++] = hash;
    else
      groups_.push_back(hash);
  }
  if (depth_ == 0) state_ = State::done;
}

Result<> ProofReader::verify_group(std::uint64_t index, ByteView bytes) const noexcept {
  if (!done()) return fail(ErrorCode::integrity, "the proof of a group is not complete", Side::upstream);
  if (index < range_.first || index >= range_.end)
    return fail(ErrorCode::integrity, "the proof does not cover the group", Side::upstream);
  if (bytes.size() != group_length(size_, index))
    return fail(ErrorCode::integrity, "a group has another length than the size says", Side::upstream);
  if (hash_group(bytes, index, group_count(size_) == 1) != hash_of(index))
    return fail(ErrorCode::integrity, "a group has another hash", Side::upstream);
  return {};
}

}  // namespace cairn::crypto
