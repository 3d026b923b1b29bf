#include "store/read_ahead.h"

#include <algorithm>
#include <array>

namespace cairn::store {
namespace {

// How many of the groups are right, from the first one on.
std::size_t count_right(ByteView bytes, std::uint64_t first, std::span<const crypto::Hash> hashes) noexcept {
  std::array<crypto::Hash, ReadAhead::step_groups> found;
  const std::size_t whole = bytes.size() / crypto::group_size;
  crypto::hash_groups(bytes.first(whole * crypto::group_size), first, std::span(found).first(whole));
  if (whole < hashes.size())
    found[whole] = crypto::hash_group(bytes.subspan(whole * crypto::group_size), first + whole, false);
  std::size_t right = 0;
  while (right < hashes.size() && found[right] == hashes[right]) ++right;
  return right;
}

}  // namespace

ReadAhead::ReadAhead(io::ReadBlock block, ByteView bytes, std::shared_ptr<const PartMap> map,
                     std::uint64_t first) noexcept
    : block_(std::move(block)), bytes_(bytes), map_(std::move(map)), next_(first) {
  CHECK(block_ && !bytes_.empty() && !map_->root);
  CHECK(first % crypto::groups_per_part + crypto::group_count(bytes_.size()) <= map_->groups.size());
}

std::optional<GroupBytes> ReadAhead::take(std::uint64_t group, std::uint64_t end) noexcept {
  if (!block_) return std::nullopt;
  const std::uint64_t here = crypto::group_count(bytes_.size());
  if (group != next_ || end <= group) return std::nullopt;
  const auto count = static_cast<std::size_t>(std::min({end - group, here, step_groups}));
  const ByteView step = bytes_.first(std::min(bytes_.size(), count * crypto::group_size));
  const std::size_t in_part = group % crypto::groups_per_part;
  const std::size_t right = count_right(step, group, std::span(map_->groups).subspan(in_part, count));
  std::optional<GroupBytes> out;
  if (right > 0) {
    out.emplace();
    out->in_block = step.first(std::min(step.size(), right * crypto::group_size));
    out->block = block_.share();
  }
  next_ += right;
  bytes_ = bytes_.subspan(right == 0 ? 0 : out->in_block.size());
  if (right < count || bytes_.empty()) *this = ReadAhead();
  return out;
}

}  // namespace cairn::store
