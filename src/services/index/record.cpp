#include "services/index/record.h"

#include <algorithm>

#include "crypto/blake3.h"
#include "store/encoding.h"

namespace cairn::index {
namespace {

using store::FieldReader;
using store::FieldWriter;

constexpr char change_prefix = 'C', manifest_prefix = 'M';
constexpr std::uint8_t no_manifest = 0, with_manifest = 1;

// The end of a change's key: higher sequences come first.
constexpr std::size_t turned_size = 8;
void append_turned(std::string& key, std::uint64_t sequence) {
  for (int shift = 56; shift >= 0; shift -= 8) key += static_cast<char>(~sequence >> shift);
}

}  // namespace

std::string format_tag(const NameState& state) { return '"' + std::to_string(state.sequence) + '"'; }

std::uint64_t ManifestPlace::data_at() const noexcept {
  return std::uint64_t{at.offset} + store::record_header_size + sizeof(Address::bytes);
}

std::string encode(const ChangeRecord& record) {
  return FieldWriter()
      .text(std::string_view(record.by).substr(0, by_size_max))
      .bytes(as_bytes(record.change))
      .take();
}
bool decode(ByteView meta, ChangeRecord& out) {
  FieldReader in(meta);
  in.text(out.by);
  if (!in.good() || in.left() == 0 || in.left() > format::name_change_size_max) return false;
  out.change.resize(in.left());
  return in.bytes({reinterpret_cast<std::byte*>(out.change.data()), out.change.size()}).complete();
}

std::string encode_address(const Address& address) { return std::string(as_text(address.bytes)); }
bool decode_address(ByteView meta, Address& out) { return FieldReader(meta).bytes(out.bytes).complete(); }

bool is_data_right(const store::RecordHeader& header, ByteView meta, ByteView data) {
  if (header.kind != static_cast<std::uint8_t>(RecordKind::manifest)) return data.empty();
  Address address;
  return decode_address(meta, address) && crypto::hash_object(data) == address;
}

std::string name_key(std::string_view name) {
  std::string key;
  key.reserve(name.size() + 1);
  return key.append(1, name_prefix).append(name);
}
std::string_view name_in(std::string_view key) noexcept { return key.substr(1); }

std::string change_key(std::string_view name, std::uint64_t sequence) {
  std::string key;
  key.reserve(name.size() + 2 + turned_size);
  key.append(1, change_prefix).append(name).append(1, '\0');  // no name has a zero byte
  append_turned(key, sequence);
  return key;
}
std::uint64_t sequence_in(std::string_view key) noexcept {
  std::uint64_t turned = 0;
  for (const char c : key.substr(key.size() - turned_size))
    turned = turned << 8 | static_cast<unsigned char>(c);
  return ~turned;
}

std::string manifest_key(const Address& address) {
  return std::string(1, manifest_prefix).append(as_text(address.bytes));
}
std::string totals_key() { return "T"; }

std::string encode(const NameState& state) {
  FieldWriter out;
  out.number(state.sequence)
      .number(static_cast<std::uint64_t>(state.at.ms))
      .number(state.manifest ? with_manifest : no_manifest);
  if (state.manifest) out.bytes(state.manifest->bytes);
  return out.take();
}
bool decode(ByteView value, NameState& out) {
  FieldReader in(value);
  std::uint64_t at = 0;
  std::uint8_t has = 0;
  in.number(out.sequence).number(at).number(has);
  out.at = WallTime{static_cast<std::int64_t>(at)};
  out.manifest.reset();
  if (has == with_manifest) in.bytes(out.manifest.emplace().bytes);
  return in.complete() && has <= with_manifest;
}

std::string encode(const ManifestPlace& place) {
  return FieldWriter().number(place.at.segment).number(place.at.offset).number(place.size).take();
}
bool decode(ByteView value, ManifestPlace& out) {
  return FieldReader(value).number(out.at.segment).number(out.at.offset).number(out.size).complete();
}

std::string encode(const Totals& totals) {
  return FieldWriter().number(totals.names).number(totals.changes).number(totals.manifests).take();
}
bool decode(ByteView value, Totals& out) {
  return FieldReader(value).number(out.names).number(out.changes).number(out.manifests).complete();
}

}  // namespace cairn::index
