// The files of a segment log, apart from its records: a segment's header, the file that keeps the store's
// key, the file that says which segments were taken away, and their names.
//
// All of them begin with a head of 128 bytes: magic, major, minor, fields, and in the last 16 bytes a
// checksum over the rest. Every major version keeps magic, versions and checksum where they are, so that rot
// is never taken for a version from the future.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/heap_bytes.h"
#include "store/record.h"

namespace cairn::store {

// A page of its own: a torn append cannot reach the head.
inline constexpr std::size_t segment_header_size = 4096;
inline constexpr std::size_t head_size = 128;
inline constexpr std::uint16_t format_major = 1;
inline constexpr std::uint16_t format_minor = 0;

struct SegmentHeader {
  std::uint32_t id = 0;
  std::uint32_t previous = 0;        // the segment before it; 0: it is the first
  std::uint32_t previous_end = 0;    // how long that one is; 0: not known
  std::uint64_t previous_last = 0;   // the last sequence that was given away before it
  std::uint64_t first_sequence = 0;  // of its first record
  std::uint64_t watermark = 0;
  crypto::Hash store_key{};
};

// What a head turned out to be.
enum class HeadState : std::uint8_t { good, damaged, newer };

HeapBytes encode_segment_header(const SegmentHeader& header);  // segment_header_size bytes
HeadState decode_segment_header(ByteView bytes, SegmentHeader& out) noexcept;

HeapBytes encode_key_file(const crypto::Hash& store_key);  // head_size bytes
HeadState decode_key_file(ByteView bytes, crypto::Hash& out) noexcept;

// Segments that were taken away: from the first to the last.
struct SegmentRange {
  std::uint32_t first = 0, last = 0;
  friend bool operator==(const SegmentRange&, const SegmentRange&) = default;
};
struct RemovalNotes {
  std::uint64_t turn = 0;   // rises with every write
  std::uint64_t floor = 0;  // the highest sequence that was in any of them
  std::vector<SegmentRange> removed;
};
inline constexpr std::size_t removal_slot_size = 16 << 10;
inline constexpr std::size_t removal_ranges_max = (removal_slot_size - head_size) / 8;

HeapBytes encode_removals(const RemovalNotes& notes, const crypto::Hash& store_key);
// `bytes`: a slot.
HeadState decode_removals(ByteView bytes, const crypto::Hash& store_key, RemovalNotes& out);

// Where the scrubber goes on. head_size bytes.
HeapBytes encode_scrub_note(Position next);
HeadState decode_scrub_note(ByteView bytes, Position& out) noexcept;

// The major version that a head names. Precondition: it is `newer`.
std::uint16_t major_of(ByteView head) noexcept;

// Records of one segment are sealed under a key of their own: a copy in another segment is not a record.
SealKey segment_key(const crypto::Hash& store_key, std::uint32_t segment) noexcept;

// Names the store without telling its key: for data that is derived from its log.
std::array<std::byte, 16> store_id(const crypto::Hash& store_key) noexcept;

// The number in a segment's file name; nothing for any other name.
std::optional<std::uint32_t> parse_segment_name(std::string_view name) noexcept;

}  // namespace cairn::store
