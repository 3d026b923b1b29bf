// The records of the index's log, and the keys and values of the map that is derived from them
// (docs/formats/name-log.md).
//
// The log keeps every change of every name, and manifests. The map answers who asks: the newest state of a
// name, its history, and where a manifest is in the log.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/address.h"
#include "base/units.h"
#include "format/name_change.h"
#include "store/log.h"

namespace cairn::index {

enum class RecordKind : std::uint8_t {
  change = 1,      // of a name
  manifest,        // with its bytes
  forget_manifest  // its bytes were found not to match
};

// A change of a name as the log and the history keep it.
struct ChangeRecord {
  std::string by;      // who asked for it: the name of a capability; empty: nobody said
  std::string change;  // the signed bytes (format/name_change.h)
};
inline constexpr std::size_t by_size_max = 255;

// The newest change of a name, as far as readers ask for it.
struct NameState {
  std::uint64_t sequence = 0;
  WallTime at{};
  std::optional<Address> manifest = {};  // none: the name was removed
  friend bool operator==(const NameState&, const NameState&) = default;
};
// The ETag of a name: its sequence, in quotes.
std::string format_tag(const NameState& state);

// Where the bytes of a manifest are.
struct ManifestPlace {
  store::Position at;  // of the record
  std::uint32_t size = 0;
  std::uint64_t data_at() const noexcept;
};

struct Totals {
  std::uint64_t names = 0, changes = 0, manifests = 0;
  friend bool operator==(const Totals&, const Totals&) = default;
};

// --- records. The meta of a manifest, and of one that is forgotten, is its address.
std::string encode(const ChangeRecord& record);
bool decode(ByteView meta, ChangeRecord& out);
std::string encode_address(const Address& address);
bool decode_address(ByteView meta, Address& out);
// Whether the bytes behind a record are those that its meta says; asked for records that a crash may have
// torn.
bool is_data_right(const store::RecordHeader& header, ByteView meta, ByteView data);

// --- the map. Names in their order; the changes of a name from the newest to the oldest.
inline constexpr char name_prefix = 'N';
std::string name_key(std::string_view name);
std::string_view name_in(std::string_view key) noexcept;  // of a name_key
std::string change_key(std::string_view name, std::uint64_t sequence);
std::uint64_t sequence_in(std::string_view key) noexcept;  // of a change_key
std::string manifest_key(const Address& address);
std::string totals_key();

std::string encode(const NameState& state);
bool decode(ByteView value, NameState& out);
std::string encode(const ManifestPlace& place);
bool decode(ByteView value, ManifestPlace& out);
std::string encode(const Totals& totals);
bool decode(ByteView value, Totals& out);

}  // namespace cairn::index
