// TlsTicketKeys: the keys that seal session tickets (RFC 5077, RFC 8446). All contexts of a service share
// them, so that a ticket of one shard resumes on every shard, and a reload of certificates loses no session.
//   [TK-1] A key seals for one period and opens for one more. Soon after that it is wiped: who learns the
//   present keys
//         cannot read what older tickets protect.
// The keys live in memory only. From any shard.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include "base/units.h"
#include "crypto/secret_bytes.h"
#include "runtime/guarded.h"

namespace cairn::io {

struct TlsTicketKey {
  static constexpr std::size_t name_size = 16;
  std::array<std::byte, name_size> name{};
  crypto::SecretBytes<32> cipher, mac;
};

class TlsTicketKeys {
 public:
  static constexpr Duration period = Duration::seconds(3600);

  // The key for new tickets; made anew when the last one's period is over. Nothing: the system has no
  // randomness, so there are no tickets.
  std::optional<TlsTicketKey> sealing(Instant now);
  // The key of that name, unless it is too old.
  std::optional<TlsTicketKey> opening(Instant now, const unsigned char* name);
  // Wipes the keys that are too old. To be called every `look`; sealing() and opening() do it as well.
  void drop_old(Instant now) noexcept;
  static constexpr Duration look = Duration::seconds(60);

 private:
  struct Aged {
    TlsTicketKey key;
    Instant made{};
  };
  struct State {
    std::optional<Aged> newest, before;
    void drop_old(Instant now) noexcept;
  };
  Guarded<State, lock_rank::tls_tickets> state_;
};

}  // namespace cairn::io
