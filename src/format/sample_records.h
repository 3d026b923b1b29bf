// For tests: a change of a name and a provider record, of known content and of one key.
#pragma once

#include "base/check.h"
#include "format/name_change.h"
#include "format/provider_record.h"
#include "format/sample_registry.h"

namespace cairn::format {

inline crypto::Ed25519Key sample_record_key() {
  std::array<std::byte, 32> seed;
  seed.fill(std::byte{1});
  return crypto::Ed25519Key(seed);
}
inline Address sample_record_address() {
  return *parse_address("b3:d4c011a0d6bdb33ed9a6b5724a4aff3f75c74830cf82db9be05994b1d4e0a526");
}
inline NameChange sample_change() {
  return {"docs/readme", sample_record_address(), 3,
          sample_time,   "second edition",        sample_record_key().public_key()};
}
inline Endpoint sample_endpoint(std::string_view ip, std::uint16_t port, bool tls) {
  Endpoint made{.port = port, .tls = tls};
  CHECK(parse_hex_to(ip, made.ip));
  return made;
}
inline ProviderRecord sample_provider_record() {
  return {sample_record_address(),
          sample_record_key().public_key(),
          {sample_endpoint("00000000000000000000ffffc0000201", 7400, false),
           sample_endpoint("20010db8000000000000000000000001", 7443, true)},
          7,
          WallTime{sample_time.ms + 600'000}};
}

}  // namespace cairn::format
