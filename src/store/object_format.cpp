#include "store/object_format.h"

#include <algorithm>

#include "crypto/outboard.h"
#include "store/encoding.h"

namespace cairn::store {
namespace {

using crypto::Hash;

void write_hashes(FieldWriter& out, const std::vector<Hash>& hashes) {
  out.number(static_cast<std::uint32_t>(hashes.size()));
  for (const Hash& hash : hashes) out.bytes(hash);
}
void read_hashes(FieldReader& in, std::vector<Hash>& out) {
  std::uint32_t count = 0;
  in.number(count);
  // One element more than there are bytes for makes the read incomplete, without memory for as many as it
  // claims.
  out.resize(std::min<std::size_t>(count, in.left() / sizeof(Hash) + 1));
  for (Hash& hash : out) in.bytes(hash);
}
void write_token(FieldWriter& out, const Ulid& token) { out.number(token.high).number(token.low); }
void read_token(FieldReader& in, Ulid& token) { in.number(token.high).number(token.low); }
void write_time(FieldWriter& out, WallTime time) { out.number(static_cast<std::uint64_t>(time.ms)); }
void read_time(FieldReader& in, WallTime& time) {
  std::uint64_t ms = 0;
  in.number(ms);
  time.ms = static_cast<std::int64_t>(ms);
}
void write_place(FieldWriter& out, const Place& place) {
  out.number(place.at.segment).number(place.at.offset).number(place.meta_size).number(place.data_size);
}
void read_place(FieldReader& in, Place& place) {
  in.number(place.at.segment).number(place.at.offset).number(place.meta_size).number(place.data_size);
}
// Written last, and only if there is an owner: bytes without this field decode as before.
void write_owner(FieldWriter& out, const UploadOwner& owner) {
  if (owner == UploadOwner()) return;
  write_token(out, owner.holder);
  out.text(owner.tenant);
}
void read_owner(FieldReader& in, UploadOwner& owner) {
  owner = {};
  if (in.complete()) return;
  read_token(in, owner.holder);
  in.text(owner.tenant);
}
bool read_flag(FieldReader& in, bool& flag) {
  std::uint8_t value = 0;
  in.number(value);
  flag = value == 1;
  return value <= 1;
}

// Keys sort in the order of their fields: big-endian numbers.
void append_big(std::string& key, std::uint64_t value, unsigned bytes) {
  while (bytes-- > 0) key.push_back(static_cast<char>(value >> (8 * bytes)));
}
std::string token_in(char prefix, const Ulid& token) {
  std::string key(1, prefix);
  append_big(key, token.high, 8);
  append_big(key, token.low, 8);
  return key;
}

// Checks all groups of `data` against their hashes; `root`: a single group is the whole object.
bool are_groups_right(ByteView data, std::uint64_t first_group, std::span<const Hash> groups, bool root) {
  if (crypto::group_count(data.size()) != groups.size()) return false;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const ByteView group = data.subspan(i * crypto::group_size, crypto::group_length(data.size(), i));
    if (crypto::hash_group(group, first_group + i, root && groups.size() == 1) != groups[i]) return false;
  }
  return true;
}

}  // namespace

std::string encode(const ObjectRecord& record) {
  FieldWriter out;
  out.bytes(record.address.bytes).text(record.media_type).number(static_cast<std::uint8_t>(record.pinned));
  write_hashes(out, record.groups);
  return out.take();
}
bool decode(ByteView meta, ObjectRecord& out) {
  FieldReader in(meta);
  in.bytes(out.address.bytes).text(out.media_type);
  if (!read_flag(in, out.pinned)) return false;
  read_hashes(in, out.groups);
  return in.complete();
}

std::string encode(const PartRecord& record) {
  FieldWriter out;
  write_token(out, record.token);
  out.number(record.index).bytes(record.hash).bytes(record.root);
  write_hashes(out, record.groups);
  return out.take();
}
bool decode(ByteView meta, PartRecord& out) {
  FieldReader in(meta);
  read_token(in, out.token);
  in.number(out.index).bytes(out.hash).bytes(out.root);
  read_hashes(in, out.groups);
  return in.complete() && !out.groups.empty() && out.groups.size() <= crypto::groups_per_part;
}

std::string encode(const CommitRecord& record) {
  FieldWriter out;
  out.bytes(record.address.bytes);
  write_token(out, record.token);
  out.number(record.size).text(record.media_type).number(static_cast<std::uint8_t>(record.pinned));
  write_hashes(out, record.parts);
  return out.take();
}
bool decode(ByteView meta, CommitRecord& out) {
  FieldReader in(meta);
  in.bytes(out.address.bytes);
  read_token(in, out.token);
  in.number(out.size).text(out.media_type);
  if (!read_flag(in, out.pinned)) return false;
  read_hashes(in, out.parts);
  return in.complete() && out.parts.size() == crypto::part_count(out.size);
}

