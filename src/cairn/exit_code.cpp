#include "cairn/exit_code.h"

namespace cairn::cli {

Exit exit_of(const client::Failure& failure) noexcept {
  switch (failure.code()) {
    case ErrorCode::ok:
      return Exit::ok;
    case ErrorCode::not_found:
    case ErrorCode::pruned:
      return Exit::not_found;
    case ErrorCode::integrity:
    case ErrorCode::invalid_sig:
      return Exit::integrity;
    case ErrorCode::busy:
    case ErrorCode::draining:
    case ErrorCode::degraded:
    case ErrorCode::breaker_open:
    case ErrorCode::not_ready:
      return Exit::busy;
    case ErrorCode::timeout:
    case ErrorCode::timeout_read:
      return Exit::deadline;
    case ErrorCode::unauthorized:
    case ErrorCode::forbidden:
    case ErrorCode::not_allowed:
    case ErrorCode::quota:
      return Exit::refused;
    case ErrorCode::conflict:
    case ErrorCode::pinned:
    case ErrorCode::duplicate_approval:
    case ErrorCode::revoked_key:
    case ErrorCode::chain_mismatch:
    case ErrorCode::quorum_failed:
    case ErrorCode::upload_gap:
    case ErrorCode::precondition_failed:
      return Exit::conflict;
    case ErrorCode::connection_lost:
      return Exit::unreachable;
    case ErrorCode::cancelled:
      return Exit::interrupted;
    default:
      return Exit::failed;
  }
}

}  // namespace cairn::cli
