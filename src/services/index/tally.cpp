#include "services/index/tally.h"

#include <tuple>
#include <utility>

namespace cairn::index {

namespace {

constexpr std::size_t quorum = 2;

}  // namespace

bool is_newer(const SignedChange& a, const SignedChange& b) noexcept {
  return std::tie(a.change.sequence, a.change.at, a.bytes) >
         std::tie(b.change.sequence, b.change.at, b.bytes);
}

Tally::Tally(Question question, const Judge& judge, WallTime now)
    : question_(std::move(question)), judge_(judge), now_(now) {
  if (const auto* address = std::get_if<Address>(&question_)) providers_.emplace(*address);
}

void Tally::answered(Answer answer) {
  ++answered_;
  if (providers_)
    add_providers(std::move(answer.providers));
  else
    add_changes(std::move(answer.changes));
}

void Tally::add_providers(std::vector<SignedProvider> providers) {
  for (SignedProvider& provider : providers)
    if (judge_.accepts(provider.record)) providers_->add(std::move(provider), now_);
}

void Tally::add_changes(std::vector<SignedChange> changes) {
  SignedChange* best = nullptr;
  for (SignedChange& change : changes) {
    if (change.change.name != std::get<std::string>(question_) || !judge_.accepts(change.change)) continue;
    if (best == nullptr || is_newer(change, *best)) best = &change;
  }
  if (best == nullptr) return;
  if (newest_ && best->bytes == newest_->bytes) {
    ++agreeing_;
  } else if (!newest_ || is_newer(*best, *newest_)) {
    newest_ = std::move(*best);
    agreeing_ = 1;
  }
}

bool Tally::is_found() const noexcept {
  if (providers_) return providers_->has_fresh(now_);
  return newest_ && (agreeing_ >= quorum || all_answered());
}

Tally::Verdict Tally::verdict() const noexcept {
  if (is_found()) return Verdict::found;
  if (asked_ == 0 || !all_ended()) return Verdict::undecided;
  return failed_ > 0 ? Verdict::failed : Verdict::not_here;
}

Answer Tally::take() && {
  Answer answer;
  if (providers_) answer.providers = std::move(*providers_).take();
  if (newest_) answer.changes.push_back(std::move(*newest_));
  return answer;
}

}  // namespace cairn::index