std::string encode(const RemoveRecord& record) {
  return FieldWriter().bytes(record.address.bytes).number(record.object).take();
}
bool decode(ByteView meta, RemoveRecord& out) {
  return FieldReader(meta).bytes(out.address.bytes).number(out.object).complete();
}

std::string encode(const PinRecord& record) {
  return FieldWriter()
      .bytes(record.address.bytes)
      .number(record.object)
      .number(static_cast<std::uint8_t>(record.pinned))
      .take();
}
bool decode(ByteView meta, PinRecord& out) {
  FieldReader in(meta);
  in.bytes(out.address.bytes).number(out.object);
  return read_flag(in, out.pinned) && in.complete();
}

std::string encode(const UploadRecord& record) {
  FieldWriter out;
  write_token(out, record.token);
  out.number(record.size);
  write_time(out, record.expires);
  out.text(record.media_type);
  write_owner(out, record.owner);
  return out.take();
}
bool decode(ByteView meta, UploadRecord& out) {
  FieldReader in(meta);
  read_token(in, out.token);
  in.number(out.size);
  read_time(in, out.expires);
  in.text(out.media_type);
  read_owner(in, out.owner);
  return in.complete();
}

std::string encode(const AbortRecord& record) {
  FieldWriter out;
  write_token(out, record.token);
  write_time(out, record.expires);
  return out.take();
}
bool decode(ByteView meta, AbortRecord& out) {
  FieldReader in(meta);
  read_token(in, out.token);
  read_time(in, out.expires);
  return in.complete();
}

std::string encode(const QuarantineRecord& record) {
  return FieldWriter()
      .bytes(record.address.bytes)
      .number(record.object)
      .number(record.at.segment)
      .number(record.at.offset)
      .take();
}
bool decode(ByteView meta, QuarantineRecord& out) {
  return FieldReader(meta)
      .bytes(out.address.bytes)
      .number(out.object)
      .number(out.at.segment)
      .number(out.at.offset)
      .complete();
}

bool is_data_right(const RecordHeader& header, ByteView meta, ByteView data) {
  switch (static_cast<RecordKind>(header.kind)) {
    case RecordKind::object: {
      ObjectRecord record;
      if (!decode(meta, record)) return false;
      if (record.groups.empty()) record.groups.push_back(record.address.bytes);
      return are_groups_right(data, 0, record.groups, true) &&
             crypto::merge_all(record.groups, true) == record.address.bytes;
    }
    case RecordKind::part: {
      PartRecord record;
      return decode(meta, record) &&
             are_groups_right(data, std::uint64_t{record.index} * crypto::groups_per_part, record.groups,
                              false) &&
             crypto::merge_all(record.groups, false) == record.hash;
    }
    default:
      return data.empty();
  }
}

std::uint64_t Place::size() const noexcept {
  RecordHeader header;
  header.meta_size = meta_size;
  header.data_size = data_size;
  return header.size();
}

namespace {
constexpr std::uint8_t pinned_flag = 1, whole_again_flag = 2;
}  // namespace

std::string encode(const ObjectEntry& entry) {
  FieldWriter out;
  out.number(entry.origin).number(entry.size);
  write_place(out, entry.place);
  out.number(static_cast<std::uint8_t>((entry.pinned ? pinned_flag : 0) |
                                       (entry.whole_again ? whole_again_flag : 0)));
  out.number(entry.pin_origin).number(entry.quarantine_origin).text(entry.media_type);
  out.number(static_cast<std::uint8_t>(entry.token.has_value()));
  if (entry.token) write_token(out, *entry.token);
  return out.take();
}
bool decode(ByteView value, ObjectEntry& out) {
  FieldReader in(value);
  in.number(out.origin).number(out.size);
  read_place(in, out.place);
  bool parts = false;
  std::uint8_t flags = 0;
  if (!in.number(flags).good() || flags > (pinned_flag | whole_again_flag)) return false;
  out.pinned = (flags & pinned_flag) != 0;
  out.whole_again = (flags & whole_again_flag) != 0;
  in.number(out.pin_origin).number(out.quarantine_origin).text(out.media_type);
  if (!read_flag(in, parts)) return false;
  out.token.reset();
  if (parts) read_token(in, out.token.emplace());
  // An object without parts is a single part.
  const std::uint64_t most = parts ? crypto::object_size_max : crypto::part_size;
  return in.complete() && out.size <= most;
}

std::string encode(const PartEntry& entry) {
  FieldWriter out;
  out.number(entry.origin);
  write_place(out, entry.place);
  return out.bytes(entry.hash).bytes(entry.root).take();
}
bool decode(ByteView value, PartEntry& out) {
  FieldReader in(value);
  in.number(out.origin);
  read_place(in, out.place);
  return in.bytes(out.hash).bytes(out.root).complete();
}

