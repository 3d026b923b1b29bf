#include "crypto/blake3.h"

// Standard headers that blake3_impl.h would otherwise pull into the extern "C" block.
#include <assert.h>
#include <immintrin.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "crypto/group_hasher.h"

extern "C" {
#include <blake3_impl.h>
}

namespace cairn::crypto {
namespace {

static_assert(std::endian::native == std::endian::little, "chaining words are stored as they lie");
static_assert(chunk_size == BLAKE3_CHUNK_LEN && sizeof(Hash) == BLAKE3_OUT_LEN);

constexpr std::size_t block_size = BLAKE3_BLOCK_LEN;
// Inputs handed to one call of hash_many: a multiple of the widest vector (16).
constexpr std::size_t batch = 64;
// Groups hashed together, so that even their topmost parents come several at a time.
constexpr std::size_t groups_at_once = 4;
// Nodes that merge_all reduces level by level; a power of two.
constexpr std::size_t nodes_at_once = 256;

const std::uint8_t* raw(const std::byte* bytes) noexcept {
  return reinterpret_cast<const std::uint8_t*>(bytes);
}

// How a kind of node is hashed: the flags of all its blocks, of the first and of the last, and whether
// neighbours count up.
struct Flags {
  std::uint8_t all, first, last;
  bool count;
};
constexpr Flags chunk_flags{0, CHUNK_START, CHUNK_END, true};
constexpr Flags parent_flags{PARENT, 0, 0, false};

// Inputs of the same size, side by side, each to one hash.
void hash_row(const std::byte* in, std::size_t count, std::size_t input_size, std::uint64_t counter,
              Flags flags, Hash* out) noexcept {
  std::array<const std::uint8_t*, batch> inputs;
  while (count != 0) {
    const std::size_t now = std::min(count, batch);
    for (std::size_t i = 0; i < now; ++i) inputs[i] = raw(in + i * input_size);
    blake3_hash_many(inputs.data(), now, input_size / block_size, IV, counter, flags.count, flags.all,
                     flags.first, flags.last, reinterpret_cast<std::uint8_t*>(out));
    in += now * input_size;
    out += now;
    count -= now;
    if (flags.count) counter += now;
  }
}

// count/2 parents of neighbours; `out` is not `in`.
void merge_row(const Hash* in, std::size_t count, Hash* out) noexcept {
  hash_row(in->data(), count / 2, 2 * sizeof(Hash), 0, parent_flags, out);
}

Hash hash_chunk(ByteView bytes, std::uint64_t counter, bool root) noexcept {
  std::array<std::uint32_t, 8> words;
  std::copy(std::begin(IV), std::end(IV), words.begin());
  unsigned flags = CHUNK_START;
  while (bytes.size() > block_size) {
    blake3_compress_in_place(words.data(), raw(bytes.data()), block_size, counter,
                             static_cast<std::uint8_t>(flags));
    flags = 0;
    bytes = bytes.subspan(block_size);
  }
  flags |= CHUNK_END | (root ? ROOT : 0u);
  std::array<std::byte, block_size> block{};
  std::copy(bytes.begin(), bytes.end(), block.begin());
  blake3_compress_in_place(words.data(), raw(block.data()), static_cast<std::uint8_t>(bytes.size()), counter,
                           static_cast<std::uint8_t>(flags));
  return std::bit_cast<Hash>(words);
}

// At most nodes_at_once nodes to one. An odd node at the end of a row rises unchanged: that is the shape of
// BLAKE3's tree, whose left side is always the largest complete one.
Hash merge_some(std::span<const Hash> nodes, bool root) noexcept {
  std::array<Hash, nodes_at_once / 2> first;
  std::array<Hash, nodes_at_once / 4> second;
  Hash* target = first.data();
  Hash* other = second.data();
  while (nodes.size() > 2) {
    merge_row(nodes.data(), nodes.size(), target);
    if (nodes.size() % 2 != 0) target[nodes.size() / 2] = nodes.back();
    nodes = {target, nodes.size() / 2 + nodes.size() % 2};
    std::swap(target, other);
  }
  return nodes.size() == 1 ? nodes[0] : merge(nodes[0], nodes[1], root);
}

// A binary counter of complete subtrees of equal runs of nodes: after n runs it holds one subtree for each
// bit of n. The last run is not pushed but given to finish(), so that the last merge is the root's.
class Climb {
 public:
  void push(Hash hash) noexcept {
    for (std::uint64_t bits = runs_++; (bits & 1) != 0; bits >>= 1)
      hash = merge(stack_[--depth_], hash, false);
    stack_[depth_++] = hash;
  }
  Hash finish(Hash hash, bool root) noexcept {
    while (depth_ != 0) {
      --depth_;
      hash = merge(stack_[depth_], hash, root && depth_ == 0);
    }
    return hash;
  }

