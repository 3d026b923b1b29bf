// ProviderRecord: a node says, under its own key, that it has an object and where it is asked for it
// (docs/formats/provider-record.md). Nodes send them to the index, and the index puts them into the DHT.
//
// A value. Decoding is strict, and checks the signature: a record that was decoded was made by its node.
// Whether the object is there is only known to whoever fetches it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/bytes.h"
#include "base/result.h"
#include "base/units.h"
#include "crypto/ed25519.h"

namespace cairn::format {

inline constexpr std::string_view provider_record_tag = "cairn-provider-record-v1";
inline constexpr std::size_t provider_record_size_max = 1024;
inline constexpr std::size_t endpoints_max = 8;

// Where a node listens. An address and never a host name, so that whoever reads the record can tell from it
// which network it leads to.
struct Endpoint {
  std::array<std::byte, 16> ip = {};  // IPv6, or IPv4 mapped
  std::uint16_t port = 0;
  bool tls = false;

  friend auto operator<=>(const Endpoint&, const Endpoint&) = default;
};

// Invariants of a record that was signed or decoded: at most endpoints_max endpoints, each once, the best
// first, none with port 0; `sequence` is 1 or more; `expiry` lies in 1970..9999.
struct ProviderRecord {
  Address address;
  crypto::Ed25519PublicKey key = {};
  std::vector<Endpoint> endpoints = {};
  std::uint64_t sequence = 0;  // of all records of the node; of two for one address the higher is in force
  WallTime expiry = {};

  // The node no longer has the object.
  bool is_withdrawal() const noexcept { return endpoints.empty(); }
  friend bool operator==(const ProviderRecord&, const ProviderRecord&) = default;
};

// Signs with `key`, whatever `record.key` says. `invalid` when the record breaks an invariant.
Result<std::string> sign_provider_record(const ProviderRecord& record, const crypto::Ed25519Key& key);
// `malformed`, or `invalid_sig`.
Result<ProviderRecord> decode_provider_record(ByteView record);
// The same without a look at the signature: for a record that was checked before it was kept.
Result<ProviderRecord> read_provider_record(ByteView record);

}  // namespace cairn::format