std::string encode(const UploadEntry& entry) {
  FieldWriter out;
  out.number(entry.origin);
  write_place(out, entry.place);
  out.number(entry.size);
  write_time(out, entry.expires);
  out.text(entry.media_type).number(static_cast<std::uint8_t>(entry.committed.has_value()));
  if (entry.committed) out.bytes(entry.committed->bytes);
  write_owner(out, entry.owner);
  return out.take();
}
bool decode(ByteView value, UploadEntry& out) {
  FieldReader in(value);
  in.number(out.origin);
  read_place(in, out.place);
  in.number(out.size);
  read_time(in, out.expires);
  in.text(out.media_type);
  bool committed = false;
  if (!read_flag(in, committed)) return false;
  out.committed.reset();
  if (committed) in.bytes(out.committed.emplace().bytes);
  read_owner(in, out.owner);
  return in.complete();
}

std::string encode(const TombstoneEntry& entry) {
  FieldWriter out;
  out.number(entry.origin);
  write_place(out, entry.place);
  out.number(static_cast<std::uint32_t>(entry.stale.size()));
  for (const std::uint32_t segment : entry.stale) out.number(segment);
  return out.take();
}
bool decode(ByteView value, TombstoneEntry& out) {
  FieldReader in(value);
  in.number(out.origin);
  read_place(in, out.place);
  std::uint32_t count = 0;
  in.number(count);
  if (!in.good() || count != in.left() / 4) return false;
  out.stale.resize(count);
  for (std::uint32_t& segment : out.stale) in.number(segment);
  return in.complete();
}

std::string encode(const LogPoint& point) {
  FieldWriter out;
  out.number(point.sequence).number(point.next.segment).number(point.next.offset);
  if (point.stamp)
    out.bytes(point.stamp->store)
        .number(point.stamp->at.segment)
        .number(point.stamp->at.offset)
        .bytes(point.stamp->seal);
  return out.take();
}
bool decode(ByteView value, LogPoint& out) {
  FieldReader in(value);
  in.number(out.sequence).number(out.next.segment).number(out.next.offset);
  out.stamp.reset();
  if (in.complete()) return true;
  LogStamp& stamp = out.stamp.emplace();
  return in.bytes(stamp.store).number(stamp.at.segment).number(stamp.at.offset).bytes(stamp.seal).complete();
}

AddressKey object_key(const Address& address) noexcept { return {object_prefix, address}; }
AddressKey tombstone_key(const Address& address) noexcept { return {tombstone_prefix, address}; }
Address address_in(std::string_view key) noexcept {
  Address address;
  std::copy_n(as_bytes(key).begin() + 1, address.bytes.size(), address.bytes.begin());
  return address;
}
Ulid token_of(std::string_view key) noexcept {
  Ulid token;
  for (std::size_t i = 1; i < 9; ++i) token.high = token.high << 8 | static_cast<unsigned char>(key[i]);
  for (std::size_t i = 9; i < 17; ++i) token.low = token.low << 8 | static_cast<unsigned char>(key[i]);
  return token;
}
std::uint32_t number_in(std::string_view key) noexcept {
  std::uint32_t number = 0;
  for (const char c : key.substr(key.size() - 4)) number = number << 8 | static_cast<unsigned char>(c);
  return number;
}
std::string part_key(const Ulid& token, std::uint32_t index) {
  std::string key = token_in(part_prefix, token);
  append_big(key, index, 4);
  return key;
}
std::string parts_end(const Ulid& token) { return prefix_end(token_in(part_prefix, token)); }
std::string upload_key(const Ulid& token) { return token_in(upload_prefix, token); }
std::string token_key(const Ulid& token) { return token_in(token_prefix, token); }
std::string quarantine_key(std::uint64_t origin) {
  std::string key(1, quarantine_prefix);
  append_big(key, origin, 8);
  return key;
}
std::string segment_key(std::uint32_t segment) {
  std::string key(1, segment_prefix);
  append_big(key, segment, 4);
  return key;
}
std::string word_key(const Address& address, RecordKind kind) {
  return std::string(AddressKey(word_prefix, address)) + static_cast<char>(kind);
}
std::string rebuilding_key() { return "R"; }
std::string log_point_key() { return "L"; }
std::string totals_key() { return "T"; }

std::string prefix_end(std::string prefix) {
  while (!prefix.empty() && static_cast<unsigned char>(prefix.back()) == 0xff) prefix.pop_back();
  if (!prefix.empty()) prefix.back() = static_cast<char>(prefix.back() + 1);
  return prefix;
}

}  // namespace cairn::store
