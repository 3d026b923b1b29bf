// The object store's records (in the log) and entries (in the index), and their encodings.
//
// Records are operations: each says one thing about an address or an upload, and the operation with the
// highest origin wins. Entries are the sum of the records; they point into the log.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/ulid.h"
#include "base/units.h"
#include "crypto/blake3.h"
#include "store/log.h"

namespace cairn::store {

enum class RecordKind : std::uint8_t {
  object = 1,  // an object of at most one part, with its bytes
  part,        // one part of an upload, with its bytes
  commit,      // an object made of an upload's parts
  remove,      // an object is gone
  pin,         // an object is pinned, or no longer
  upload,      // an upload began
  abort,       // an upload ended without an object
  quarantine,  // stored bytes were found not to match
};

struct ObjectRecord {
  Address address;
  std::string media_type;
  std::vector<crypto::Hash> groups;  // of more than one group; of a single one the address says it
  bool pinned = false;               // in place of bad bytes that were pinned
};
struct PartRecord {
  Ulid token;
  std::uint32_t index = 0;
  crypto::Hash hash{};  // as a subtree of a larger object
  crypto::Hash root{};  // as an object of its own; part 0 only
  std::vector<crypto::Hash> groups;
};
struct CommitRecord {
  Address address;
  Ulid token;
  std::uint64_t size = 0;
  std::string media_type;
  std::vector<crypto::Hash> parts;
  bool pinned = false;  // as an object's
};
struct RemoveRecord {
  Address address;
  std::uint64_t object = 0;  // origin of the object that is removed
};
struct PinRecord {
  Address address;
  std::uint64_t object = 0;  // origin of the object that is meant: a later one of this address is not
  bool pinned = false;
};
// The owner that began an upload. Uploads of no owner, and records and entries without this field, leave it
// empty.
struct UploadOwner {
  Ulid holder;         // the capability, however it was narrowed
  std::string tenant;  // empty: it is bound to none
  friend bool operator==(const UploadOwner&, const UploadOwner&) = default;
};
struct UploadRecord {
  Ulid token;
  std::uint64_t size = 0;  // 0: not said
  WallTime expires{};
  std::string media_type;
  UploadOwner owner = {};
};
struct AbortRecord {
  Ulid token;
  WallTime expires{};  // of the upload: it would end by itself then
};
struct QuarantineRecord {
  Address address;
  std::uint64_t object = 0;  // origin
  // Where the record with bad bytes is. Offset 0: the bytes are gone. Segment 0: the object is whole again.
  Position at;
  bool lifts() const noexcept { return at.segment == 0; }
};
inline bool is_gone(const QuarantineRecord& record) noexcept {
  return record.at.offset == 0 && !record.lifts();
}

std::string encode(const ObjectRecord& record);
std::string encode(const PartRecord& record);
std::string encode(const CommitRecord& record);
std::string encode(const RemoveRecord& record);
std::string encode(const PinRecord& record);
std::string encode(const UploadRecord& record);
std::string encode(const AbortRecord& record);
std::string encode(const QuarantineRecord& record);
// Nothing when the bytes are not exactly such a record.
bool decode(ByteView meta, ObjectRecord& out);
bool decode(ByteView meta, PartRecord& out);
bool decode(ByteView meta, CommitRecord& out);
bool decode(ByteView meta, RemoveRecord& out);
bool decode(ByteView meta, PinRecord& out);
bool decode(ByteView meta, UploadRecord& out);
bool decode(ByteView meta, AbortRecord& out);
bool decode(ByteView meta, QuarantineRecord& out);

// Whether the data of a record agrees with its meta: for the log's DataCheck, the scrubber and compaction.
bool is_data_right(const RecordHeader& header, ByteView meta, ByteView data);

// --- the index

// Where a record is and how much of it is meta, so that its data can be read without reading it first.
struct Place {
  Position at;
  std::uint32_t meta_size = 0;
  std::uint32_t data_size = 0;
  std::uint64_t data_at() const noexcept { return at.offset + record_header_size + meta_size; }
  std::uint64_t size() const noexcept;  // of the whole record
  std::uint64_t end() const noexcept { return at.offset + size(); }
  friend bool operator==(const Place&, const Place&) = default;
};

struct ObjectEntry {
  std::uint64_t origin = 0;
  std::uint64_t size = 0;
  Place place;                // of the object record, or of the commit record
  std::optional<Ulid> token;  // made of parts
  bool pinned = false;
  std::uint64_t pin_origin = 0;         // of the latest word on pinning; 0: none
  std::uint64_t quarantine_origin = 0;  // of the latest word on its bytes being bad; 0: none
  std::string media_type;
  bool whole_again = false;  // that word was that they are not bad any more
  bool quarantined() const noexcept { return quarantine_origin != 0 && !whole_again; }
};
struct PartEntry {
  std::uint64_t origin = 0;
  Place place;
  crypto::Hash hash{};
  crypto::Hash root{};
};
struct UploadEntry {
  std::uint64_t origin = 0;
  Place place;
  std::uint64_t size = 0;  // 0: not said
  WallTime expires{};
  std::string media_type;
  std::optional<Address> committed;  // an object was made of it; kept until it expires, for a repeated commit
  UploadOwner owner = {};
};
// A removed object of which older copies are still in segments: without it they would come back when the
// index is made anew.
struct TombstoneEntry {
  std::uint64_t origin = 0;
  Place place;
  std::vector<std::uint32_t> stale;  // segments that hold an older copy
};

std::string encode(const ObjectEntry& entry);
std::string encode(const PartEntry& entry);
std::string encode(const UploadEntry& entry);
std::string encode(const TombstoneEntry& entry);
bool decode(ByteView value, ObjectEntry& out);
bool decode(ByteView value, PartEntry& out);
bool decode(ByteView value, UploadEntry& out);
bool decode(ByteView value, TombstoneEntry& out);

// Every request makes some: they need no memory of their own.
class AddressKey {
 public:
  AddressKey(char prefix, const Address& address) noexcept {
    bytes_.front() = prefix;
    std::copy_n(as_text(address.bytes).begin(), sizeof address.bytes, bytes_.begin() + 1);
  }
  // NOLINTNEXTLINE(google-explicit-constructor): it is text that happens to live here
  operator std::string_view() const noexcept { return {bytes_.data(), bytes_.size()}; }

