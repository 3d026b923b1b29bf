// Keys that begin with `b3:`, as they stand in paths: an address, or malformed, and never a name. What is
// accepted is written in one way.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "services/index/asked.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace cairn;
  const std::string text = "b3:" + std::string(reinterpret_cast<const char*>(data), size);
  const auto key = index::parse_key(text);
  if (!key) {
    CHECK(key.error().code == ErrorCode::malformed);
    return 0;
  }
  CHECK(key->address.has_value() && key->name.empty());
  const std::string written = format_address(*key->address);
  CHECK(written.size() == text.size());
  const auto again = index::parse_key(written);
  CHECK(again && again->address == key->address);
  return 0;
}
