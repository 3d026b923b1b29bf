// Paths of tiles and entry bundles of a stranger: what is accepted is written back as the very same bytes.
#include "crypto/tile.h"

#include "fuzz/splits.h"

namespace {

using namespace cairn;
using namespace cairn::crypto;
using fuzz::require;

void check_path(std::string_view path) {
  const auto tile = parse_tile_path(path);
  if (!tile) return;
  require(tile->level <= tile_level_max && tile->width >= 1 && tile->width <= tile_width_max, "ranges");
  require(!tile->entries || tile->level == 0, "entries have no level");
  require(format_tile_path(*tile) == path, "path");
}

void check_bundle(ByteView bundle, unsigned count) {
  const auto entries = parse_entries(bundle, count);
  if (!entries) {
    require(entries.error().code == ErrorCode::malformed, "code");
    return;
  }
  require(entries->size() == count, "count");
  std::string written;
  for (const ByteView entry : *entries) append_entry(written, entry);
  require(written == as_text(bundle), "bundle");
}

}  // namespace

// The input as a path; and as a bundle, behind one byte for the number of its entries.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::Exact input({reinterpret_cast<const char*>(data), size});
  check_path(input.view());
  if (size == 0) return 0;
  const fuzz::Exact bundle(input.view().substr(1));
  check_bundle(as_bytes(bundle.view()), data[0]);
  check_bundle(as_bytes(bundle.view()), ~0u);
  return 0;
}
