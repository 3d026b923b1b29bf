#include "format/manifest.h"

#include <algorithm>
#include <array>
#include <limits>

#include "base/utf8.h"
#include "codec/cbor.h"
#include "codec/media_type.h"

namespace cairn::format {
namespace {

constexpr std::array<std::string_view, 4> kinds{"file", "directory", "site", "pack"};
constexpr std::size_t title_size_max = 1024;
constexpr std::size_t entry_type_size_max = 127;

Result<> malformed(const char* what) { return fail(ErrorCode::malformed, what, Side::client); }

const ManifestEntry* find_entry(const std::vector<ManifestEntry>& entries, std::string_view path) noexcept {
  const auto at = std::ranges::lower_bound(entries, path, {}, &ManifestEntry::path);
  return at != entries.end() && at->path == path ? &*at : nullptr;
}

Result<> check(const Manifest& manifest) {
  const std::vector<ManifestEntry>& entries = manifest.entries;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (!is_manifest_path(entries[i].path)) return malformed("a path of the manifest");
    const std::string& type = entries[i].media_type;
    if (!codec::is_media_type(type) || type.size() > entry_type_size_max)
      return malformed("a media type of the manifest");
    if (i > 0 && !(entries[i - 1].path < entries[i].path)) return malformed("the order of the entries");
  }
  // Sorted now, so that a path can be looked up: `a` and `a/b` need not be neighbours (`a-c` is between).
  for (const ManifestEntry& entry : entries)
    for (std::size_t slash = entry.path.find('/'); slash != std::string::npos;
         slash = entry.path.find('/', slash + 1))
      if (find_entry(entries, std::string_view(entry.path).substr(0, slash)) != nullptr)
        return malformed("a path is a file and a directory");
  if (manifest.title && (manifest.title->size() > title_size_max || !is_utf8(*manifest.title)))
    return malformed("the title");
  if (manifest.created && manifest.created->ms < 0) return malformed("the time of creation");
  return {};
}

Result<Address> read_address(codec::CborDecoder& cbor) {
  TRY(const ByteView bytes, cbor.read_bytes());
  Address address;
  if (bytes.size() != address.bytes.size())
    return fail(ErrorCode::malformed, "an address of the manifest", Side::client);
  std::ranges::copy(bytes, address.bytes.begin());
  return address;
}

Result<ManifestEntry> read_entry(codec::CborDecoder& cbor) {
  ManifestEntry entry;
  TRY(const std::size_t pairs, cbor.read_map());
  if (pairs != 4) return fail(ErrorCode::malformed, "an entry of the manifest", Side::client);
  TRY_VOID(cbor.expect_text("path"));
  TRY(const std::string_view path, cbor.read_text());
  entry.path = path;
  TRY_VOID(cbor.expect_text("size"));
  TRY(entry.size, cbor.read_uint());
  TRY_VOID(cbor.expect_text("type"));
  TRY(const std::string_view type, cbor.read_text());
  entry.media_type = type;
  TRY_VOID(cbor.expect_text("address"));
  TRY(entry.address, read_address(cbor));
  return entry;
}

Result<> read_pair(codec::CborDecoder& cbor, Manifest& manifest, bool& has_kind, bool& has_entries) {
  TRY(const std::string_view key, cbor.read_text());
  if (key == "kind") {
    TRY(const std::string_view text, cbor.read_text());
    const auto at = std::ranges::find(kinds, text);
    if (at == kinds.end()) return malformed("the kind of the manifest");
    manifest.kind = static_cast<ManifestKind>(at - kinds.begin());
    has_kind = true;
  } else if (key == "title") {
    TRY(const std::string_view text, cbor.read_text());
    manifest.title = text;
  } else if (key == "created") {
    TRY(const std::uint64_t ms, cbor.read_uint());
    if (ms > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      return malformed("the time of creation");
    manifest.created = WallTime{static_cast<std::int64_t>(ms)};
  } else if (key == "entries") {
    TRY(const std::size_t count, cbor.read_array());
    manifest.entries.reserve(std::min<std::size_t>(count, 4096));
    for (std::size_t i = 0; i < count; ++i) {
      TRY(ManifestEntry entry, read_entry(cbor));
      manifest.entries.push_back(std::move(entry));
    }
    has_entries = true;
  } else if (key == "previous") {
    TRY(manifest.previous, read_address(cbor));
  } else {
    return malformed("an unknown key of the manifest");
  }
  return {};
}

}  // namespace

std::string_view name_of(ManifestKind kind) noexcept { return kinds[static_cast<std::size_t>(kind)]; }

const ManifestEntry* Manifest::find(std::string_view path) const noexcept {
  return find_entry(entries, path);
}

bool is_manifest_path(std::string_view path) noexcept {
  if (path.empty() || path.size() > path_size_max || !is_utf8(path)) return false;
  if (path.find('\0') != std::string_view::npos) return false;
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    const std::string_view segment = path.substr(at, end - at);
    if (segment.empty() || segment.size() > segment_size_max || segment == "." || segment == "..")
      return false;
    at = end + 1;
  }
  return true;
}

Result<std::string> encode_manifest(Manifest manifest) {
  std::ranges::sort(manifest.entries, {}, &ManifestEntry::path);
  if (const auto right = check(manifest); !right) return fail(ErrorCode::invalid, right.error().context);
  std::string out;
  codec::CborEncoder cbor(out);
  cbor.write_map(std::uint64_t{2} + manifest.title.has_value() + manifest.created.has_value() +
                 manifest.previous.has_value());
  cbor.write_text("kind");
  cbor.write_text(name_of(manifest.kind));
  if (manifest.title) {
    cbor.write_text("title");
    cbor.write_text(*manifest.title);
  }
  if (manifest.created) {
    cbor.write_text("created");
    cbor.write_uint(static_cast<std::uint64_t>(manifest.created->ms));
  }
  cbor.write_text("entries");
  cbor.write_array(manifest.entries.size());
  for (const ManifestEntry& entry : manifest.entries) {
    cbor.write_map(4);
    cbor.write_text("path");
    cbor.write_text(entry.path);
    cbor.write_text("size");
    cbor.write_uint(entry.size);
    cbor.write_text("type");
    cbor.write_text(entry.media_type);
    cbor.write_text("address");
    cbor.write_bytes(entry.address.bytes);
  }
  if (manifest.previous) {
    cbor.write_text("previous");
    cbor.write_bytes(manifest.previous->bytes);
  }
  cbor.finish();
  if (out.size() > manifest_size_max) return fail(ErrorCode::invalid, "the manifest is too large");
  return out;
}

Result<Manifest> decode_manifest(ByteView bytes) {
  if (bytes.size() > manifest_size_max)
    return fail(ErrorCode::malformed, "the manifest is too large", Side::client);
  codec::CborDecoder cbor(bytes);
  Manifest manifest;
  bool has_kind = false, has_entries = false;
  TRY(const std::size_t pairs, cbor.read_map());
  for (std::size_t i = 0; i < pairs; ++i) TRY_VOID(read_pair(cbor, manifest, has_kind, has_entries));
  TRY_VOID(cbor.finish());
  if (!has_kind || !has_entries)
    return fail(ErrorCode::malformed, "the manifest lacks kind or entries", Side::client);
  TRY_VOID(check(manifest));
  return manifest;
}

}  // namespace cairn::format
