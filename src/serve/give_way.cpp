#include "serve/give_way.h"

#include <algorithm>

namespace cairn::serve {

GiveWay::GiveWay(Admission& admission, const std::vector<GiveWay*>& all, Mailbox& mailbox,
                 Drain& drain) noexcept
    : admission_(admission), all_(all), mailbox_(mailbox), drain_(drain) {
  letter_.home = this;
  letter_.deliver = &GiveWay::deliver;
}

http::Server::Among GiveWay::among(const Admission::AddressKey& key) noexcept {
  return {[](const void* of, const io::PeerAddress& peer) noexcept {
            return Admission::key_of(peer) == *static_cast<const Admission::AddressKey*>(of);
          },
          &key};
}

GiveWay::Found GiveWay::ask(const io::PeerAddress& peer) {
  if (under_way_) return Found::soon;
  auto guard = drain_.try_enter();
  if (!guard) return Found::none;
  letter_.key = admission_.who_gives_way(peer);
  if (all_.size() == 1) return server_->let_one_give_way(among(letter_.key)) ? Found::now : Found::none;
  under_way_ = std::move(*guard);
  const auto here = std::find(all_.begin(), all_.end(), this);
  letter_.at = static_cast<std::size_t>(here - all_.begin());
  letter_.left = all_.size();
  letter_.longest = Instant::never();
  letter_.found = false;
  read(letter_);
  return Found::soon;
}

void GiveWay::deliver(MailItem& item) {
  auto& letter = static_cast<Letter&>(item);
  letter.home->all_[letter.at]->read(letter);
}

// Runs on the shard that the letter has come to, which is this object's.
void GiveWay::read(Letter& letter) noexcept {
  GiveWay& home = *letter.home;
  if (letter.found) {
    if (letter.at == letter.longest_at && letter.longest != Instant::never()) {
      server_->let_one_give_way(among(letter.key));
      letter.longest = Instant::never();
    }
    if (this != &home) return home.send(letter.left);
    under_way_ = DrainGuard();
    return;
  }
  if (const auto since = server_->longest_idle(among(letter.key)); since && *since < letter.longest) {
    letter.longest = *since;
    letter.longest_at = letter.at;
  }
  if (--letter.left > 0) return home.send((letter.at + 1) % all_.size());
  // All shards have been asked. From here on `left` is the index of the home shard.
  letter.found = true;
  letter.left = (letter.at + 1) % all_.size();
  home.send(letter.longest == Instant::never() ? letter.left : letter.longest_at);
}

void GiveWay::send(std::size_t to) noexcept {
  letter_.at = to;
  all_[to]->mailbox_.post(letter_);
}

}  // namespace cairn::serve
