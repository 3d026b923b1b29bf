#include "services/storage/object_source.h"

#include <algorithm>

#include "crypto/outboard.h"

namespace cairn::storage {

io::Piece make_piece(store::GroupCache& cache, store::GroupBytes group, std::size_t from, std::size_t count) {
  if (group.block) {
    const ByteView bytes = group.in_block.subspan(from, count);
    return io::Piece::memory(bytes, io::Hold(std::move(group.block).detach(), &io::ReadBlock::release));
  }
  if (!group.ref) {
    group.buffer.consume(from);
    group.buffer.truncate(count);
    return std::move(group.buffer);
  }
  if (const auto offset = group.ref.file_offset())
    return io::Piece::range(cache.file(), *offset + from, count, std::move(group.ref).to_hold(true));
  const ByteView bytes = group.ref.bytes().subspan(from, count);
  return io::Piece::memory(bytes, std::move(group.ref).to_hold(false));
}

ObjectSource::ObjectSource(Library library, Address address, std::shared_ptr<const store::ObjectFacts> facts,
                           store::SetPort::Found found)
    : library_(library), address_(address), facts_(std::move(facts)), found_(std::move(found)) {}

// Cuts the bytes of the current step out of these groups, and moves on.
io::Piece ObjectSource::cut(store::GroupBytes bytes) {
  Step& step = steps_[step_];
  const auto from = static_cast<std::size_t>(step.at % crypto::group_size);
  const auto count =
      static_cast<std::size_t>(std::min<std::uint64_t>(step.end - step.at, bytes.bytes().size() - from));
  step.at += count;
  return make_piece(library_.cache, std::move(bytes), from, count);
}

// A text between ranges, the end, or nothing when bytes are next.
std::optional<io::Piece> ObjectSource::text_or_end() {
  for (;;) {
    if (step_ == steps_.size()) return io::Piece();
    Step& step = steps_[step_];
    if (!step.text.empty() && !text_sent_) {
      text_sent_ = true;
      return io::Piece::memory(as_bytes(step.text));
    }
    if (step.at < step.end) return std::nullopt;
    ++step_;
    text_sent_ = false;
  }
}

std::optional<io::Piece> ObjectSource::try_next() {
  if (auto piece = text_or_end()) return piece;
  const std::uint64_t group = steps_[step_].at / crypto::group_size;
  if (has_primed_ && primed_group_ == group) {
    has_primed_ = false;
    return cut(std::move(primed_));
  }
  if (auto behind = ahead_.take(group, end_group())) return cut(std::move(*behind));
  store::GroupBytes hot;
  hot.ref = library_.cache.find(address_, group);
  if (!hot.ref) return std::nullopt;
  return cut(std::move(hot));
}

Task<Result<io::Piece>> ObjectSource::next(Call call) {
  if (auto piece = try_next()) co_return std::move(*piece);
  LaneUse lanes;
  lanes.stall = library_.stall;
  call = call.in_lanes(lanes);
  if (found_.port == nullptr) {
    CO_TRY(found_, co_await library_.ports.find(call, address_));
    if (found_.port == nullptr) co_return fail(ErrorCode::not_found, "the object was removed meanwhile");
  }
  const std::uint64_t group = steps_[step_].at / crypto::group_size;
  auto bytes = co_await found_.port->read_groups(call, found_.object, group, end_group(), &ahead_);
  if (!bytes) {
    if (bytes.error().code == ErrorCode::integrity) library_.integrity.add(library_.slot);
    co_return fail(bytes.error());
  }
  co_return cut(std::move(*bytes));
}

ProofSource::ProofSource(store::SetPort::Found found, Slab& slab, Duration stall, std::uint64_t first,
                         std::uint64_t last, std::shared_ptr<const std::vector<crypto::Hash>> parts)
    : found_(std::move(found)),
      slab_(slab),
      stall_(stall),
      parts_(std::move(parts)),
      builder_(found_.object->entry.size, first, last, *parts_) {}

Task<Result<io::Piece>> ProofSource::next(Call call) {
  if (builder_.done()) co_return io::Piece();
  LaneUse lanes;
  lanes.stall = stall_;
  call = call.in_lanes(lanes);
  Buffer out = slab_.take(Slab::medium);
  while (!builder_.done() && out.room().size() >= crypto::parent_size) {
    if (const auto part = builder_.wants_part()) {
      CO_TRY(const auto map, co_await found_.port->part_map(call, found_.object, *part));
      CO_TRY_VOID(builder_.give_part(map->groups));
    }
    out.fill(builder_.write(out.room()));
  }
  co_return std::move(out);
}

}  // namespace cairn::storage
