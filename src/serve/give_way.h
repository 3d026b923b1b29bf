// GiveWay: at the caps, the longest idle connection of one address gives way to a newcomer, whichever shard
// it is on. One per shard. A search is a letter that goes round: every shard says since when the longest idle
// of its connections waits, and the shard that has the longest of all ends it. No shard touches another's
// connections.
//   [GW-1] A shard has one search under way at most; draining waits for it.
//   [GW-2] Nobody gives way who has sent a byte of its next head, or has waited for less than a second.
#pragma once

#include <vector>

#include "http/h1/server.h"
#include "runtime/drain.h"
#include "runtime/mailbox.h"
#include "serve/admission.h"

namespace cairn::serve {

class GiveWay {
 public:
  // `all` has one for each shard once they run.
  GiveWay(Admission& admission, const std::vector<GiveWay*>& all, Mailbox& mailbox, Drain& drain) noexcept;
  void attach(http::Server& server) noexcept { server_ = &server; }

  // On its shard: `peer` found no place. `now`: one is free. `soon`: it may be.
  enum class Found : std::uint8_t { none, now, soon };
  Found ask(const io::PeerAddress& peer);

 private:
  struct Letter : MailItem {
    GiveWay* home = nullptr;
    Admission::AddressKey key{};
    std::size_t at = 0;    // the shard it is on, or on its way to
    std::size_t left = 0;  // shards to be asked
    std::size_t longest_at = 0;
    Instant longest = Instant::never();
    bool found = false;  // on its way to who has it, or back
  };
  static http::Server::Among among(const Admission::AddressKey& key) noexcept;
  static void deliver(MailItem& item);
  void read(Letter& letter) noexcept;
  void send(std::size_t to) noexcept;

  Admission& admission_;
  const std::vector<GiveWay*>& all_;
  Mailbox& mailbox_;
  Drain& drain_;
  http::Server* server_ = nullptr;
  Letter letter_;
  DrainGuard under_way_;
};

}  // namespace cairn::serve
