#include "store/segment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "store/encoding.h"
#include "store/log.h"

namespace cairn::store {
namespace {

constexpr std::string_view segment_magic = "cairnseg";
constexpr std::string_view key_magic = "cairnkey";
constexpr std::string_view removals_magic = "cairnrem";
constexpr std::string_view scrub_magic = "cairnscr";
constexpr std::size_t major_at = 8;
constexpr std::size_t checksum_at = 112, checksum_size = head_size - checksum_at;
constexpr std::string_view name_end = ".seg";
constexpr std::size_t name_digits = 10;

// Says what state the head is in; `fields` is then the bytes between versions and checksum.
HeadState open_head(ByteView bytes, std::string_view magic, ByteView& fields) noexcept {
  if (bytes.size() < head_size || as_text(bytes.first(magic.size())) != magic) return HeadState::damaged;
  const Address checksum = crypto::hash_object(bytes.first(checksum_at));
  if (std::memcmp(checksum.bytes.data(), bytes.data() + checksum_at, checksum_size) != 0)
    return HeadState::damaged;
  if (major_of(bytes) > format_major) return HeadState::newer;
  fields = bytes.subspan(12, checksum_at - 12);
  return HeadState::good;
}

HeapBytes close_head(std::string_view magic, std::string_view fields, std::size_t size) {
  std::string text(magic);
  text += FieldWriter().number(format_major).number(format_minor).take();
  text += fields;
  CHECK(text.size() <= checksum_at);
  text.resize(checksum_at);
  const Address checksum = crypto::hash_object(as_bytes(text));
  text += as_text(ByteView(checksum.bytes).first(checksum_size));
  text.resize(size);
  HeapBytes bytes(size);
  bytes.append(as_bytes(text));
  return bytes;
}

}  // namespace

std::uint16_t major_of(ByteView head) noexcept {
  std::uint16_t major = 0;
  FieldReader(head.subspan(major_at)).number(major);
  return major;
}

HeapBytes encode_segment_header(const SegmentHeader& header) {
  FieldWriter fields;
  fields.number(header.id)
      .number(header.previous)
      .number(header.previous_end)
      .number(header.previous_last)
      .number(header.first_sequence)
      .number(header.watermark)
      .bytes(header.store_key);
  return close_head(segment_magic, fields.take(), segment_header_size);
}

HeadState decode_segment_header(ByteView bytes, SegmentHeader& out) noexcept {
  ByteView fields;
  const HeadState state = open_head(bytes, segment_magic, fields);
  if (state != HeadState::good) return state;
  FieldReader(fields)
      .number(out.id)
      .number(out.previous)
      .number(out.previous_end)
      .number(out.previous_last)
      .number(out.first_sequence)
      .number(out.watermark)
      .bytes(out.store_key);
  return HeadState::good;
}

HeapBytes encode_key_file(const crypto::Hash& store_key) {
  return close_head(key_magic, FieldWriter().number(std::uint32_t{0}).bytes(store_key).take(), head_size);
}

HeadState decode_key_file(ByteView bytes, crypto::Hash& out) noexcept {
  ByteView fields;
  const HeadState state = open_head(bytes, key_magic, fields);
  if (state != HeadState::good) return state;
  std::uint32_t zero = 0;
  FieldReader(fields).number(zero).bytes(out);
  return HeadState::good;
}

// The ranges are behind the head. A seal of the store's own covers them and the numbers in the head.
HeapBytes encode_removals(const RemovalNotes& notes, const crypto::Hash& store_key) {
  CHECK(notes.removed.size() <= removal_ranges_max);
  FieldWriter ranges;
  for (const SegmentRange& range : notes.removed) ranges.number(range.first).number(range.last);
  const std::string list = ranges.take();
  FieldWriter fields;
  fields.number(static_cast<std::uint32_t>(notes.removed.size())).number(notes.turn).number(notes.floor);
  std::string text = fields.take();
  const crypto::Hash seal = crypto::keyed_hash(store_key, as_bytes(text + list));
  text += as_text(seal);
  const HeapBytes head = close_head(removals_magic, text, head_size);
  HeapBytes bytes(head.size() + list.size());
  bytes.append(head.bytes());
  bytes.append(as_bytes(list));
  return bytes;
}

HeadState decode_removals(ByteView bytes, const crypto::Hash& store_key, RemovalNotes& out) {
  ByteView fields;
  const HeadState state = open_head(bytes, removals_magic, fields);
  if (state != HeadState::good) return state;
  std::uint32_t count = 0;
  crypto::Hash seal{};
  FieldReader(fields).number(count).number(out.turn).number(out.floor).bytes(seal);
  const std::size_t numbers = sizeof count + sizeof out.turn + sizeof out.floor;
  if (count > removal_ranges_max || bytes.size() < head_size + std::size_t{count} * 8)
    return HeadState::damaged;
  const ByteView list = bytes.subspan(head_size, std::size_t{count} * 8);
  const std::string sealed = std::string(as_text(fields.first(numbers))) + std::string(as_text(list));
  if (crypto::keyed_hash(store_key, as_bytes(sealed)) != seal) return HeadState::damaged;
  FieldReader reader(list);
  out.removed.resize(count);
  for (SegmentRange& range : out.removed) reader.number(range.first).number(range.last);
  return HeadState::good;
}

HeapBytes encode_scrub_note(Position next) {
  return close_head(scrub_magic, FieldWriter().number(next.segment).number(next.offset).take(), head_size);
}

HeadState decode_scrub_note(ByteView bytes, Position& out) noexcept {
  ByteView fields;
  const HeadState state = open_head(bytes, scrub_magic, fields);
  if (state == HeadState::good) FieldReader(fields).number(out.segment).number(out.offset);
  return state;
}

SealKey segment_key(const crypto::Hash& store_key, std::uint32_t segment) noexcept {
  std::array<std::byte, 4> id;
  for (std::size_t i = 0; i < id.size(); ++i) id[i] = static_cast<std::byte>(segment >> (8 * i));
  return crypto::keyed_hash(store_key, id);
}

std::array<std::byte, 16> store_id(const crypto::Hash& store_key) noexcept {
  const crypto::Hash hash = crypto::keyed_hash(store_key, as_bytes("cairn index"));
  std::array<std::byte, 16> id{};
  std::copy_n(hash.begin(), id.size(), id.begin());
  return id;
}

std::string segment_path(const std::string& directory, std::uint32_t segment) {
  return fmt::format("{}/{:010}{}", directory, segment, name_end);
}

std::optional<std::uint32_t> parse_segment_name(std::string_view name) noexcept {
  if (name.size() != name_digits + name_end.size() || !name.ends_with(name_end)) return std::nullopt;
  std::uint64_t id = 0;
  for (const char c : name.substr(0, name_digits)) {
    if (c < '0' || c > '9') return std::nullopt;
    id = id * 10 + static_cast<std::uint64_t>(c - '0');
  }
  if (id == 0 || id > 0xffff'ffffu) return std::nullopt;
  return static_cast<std::uint32_t>(id);
}

}  // namespace cairn::store
