#include "crypto/object_hasher.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace cairn::crypto {

void ObjectHasher::update(ByteView bytes) {
  size_ += bytes.size();
  group_.update(bytes, [this](std::span<const Hash> hashes) {
    groups_.insert(groups_.end(), hashes.begin(), hashes.end());
  });
}

ObjectHash ObjectHasher::finish() {
  const bool alone = groups_.empty();
  if (alone || group_.size() != 0) groups_.push_back(group_.hash(alone));
  const Hash top = merge_all(groups_, true);
  return {Address{top}, size_, std::move(groups_)};
}

PartHasher::PartHasher(std::uint64_t part_index) noexcept
    : group_(part_index * groups_per_part), is_first_(part_index == 0) {}

void PartHasher::update(ByteView bytes) noexcept {
  CHECK(bytes.size() <= part_size - part_.size);
  part_.size += bytes.size();
  group_.update(bytes, [this](std::span<const Hash> hashes) {
    std::copy(hashes.begin(), hashes.end(), part_.groups.begin() + part_.group_count);
    part_.group_count += static_cast<unsigned>(hashes.size());
  });
}

PartHash PartHasher::finish(bool only_part) noexcept {
  CHECK(is_first_ || (!only_part && part_.size != 0));
  // The group under way is the only one: as the object's root it has another hash.
  const bool one_group = part_.group_count == 0;
  if (one_group || group_.size() != 0)
    part_.groups[part_.group_count++] = group_.hash(only_part && one_group);
  part_.hash = merge_all(part_.group_span(), only_part);
  if (is_first_) part_.alone = one_group ? group_.hash(true) : merge_all(part_.group_span(), true);
  return part_;
}

}  // namespace cairn::crypto
