#include "crypto/outboard.h"

#include <algorithm>

#include "base/check.h"

namespace cairn::crypto {
namespace {

void check_range(std::uint64_t size, std::uint64_t first_byte, std::uint64_t last_byte) noexcept {
  CHECK(size <= object_size_max);
  CHECK(first_byte <= last_byte);
  CHECK(last_byte < std::max<std::uint64_t>(size, 1));
}

}  // namespace

std::uint64_t proof_size(std::uint64_t size, std::uint64_t first_byte, std::uint64_t last_byte) noexcept {
  check_range(size, first_byte, last_byte);
  const GroupSpan range = groups_of_bytes(first_byte, last_byte);
  const std::uint64_t groups = group_count(size);
  std::uint64_t parents = 0;
  // Level k has nodes of 2^k groups. Of those that the range touches only the last may be no parent: if no
  // group is right of its middle, it is a node of a lower level.
  for (unsigned level = 1; (std::uint64_t{1} << (level - 1)) < groups; ++level) {
    const std::uint64_t first = range.first >> level, last = (range.end - 1) >> level;
    parents += last - first + 1;
    if ((2 * last + 1) << (level - 1) >= groups) --parents;
  }
  return proof_head_size + parents * parent_size;
}

ProofBuilder::ProofBuilder(std::uint64_t size, std::uint64_t first_byte, std::uint64_t last_byte,
                           std::span<const Hash> parts) noexcept
    : size_(size), range_(groups_of_bytes(first_byte, last_byte)), parts_(parts) {
  check_range(size, first_byte, last_byte);
  CHECK(parts.size() == part_count(size));
  push(all());
}

// Only parents that the range touches are written, so only they wait.
void ProofBuilder::push(GroupSpan node) noexcept {
  if (node.count() < 2 || !node.touches(range_)) return;
  CHECK(depth_ < pending_.size());
  pending_[depth_++] = node;
}

bool ProofBuilder::is_of_parts(GroupSpan node) const noexcept {
  return node.first % groups_per_part == 0 && (node.end % groups_per_part == 0 || node.end == all().end);
}

std::optional<std::uint64_t> ProofBuilder::wants_part() const noexcept {
  if (depth_ == 0) return std::nullopt;
  const GroupSpan next = pending_[depth_ - 1];
  const std::uint64_t part = next.first / groups_per_part;
  // The children of a node of several parts are of parts too.
  if (next.count() > groups_per_part || part == held_part_) return std::nullopt;
  return part;
}

Result<> ProofBuilder::give_part(std::span<const Hash> groups) noexcept {
  const std::optional<std::uint64_t> part = wants_part();
  CHECK(part.has_value());
  const std::uint64_t first = *part * groups_per_part;
  if (groups.size() != std::min<std::uint64_t>(groups_per_part, all().end - first))
    return fail(ErrorCode::integrity, "a part has another number of groups than its object's size says");
  if (merge_all(groups, parts_.size() == 1) != parts_[*part])
    return fail(ErrorCode::integrity, "the groups of a part do not merge to its hash");
  std::copy(groups.begin(), groups.end(), groups_.begin());
  held_part_ = *part;
  return {};
}

// The hash of a node below the root: never with the root's flag.
Hash ProofBuilder::hash_of(GroupSpan node) const noexcept {
  if (is_of_parts(node)) {
    const std::uint64_t first = node.first / groups_per_part;
    const std::uint64_t end = (node.end - 1) / groups_per_part + 1;
    return merge_all(parts_.subspan(first, end - first), false);
  }
  CHECK(node.first / groups_per_part == held_part_);
  return merge_all(std::span(groups_).subspan(node.first % groups_per_part, node.count()), false);
}

std::size_t ProofBuilder::write(MutableByteView out) noexcept {
  std::size_t written = 0;
  if (!size_written_) {
    if (out.size() < proof_head_size) return 0;
    for (unsigned i = 0; i < proof_head_size; ++i) out[i] = static_cast<std::byte>(size_ >> (8 * i));
    size_written_ = true;
    written = proof_head_size;
  }
  while (depth_ != 0 && out.size() - written >= parent_size && !wants_part()) {
    const GroupSpan node = pending_[--depth_];
    const GroupSpan left{node.first, node.middle()}, right{node.middle(), node.end};
    const Hash left_hash = hash_of(left), right_hash = hash_of(right);
    const MutableByteView item = out.subspan(written, parent_size);
    std::copy(left_hash.begin(), left_hash.end(), item.begin());
    std::copy(right_hash.begin(), right_hash.end(), item.begin() + left_hash.size());
    written += parent_size;
    push(right);
    push(left);
  }
  return written;
}

}  // namespace cairn::crypto
