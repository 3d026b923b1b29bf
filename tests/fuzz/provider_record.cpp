// Provider records against arbitrary bytes: as a record, and as the body of a record with a right signature,
// which no stranger without the key gets past. What is accepted encodes to the very same bytes.
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/check.h"
#include "format/provider_record.h"
#include "format/signed_record.h"

namespace {

using namespace cairn;

void check(std::string_view bytes, const crypto::Ed25519Key& key) {
  const auto record = format::decode_provider_record(as_bytes(bytes));
  if (!record) return;
  CHECK(bytes.size() <= format::provider_record_size_max);
  CHECK(record->endpoints.size() <= format::endpoints_max);
  if (record->key == key.public_key())
    CHECK(format::sign_provider_record(*record, key) == std::string(bytes));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::array<std::byte, 32> seed;
  seed.fill(std::byte{1});
  static const crypto::Ed25519Key key(seed);
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  check(bytes, key);
  check(format::sign_record(format::provider_record_tag, bytes, key), key);
  return 0;
}
