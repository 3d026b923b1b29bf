// Record: the unit of the segment log. A header of fixed size, meta (small, covered by the header's seal),
// data (large, covered by hashes that the meta holds), padding to 8 bytes.
//
// The seal is a keyed BLAKE3 over header and meta under a key of the store. So no bytes that a stranger
// stored can pass for a record when the log is read past damage.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/heap_bytes.h"
#include "base/result.h"
#include "crypto/blake3.h"

namespace cairn::store {

inline constexpr std::string_view record_magic = "cnrc";  // its first bytes
inline constexpr std::size_t record_header_size = 64;
inline constexpr std::size_t record_alignment = 8;
inline constexpr std::uint32_t record_meta_max = 16u << 20;
inline constexpr std::uint32_t record_data_max = 1u << 20;

using SealKey = crypto::Hash;

// Where a record begins.
struct Position {
  std::uint32_t segment = 0;  // from 1
  std::uint32_t offset = 0;
  friend auto operator<=>(const Position&, const Position&) = default;
};

struct RecordHeader {
  std::uint8_t kind = 0;  // the log's owner gives it its meaning
  std::uint32_t meta_size = 0;
  std::uint32_t data_size = 0;
  std::uint64_t sequence = 0;   // of this copy: rises by one with every record appended
  std::uint64_t origin = 0;     // of the operation it stands for: an older sequence when compaction moved it
  std::uint64_t watermark = 0;  // highest sequence known to be durable when it was written
  std::uint32_t offset = 0;     // where in its segment it belongs: a copy elsewhere is not a record

  // With padding.
  std::uint64_t size() const noexcept {
    return (record_header_size + meta_size + std::uint64_t{data_size} + record_alignment - 1) &
           ~std::uint64_t{record_alignment - 1};
  }
};

// A record to be appended.
struct Record {
  std::uint8_t kind = 0;
  std::uint64_t origin = 0;  // 0: its own sequence
  std::string meta;
  std::vector<HeapBytes> data;
  bool reserve = false;  // may use the space kept for a full disk: records that free space must not need any
};

// A record as it was found; its data stays on disk, at `data_at()`.
struct Entry {
  RecordHeader header;
  Position at;
  std::string meta;
  std::uint64_t data_at() const noexcept { return at.offset + record_header_size + header.meta_size; }
};

// Header and seal of a record; `meta` is what the seal covers beside it.
std::array<std::byte, record_header_size> encode_header(const RecordHeader& header, ByteView meta,
                                                        const SealKey& key);
// The header's fields without looking at the seal: nothing when they cannot be a header's.
std::optional<RecordHeader> peek_header(ByteView bytes) noexcept;
// Was the header, as far as it goes without the meta, written under this key? A filter of 32 bits: it spares
// reading the meta that a forged header names, and proves nothing.
bool is_tagged(ByteView header, const SealKey& key) noexcept;
bool is_sealed(ByteView header, ByteView meta, const SealKey& key) noexcept;
// The seal that a header has. Precondition: all of the header is there.
std::array<std::byte, 16> seal_in(ByteView header) noexcept;

}  // namespace cairn::store
