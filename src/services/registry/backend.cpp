#include "services/registry/backend.h"

namespace cairn::registry {

Task<Result<std::vector<store::Entry>>> EmbeddedBackend::advance(Call call, MaybeHead expected, HeadMark next,
                                                                 std::vector<store::Record> batch) {
  if (head_ != expected) co_return fail(ErrorCode::chain_mismatch, "another version was committed first");
  auto placed = co_await log_->append(call, std::move(batch));
  if (placed) head_ = next;
  co_return placed;
}

}  // namespace cairn::registry
