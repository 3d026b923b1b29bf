// Changes of names against arbitrary bytes: as a record, and as the body of a record with a right signature,
// which no stranger without the key gets past. What is accepted encodes to the very same bytes.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "format/name_change.h"
#include "format/signed_record.h"

namespace {

using namespace cairn;

void check(std::string_view record, const crypto::Ed25519Key& key) {
  const auto change = format::decode_name_change(as_bytes(record));
  if (!change) return;
  const std::string name = "/" + change->name + "/";
  CHECK(name.find("/../") == std::string::npos && name.find("//") == std::string::npos);
  CHECK(record.size() <= format::name_change_size_max);
  if (change->key == key.public_key()) CHECK(format::sign_name_change(*change, key) == std::string(record));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::array<std::byte, 32> seed;
  seed.fill(std::byte{1});
  static const crypto::Ed25519Key key(seed);
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  CHECK(!format::is_name(bytes) || bytes.size() <= format::name_size_max);
  check(bytes, key);
  check(format::sign_record(format::name_change_tag, bytes, key), key);
  return 0;
}
