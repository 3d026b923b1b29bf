// GiveWay: at the caps, the longest idle connection of one address gives way to a new one, whichever shard it
// is on. There is one GiveWay per shard. A search is a letter that goes round the shards: each shard notes
// since when its longest idle connection of that address has waited. Then the letter goes to the shard with
// the longest idle of all, which ends that connection. No shard touches another's connections.
//   [GW-1] A shard has one search under way at most; draining waits for it.
//   [GW-2] No connection gives way that has sent a byte of its next head, or has waited for less than a
//         second.
#pragma once

#include <vector>

#include "http/h1/server.h"
#include "runtime/drain.h"
#include "runtime/mailbox.h"
#include "serve/admission.h"

namespace cairn::serve {

class GiveWay {
 public:
  // `all` has one GiveWay for each shard, once the shards run.
  GiveWay(Admission& admission, const std::vector<GiveWay*>& all, Mailbox& mailbox, Drain& drain) noexcept;
  void attach(http::Server& server) noexcept { server_ = &server; }

  // On its own shard: `peer` found no place. `now`: one is free. `soon`: one may be free soon.
  enum class Found : std::uint8_t { none, now, soon };
  Found ask(const io::PeerAddress& peer);

 private:
  struct Letter : MailItem {
    GiveWay* home = nullptr;
    Admission::AddressKey key{};
    std::size_t at = 0;    // the shard that the letter is on, or on its way to
    std::size_t left = 0;  // shards to be asked
    std::size_t longest_at = 0;
    Instant longest = Instant::never();
    bool found = false;  // every shard was asked: on its way to the shard with the longest, or back home
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
