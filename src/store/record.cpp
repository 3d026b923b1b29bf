#include "store/record.h"

#include <algorithm>
#include <cstring>

#include "store/encoding.h"

namespace cairn::store {
namespace {

constexpr std::uint8_t record_version = 1;
constexpr std::size_t tag_at = 44, tag_size = 4;
constexpr std::size_t seal_at = 48, seal_size = 16;

crypto::Hash tag_of(ByteView header, const SealKey& key) noexcept {
  return crypto::keyed_hash(key, header.first(tag_at));
}

crypto::Hash seal_of(ByteView header, ByteView meta, const SealKey& key) noexcept {
  crypto::KeyedHasher hasher(key);
  hasher.update(header.first(seal_at));
  hasher.update(meta);
  return hasher.finish();
}

}  // namespace

std::array<std::byte, record_header_size> encode_header(const RecordHeader& header, ByteView meta,
                                                        const SealKey& key) {
  CHECK(meta.size() == header.meta_size);
  std::array<std::byte, record_header_size> bytes{};
  std::size_t at = record_magic.size();
  std::memcpy(bytes.data(), record_magic.data(), record_magic.size());
  const auto number = [&](std::unsigned_integral auto value) {
    for (std::size_t i = 0; i < sizeof value; ++i) bytes[at++] = static_cast<std::byte>(value >> (8 * i));
  };
  number(header.kind);
  number(record_version);
  number(std::uint16_t{0});
  number(header.meta_size);
  number(header.data_size);
  number(header.sequence);
  number(header.origin);
  number(header.watermark);
  number(header.offset);
  CHECK(at == tag_at);
  std::memcpy(bytes.data() + tag_at, tag_of(bytes, key).data(), tag_size);
  std::memcpy(bytes.data() + seal_at, seal_of(bytes, meta, key).data(), seal_size);
  return bytes;
}

std::optional<RecordHeader> peek_header(ByteView bytes) noexcept {
  if (bytes.size() < record_header_size) return std::nullopt;
  RecordHeader header;
  std::uint8_t version = 0;
  std::uint16_t zero = 0;
  if (as_text(bytes.first(record_magic.size())) != record_magic) return std::nullopt;
  FieldReader fields(bytes.first(tag_at).subspan(record_magic.size()));
  fields.number(header.kind).number(version).number(zero);
  if (version != record_version || zero != 0) return std::nullopt;
  fields.number(header.meta_size)
      .number(header.data_size)
      .number(header.sequence)
      .number(header.origin)
      .number(header.watermark)
      .number(header.offset);
  if (header.meta_size > record_meta_max || header.data_size > record_data_max) return std::nullopt;
  if (header.sequence == 0 || header.origin > header.sequence || header.watermark >= header.sequence)
    return std::nullopt;
  return header;
}

bool is_tagged(ByteView header, const SealKey& key) noexcept {
  if (header.size() < record_header_size) return false;
  return std::memcmp(tag_of(header, key).data(), header.data() + tag_at, tag_size) == 0;
}

std::array<std::byte, 16> seal_in(ByteView header) noexcept {
  std::array<std::byte, seal_size> seal{};
  std::memcpy(seal.data(), header.data() + seal_at, seal_size);
  return seal;
}

bool is_sealed(ByteView header, ByteView meta, const SealKey& key) noexcept {
  if (header.size() < record_header_size) return false;
  return std::memcmp(seal_of(header, meta, key).data(), header.data() + seal_at, seal_size) == 0;
}

}  // namespace cairn::store
