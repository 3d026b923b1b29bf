#include "cairn/refusal.h"

#include <fmt/format.h>

#include <algorithm>

#include "crypto/macaroon.h"

namespace cairn::cli {
namespace {

// Whether the capability allows one object and not another.
bool depends_on_object(std::string_view token) {
  const auto macaroon = crypto::parse_token(token);
  return macaroon && std::ranges::any_of(macaroon->caveats, [](const crypto::Caveat& caveat) {
           const std::string_view text = caveat.text;
           return text.starts_with("addr ") || text.starts_with("max_bytes ");
         });
}

}  // namespace

bool will_repeat(const client::Failure& failure, std::string_view token) {
  switch (failure.code()) {
    case ErrorCode::unauthorized:
    case ErrorCode::not_allowed:
    case ErrorCode::storage_full:
    case ErrorCode::connection_lost:
    case ErrorCode::timeout:
    case ErrorCode::busy:
    case ErrorCode::quota:
    case ErrorCode::draining:
    case ErrorCode::degraded:
    case ErrorCode::breaker_open:
    case ErrorCode::not_ready:
      return true;  // errors that may pass were retried already
    case ErrorCode::forbidden:
      return !depends_on_object(token);
    default:
      return false;
  }
}

void Refusal::add(const client::Failure& failure) {
  if (!repeated_ && will_repeat(failure, session_->storage->transport().options().token)) repeated_ = failure;
}

void Refusal::tell(const client::Failure& failure, std::string_view subject) {
  if (failure.code() == ErrorCode::cancelled) return;
  const bool again = repeated_ && failure.code() == repeated_->code();
  if (again && std::exchange(told_, true)) return;
  session_->terminal.complain(failure, subject);
}

void Refusal::skip(std::size_t count, ExitOfSeveral& exits) noexcept {
  if (!repeated_ || count == 0) return;
  skipped_ += count;
  exits.add(exit_of(*repeated_));
}

void Refusal::conclude() const {
  if (skipped_ > 0)
    session_->terminal.warn(fmt::format("{} more {} not tried: the answer would be the same", skipped_,
                                        skipped_ == 1 ? "was" : "were"));
}

}  // namespace cairn::cli
