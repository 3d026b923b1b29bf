#include "io/dht.h"

#include <algorithm>

#include "crypto/blake3.h"

namespace cairn::io {

DhtKey dht_key(std::string_view tag, std::uint32_t network, const Address& address) {
  // The length of the tag (8 bytes), the tag, the network (4 bytes), the address; numbers little-endian.
  std::string named;
  for (unsigned i = 0; i < 8; ++i) named += static_cast<char>(std::uint64_t{tag.size()} >> (8 * i));
  named += tag;
  for (unsigned i = 0; i < 4; ++i) named += static_cast<char>(network >> (8 * i));
  named += as_text(address.bytes);
  const Address hash = crypto::hash_object(as_bytes(named));
  DhtKey key;
  std::copy_n(hash.bytes.begin(), key.bytes.size(), key.bytes.begin());
  return key;
}

const char* find_fault(const DhtValue& value) noexcept {
  if (value.id == 0) return "a value of the DHT needs an id";
  if (value.bytes.empty()) return "a value of the DHT needs bytes";
  if (value.bytes.size() > dht_value_max) return "too large for the DHT";
  return nullptr;
}

const char* find_fault(const DhtOptions& options) noexcept {
  if (options.mode == DhtMode::local) return nullptr;
  if (options.network == 0) return "the network of a DHT needs a number";
  if (!options.bind.path.empty() || options.bind.host.empty()) return "a DHT needs an address to bind";
  if (std::ranges::any_of(options.bootstrap,
                          [](const Endpoint& node) { return node.host.empty() || node.port == 0; }))
    return "a node of the DHT is HOST:PORT";
  return nullptr;
}

}  // namespace cairn::io
