// Manifests as a stranger stores them: what is accepted encodes to the very same bytes, and no accepted path
// leads out of its directory.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "format/manifest.h"

using namespace cairn;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const ByteView bytes(reinterpret_cast<const std::byte*>(data), size);
  const auto manifest = format::decode_manifest(bytes);
  if (!manifest) return 0;
  for (const format::ManifestEntry& entry : manifest->entries) {
    const std::string path = "/" + entry.path + "/";
    CHECK(path.find("/../") == std::string::npos && path.find("/./") == std::string::npos);
    CHECK(path.find("//") == std::string::npos && path.find('\0') == std::string::npos);
    CHECK(manifest->find(entry.path) == &entry);
  }
  const auto again = format::encode_manifest(*manifest);
  CHECK(again.has_value() && as_text(bytes) == *again);
  return 0;
}