 private:
  std::array<char, 1 + sizeof(Address)> bytes_;
};

AddressKey object_key(const Address& address) noexcept;
std::string part_key(const Ulid& token, std::uint32_t index);
std::string parts_end(const Ulid& token);  // behind the last part of it
std::string upload_key(const Ulid& token);
std::string token_key(const Ulid& token);  // → the address its parts belong to
AddressKey tombstone_key(const Address& address) noexcept;
// Precondition: the key is whole; of an object or a tombstone.
Address address_in(std::string_view key) noexcept;
Ulid token_of(std::string_view key) noexcept;  // of the key of a part, an upload or a token
// The number at the end of the key of a part or a segment.
std::uint32_t number_in(std::string_view key) noexcept;
std::string quarantine_key(std::uint64_t origin);
std::string log_point_key();
std::string totals_key();
std::string segment_key(std::uint32_t segment);
std::string rebuilding_key();  // there while the index is made anew
// A word (pin or quarantine) on an object that is not there yet, while the index is made anew.
std::string word_key(const Address& address, RecordKind kind);
// Everything with this first letter is in [prefix, prefix_end(prefix)).
std::string prefix_end(std::string prefix);
inline constexpr char object_prefix = 'o', part_prefix = 'p', upload_prefix = 'u', token_prefix = 'k',
                      tombstone_prefix = 't', quarantine_prefix = 'q', segment_prefix = 's',
                      word_prefix = 'w';

std::string encode(const LogPoint& point);
bool decode(ByteView value, LogPoint& out);

}  // namespace cairn::store
