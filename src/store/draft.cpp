#include "store/draft.h"

#include <algorithm>
#include <utility>

namespace cairn::store {

Result<std::size_t> Draft::add(ByteView bytes) {
  std::size_t done = 0;
  while (done < bytes.size() && !full()) {
    if (blocks_.empty() || blocks_.back().room().empty()) {
      if (size_ >= expected_) return fail(ErrorCode::internal, "more bytes than were expected");
      const std::size_t room = std::min(crypto::group_size, expected_ - size_);
      if (!budget_->try_take(room, taker_)) return fail(ErrorCode::busy, "too many bytes on their way in");
      taken_ += room;
      if (!blocks_.empty()) hasher_.add(std::as_const(blocks_.back()).bytes());
      blocks_.emplace_back(room);
    }
    HeapBytes& block = blocks_.back();
    const std::size_t count = std::min({bytes.size() - done, block.room().size()});
    block.append(bytes.subspan(done, count));
    size_ += count;
    done += count;
  }
  return done;
}

crypto::PartHash Draft::finish(bool only_part) noexcept {
  return hasher_.finish(blocks_.empty() ? ByteView{} : std::as_const(blocks_.back()).bytes(), only_part);
}

Draft::Taken Draft::take(RecordKind kind, std::string meta) noexcept {
  Taken out;
  out.record.kind = static_cast<std::uint8_t>(kind);
  out.record.meta = std::move(meta);
  out.record.data = std::move(blocks_);
  out.hold = BudgetHold(*budget_, std::exchange(taken_, 0), taker_.slot);
  return out;
}

Draft::Taken Draft::take_object(std::string media_type, Address& address) {
  CHECK(index_ == 0);
  const crypto::PartHash hash = finish(true);
  address.bytes = hash.hash;
  ObjectRecord meta{address, std::move(media_type), {}};
  if (hash.group_count > 1) meta.groups.assign(hash.groups.begin(), hash.groups.begin() + hash.group_count);
  return take(RecordKind::object, encode(meta));
}

Draft::Taken Draft::take_part(const Ulid& token, PartRecord& part) {
  const crypto::PartHash hash = finish(false);
  part.token = token;
  part.index = static_cast<std::uint32_t>(index_);
  part.hash = hash.hash;
  part.root = hash.alone;
  part.groups.assign(hash.groups.begin(), hash.groups.begin() + hash.group_count);
  return take(RecordKind::part, encode(part));
}

}  // namespace cairn::store
