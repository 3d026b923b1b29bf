// SampleObject: bytes from a seed with all their hashes, for the tests of the tree.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "crypto/object_hasher.h"
#include "crypto/outboard.h"

namespace cairn::crypto {

using Bytes = std::vector<std::byte>;

inline Bytes sample_bytes(std::size_t size, std::uint32_t seed) {
  Bytes bytes(size);
  std::uint32_t state = seed * 2654435761u + 1;
  for (std::byte& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

// The bytes of one part, group by group.
inline PartHash hash_part(ByteView bytes, std::uint64_t index, bool only_part) {
  PartHasher hasher(index);
  for (; bytes.size() > group_size; bytes = bytes.subspan(group_size)) hasher.add(bytes.first(group_size));
  return hasher.finish(bytes, only_part);
}

struct SampleObject {
  Bytes bytes;
  ObjectHash hash;
  std::vector<PartHash> parts;
  std::vector<Hash> part_hashes;

  SampleObject(std::size_t size, std::uint32_t seed) : bytes(sample_bytes(size, seed)) {
    ObjectHasher object;
    object.update(bytes);
    hash = object.finish();
    for (std::uint64_t index = 0; index < part_count(size); ++index) {
      const std::size_t begin = index * part_size;
      const ByteView part = ByteView(bytes).subspan(begin, std::min(part_size, size - begin));
      parts.push_back(hash_part(part, index, part_count(size) == 1));
      part_hashes.push_back(parts.back().hash);
    }
  }

  std::uint64_t size() const { return bytes.size(); }
  ByteView group(std::uint64_t index) const {
    return ByteView(bytes).subspan(index * group_size, group_length(size(), index));
  }

  // The proof of bytes first..last, written `step` bytes at a time, which are 64 or more.
  Bytes prove(std::uint64_t first, std::uint64_t last, std::size_t step = 4096) const {
    ProofBuilder builder(size(), first, last, part_hashes);
    Bytes proof, buffer(step);
    while (!builder.done()) {
      if (const auto part = builder.wants_part())
        CHECK(builder.give_part(parts[*part].group_span()).has_value());
      const std::size_t written = builder.write(buffer);
      CHECK(written != 0);
      proof.insert(proof.end(), buffer.begin(), buffer.begin() + static_cast<std::ptrdiff_t>(written));
    }
    return proof;
  }
};

}  // namespace cairn::crypto
