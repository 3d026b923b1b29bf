// PartMap: the hashes that lead from the address to one part's groups, checked, and where the part lies.
#pragma once

#include <cstdint>
#include <vector>

#include "crypto/blake3.h"
#include "store/object_format.h"

namespace cairn::store {

struct PartMap {
  std::uint64_t origin = 0;  // of the object: an older one of the same address lies elsewhere
  Place place;
  std::vector<crypto::Hash> groups;
  bool root = false;  // the only group is the whole object
};

}  // namespace cairn::store
