// NameChange: one change of a name, signed by the key that may change it (docs/formats/name-change.md). A
// name is the newest of its changes; its sequence is the ETag that clients see.
//
// A value. Decoding is strict, and checks the signature: a change that was decoded was made by its key.
// Whether that key may change the name is left to the caller.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/address.h"
#include "base/bytes.h"
#include "base/result.h"
#include "base/units.h"
#include "crypto/ed25519.h"
#include "format/name.h"

namespace cairn::format {

inline constexpr std::string_view name_change_tag = "cairn-name-change-v1";
inline constexpr std::size_t name_change_size_max = 1024;
inline constexpr std::size_t note_size_max = 256;

// Invariants of a change that was signed or decoded: `name` is a name, `sequence` is 1 or more, `at` lies in
// 1970..9999, and `note` is at most note_size_max bytes of UTF-8 without control characters.
struct NameChange {
  std::string name;
  std::optional<Address> manifest = {};  // the object that it names; none: the name is removed
  std::uint64_t sequence = 0;            // 1 for the first change of the name, then one more each
  WallTime at = {};
  std::string note = {};
  crypto::Ed25519PublicKey key = {};

  friend bool operator==(const NameChange&, const NameChange&) = default;
};

// Signs with `key`, whatever `change.key` says. `invalid` when the change breaks an invariant.
Result<std::string> sign_name_change(const NameChange& change, const crypto::Ed25519Key& key);
// `malformed`, or `invalid_sig`.
Result<NameChange> decode_name_change(ByteView record);
// The same without a look at the signature: for a record that was checked, or signed, before it was kept.
Result<NameChange> read_name_change(ByteView record);

}  // namespace cairn::format
