// Manifest: a tree of objects as one object, deterministic CBOR (docs/formats/manifest.md).
//
// A value: the same entries always encode to the same bytes, so that the same directory has the same address.
// Decoding is strict: bytes that encode_manifest would not have written are malformed, and so is every path
// that could lead out of the directory into which the manifest is restored.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/bytes.h"
#include "base/result.h"
#include "base/units.h"

namespace cairn::format {

inline constexpr std::string_view manifest_media_type = "application/vnd.cairn.manifest+cbor";
inline constexpr std::size_t manifest_size_max = std::size_t{64} << 20;
inline constexpr std::size_t path_size_max = 4096;
inline constexpr std::size_t segment_size_max = 255;

enum class ManifestKind : std::uint8_t { file, directory, site, pack };
std::string_view name_of(ManifestKind kind) noexcept;

struct ManifestEntry {
  std::string path;
  Address address;
  std::uint64_t size = 0;
  std::string media_type;

  friend bool operator==(const ManifestEntry&, const ManifestEntry&) = default;
};

// Invariants of a manifest that encodes or was decoded:
// 1. Entries ascend by the bytes of their paths; no path is there twice, or as a directory of another.
// 2. Every path is valid (is_manifest_path); every media type is 1..127 printable ASCII characters.
struct Manifest {
  ManifestKind kind = ManifestKind::directory;
  std::vector<ManifestEntry> entries;
  std::optional<std::string> title = {};
  std::optional<WallTime> created = {};
  std::optional<Address> previous = {};

  const ManifestEntry* find(std::string_view path) const noexcept;
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

// UTF-8 without NUL, relative, segments of 1..255 bytes between single slashes, none of them `.` or `..`.
bool is_manifest_path(std::string_view path) noexcept;

// Sorts the entries. `invalid` when the manifest breaks an invariant.
Result<std::string> encode_manifest(Manifest manifest);
Result<Manifest> decode_manifest(ByteView bytes);

}  // namespace cairn::format