 private:
  std::uint64_t runs_ = 0;
  std::size_t depth_ = 0;
  std::array<Hash, 64> stack_;
};

}  // namespace

void warm_up() noexcept { blake3_simd_degree(); }

void hash_chunks(const std::byte* bytes, std::size_t count, std::uint64_t first_chunk, Hash* out) noexcept {
  hash_row(bytes, count, chunk_size, first_chunk, chunk_flags, out);
}

Hash hash_group_of(std::span<Hash, chunks_per_group> hashes, std::size_t chunks, ByteView rest,
                   std::uint64_t group_index, bool root) noexcept {
  CHECK(!root || group_index == 0);
  const std::uint64_t first_chunk = group_index * chunks_per_group;
  if (chunks == 0 && rest.size() <= chunk_size) return hash_chunk(rest, first_chunk, root);
  const std::size_t whole = rest.size() / chunk_size;
  hash_chunks(rest.data(), whole, first_chunk + chunks, hashes.data() + chunks);
  chunks += whole;
  rest = rest.subspan(whole * chunk_size);
  if (!rest.empty()) {
    hashes[chunks] = hash_chunk(rest, first_chunk + chunks, false);
    ++chunks;
  }
  return merge_some(hashes.first(chunks), root);
}

Hash hash_group(ByteView bytes, std::uint64_t group_index, bool root) noexcept {
  CHECK(bytes.size() <= group_size);
  std::array<Hash, chunks_per_group> hashes;
  return hash_group_of(hashes, 0, bytes, group_index, root);
}

void hash_groups(ByteView bytes, std::uint64_t first_group, std::span<Hash> out) noexcept {
  CHECK(bytes.size() == out.size() * group_size);
  std::array<Hash, groups_at_once * chunks_per_group> first;
  std::array<Hash, groups_at_once * chunks_per_group / 2> second;
  while (!out.empty()) {
    const std::size_t groups = std::min(out.size(), groups_at_once);
    std::size_t count = groups * chunks_per_group;
    hash_chunks(bytes.data(), count, first_group * chunks_per_group, first.data());
    // Whole groups have as many chunks as a power of two, so no parent spans two of them.
    Hash* source = first.data();
    Hash* target = second.data();
    for (; count > 2 * groups; count /= 2) {
      merge_row(source, count, target);
      std::swap(source, target);
    }
    merge_row(source, count, out.data());
    bytes = bytes.subspan(groups * group_size);
    out = out.subspan(groups);
    first_group += groups;
  }
}

Hash merge(const Hash& left, const Hash& right, bool root) noexcept {
  std::array<Hash, 2> block{left, right};
  std::array<std::uint32_t, 8> words;
  std::copy(std::begin(IV), std::end(IV), words.begin());
  blake3_compress_in_place(words.data(), raw(block[0].data()), block_size, 0,
                           static_cast<std::uint8_t>(PARENT | (root ? ROOT : 0u)));
  return std::bit_cast<Hash>(words);
}

Hash merge_all(std::span<const Hash> nodes, bool root) noexcept {
  CHECK(!nodes.empty());
  if (nodes.size() <= nodes_at_once) return merge_some(nodes, root);
  Climb climb;
  for (; nodes.size() > nodes_at_once; nodes = nodes.subspan(nodes_at_once))
    climb.push(merge_some(nodes.first(nodes_at_once), false));
  return climb.finish(merge_some(nodes, false), root);
}

Address hash_object(ByteView whole) noexcept {
  if (whole.size() <= group_size) return Address{hash_group(whole, 0, true)};
  Climb climb;
  std::array<Hash, groups_per_part> groups;
  std::uint64_t first_group = 0;
  for (; whole.size() > part_size; whole = whole.subspan(part_size)) {
    hash_groups(whole.first(part_size), first_group, groups);
    climb.push(merge_some(groups, false));
    first_group += groups_per_part;
  }
  std::size_t count = whole.size() / group_size;
  hash_groups(whole.first(count * group_size), first_group, std::span(groups).first(count));
  whole = whole.subspan(count * group_size);
  if (!whole.empty()) {
    groups[count] = hash_group(whole, first_group + count, false);
    ++count;
  }
  // An object of one part has its root here, a larger one in the climb.
  const std::span<const Hash> last(groups.data(), count);
  return Address{climb.finish(merge_some(last, first_group == 0), true)};
}

Hash keyed_hash(const Hash& key, ByteView bytes) noexcept {
  KeyedHasher hasher(key);
  hasher.update(bytes);
  return hasher.finish();
}

KeyedHasher::KeyedHasher(const Hash& key) noexcept { blake3_hasher_init_keyed(&state_, raw(key.data())); }

void KeyedHasher::update(ByteView bytes) noexcept {
  blake3_hasher_update(&state_, bytes.data(), bytes.size());
}

Hash KeyedHasher::finish() const noexcept {
  Hash hash;
  blake3_hasher_finalize(&state_, reinterpret_cast<std::uint8_t*>(hash.data()), hash.size());
  return hash;
}

}  // namespace cairn::crypto
