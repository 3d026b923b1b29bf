#include "crypto/object_hasher.h"

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

void PartHasher::add(ByteView group) noexcept {
  CHECK(group.size() == group_size && part_.group_count + 1 < groups_per_part);
  part_.groups[part_.group_count] = hash_group(group, index_ * groups_per_part + part_.group_count, false);
  ++part_.group_count;
  part_.size += group.size();
}

PartHash PartHasher::finish(ByteView last, bool only_part) noexcept {
  CHECK(last.size() <= group_size && (index_ == 0 || (!only_part && part_.size + last.size() != 0)));
  // The only group of an object is its root, which is hashed with the root's flag.
  const bool one_group = part_.group_count == 0;
  part_.groups[part_.group_count] =
      hash_group(last, index_ * groups_per_part + part_.group_count, only_part && one_group);
  ++part_.group_count;
  part_.size += last.size();
  part_.hash = merge_all(part_.group_span(), only_part);
  if (only_part)
    part_.alone = part_.hash;
  else if (index_ == 0)
    part_.alone = one_group ? hash_group(last, 0, true) : merge_all(part_.group_span(), true);
  return part_;
}

}  // namespace cairn::crypto
