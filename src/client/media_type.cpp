#include "client/media_type.h"

#include <algorithm>
#include <array>
#include <utility>

#include "codec/media_type.h"

namespace cairn::client {
namespace {

using Row = std::pair<std::string_view, std::string_view>;
constexpr auto table = std::to_array<Row>({
    {"avif", "image/avif"},
    {"bin", "application/octet-stream"},
    {"bz2", "application/x-bzip2"},
    {"c", "text/x-c; charset=utf-8"},
    {"cbor", "application/cbor"},
    {"cpp", "text/x-c++; charset=utf-8"},
    {"css", "text/css; charset=utf-8"},
    {"csv", "text/csv; charset=utf-8"},
    {"deb", "application/vnd.debian.binary-package"},
    {"epub", "application/epub+zip"},
    {"flac", "audio/flac"},
    {"geojson", "application/geo+json"},
    {"gif", "image/gif"},
    {"gz", "application/gzip"},
    {"h", "text/x-c; charset=utf-8"},
    {"htm", "text/html; charset=utf-8"},
    {"html", "text/html; charset=utf-8"},
    {"ico", "image/vnd.microsoft.icon"},
    {"iso", "application/x-iso9660-image"},
    {"jpeg", "image/jpeg"},
    {"jpg", "image/jpeg"},
    {"js", "text/javascript; charset=utf-8"},
    {"json", "application/json"},
    {"jsonl", "application/jsonl"},
    {"log", "text/plain; charset=utf-8"},
    {"m4a", "audio/mp4"},
    {"map", "application/json"},
    {"mbtiles", "application/vnd.mapbox-vector-tile-archive"},
    {"md", "text/markdown; charset=utf-8"},
    {"mjs", "text/javascript; charset=utf-8"},
    {"mov", "video/quicktime"},
    {"mp3", "audio/mpeg"},
    {"mp4", "video/mp4"},
    {"mvt", "application/vnd.mapbox-vector-tile"},
    {"ogg", "audio/ogg"},
    {"otf", "font/otf"},
    {"pbf", "application/x-protobuf"},
    {"pdf", "application/pdf"},
    {"pmtiles", "application/vnd.pmtiles"},
    {"png", "image/png"},
    {"py", "text/x-python; charset=utf-8"},
    {"sh", "text/x-shellscript; charset=utf-8"},
    {"svg", "image/svg+xml"},
    {"tar", "application/x-tar"},
    {"tgz", "application/gzip"},
    {"tif", "image/tiff"},
    {"tiff", "image/tiff"},
    {"toml", "application/toml"},
    {"ttf", "font/ttf"},
    {"txt", "text/plain; charset=utf-8"},
    {"wasm", "application/wasm"},
    {"wav", "audio/wav"},
    {"webm", "video/webm"},
    {"webmanifest", "application/manifest+json"},
    {"webp", "image/webp"},
    {"woff", "font/woff"},
    {"woff2", "font/woff2"},
    {"xml", "application/xml"},
    {"xz", "application/x-xz"},
    {"yaml", "application/yaml"},
    {"yml", "application/yaml"},
    {"zip", "application/zip"},
    {"zst", "application/zstd"},
});
static_assert(std::ranges::is_sorted(table, {}, &Row::first));

}  // namespace

std::string_view guess_media_type(std::string_view name) noexcept {
  constexpr std::string_view unknown = "application/octet-stream";
  const std::size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot == 0 || name.find('/', dot) != std::string_view::npos)
    return unknown;
  std::array<char, 16> lower;
  const std::string_view extension = name.substr(dot + 1);
  if (extension.size() > lower.size()) return unknown;
  std::ranges::transform(extension, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  const std::string_view key(lower.data(), extension.size());
  const auto at = std::ranges::lower_bound(table, key, {}, &Row::first);
  return at != table.end() && at->first == key ? at->second : unknown;
}

bool names_media_type(std::string_view text) noexcept {
  const auto is_token = [](std::string_view word) {
    return !word.empty() && std::ranges::all_of(word, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             std::string_view("!#$&-^_.+").find(c) != std::string_view::npos;
    });
  };
  std::string_view name = text.substr(0, text.find(';'));
  while (name.size() < text.size() && name.ends_with(' ')) name.remove_suffix(1);
  const std::size_t slash = name.find('/');
  return slash != name.npos && is_token(name.substr(0, slash)) && is_token(name.substr(slash + 1)) &&
         codec::is_media_type(text);
}

}  // namespace cairn::client
