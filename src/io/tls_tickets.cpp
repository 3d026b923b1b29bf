#include "io/tls_tickets.h"

#include <openssl/rand.h>

#include <cstring>
#include <utility>

namespace cairn::io {
namespace {

bool fill(std::span<std::byte> bytes) noexcept {
  return RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(bytes.size())) == 1;
}

}  // namespace

void TlsTicketKeys::State::drop_old(Instant now) noexcept {
  if (newest && now - newest->made >= period) before = std::exchange(newest, std::nullopt);
  if (before && now - before->made >= period * 2) before.reset();
}

void TlsTicketKeys::drop_old(Instant now) noexcept {
  state_.with([&](State& state) { state.drop_old(now); });
}

std::optional<TlsTicketKey> TlsTicketKeys::sealing(Instant now) {
  return state_.with([&](State& state) -> std::optional<TlsTicketKey> {
    state.drop_old(now);
    if (!state.newest) {
      Aged made{.key = {}, .made = now};
      if (!fill(made.key.name) || !fill(made.key.cipher.reveal_to_fill()) ||
          !fill(made.key.mac.reveal_to_fill()))
        return std::nullopt;
      state.newest = made;
    }
    return state.newest->key;
  });
}

std::optional<TlsTicketKey> TlsTicketKeys::opening(Instant now, const unsigned char* name) {
  return state_.with([&](State& state) -> std::optional<TlsTicketKey> {
    state.drop_old(now);
    for (const auto* each : {&state.newest, &state.before})
      if (*each && std::memcmp((*each)->key.name.data(), name, TlsTicketKey::name_size) == 0)
        return (*each)->key;
    return std::nullopt;
  });
}

}  // namespace cairn::io
