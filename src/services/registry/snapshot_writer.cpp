// The snapshot on disk, written while the ledger goes on.
#include "services/registry/files.h"
#include "services/registry/home.h"

namespace cairn::registry {
namespace {

// Of a snapshot, for the time of one look at the ledger.
constexpr std::size_t entries_per_slice = 512;

}  // namespace

Task<Result<>> Home::write_snapshot(Call call) {
  const store::LogPoint point = applied_;
  if (point.sequence == snapshot_at_) co_return Result<>{};
  const bool begun = registry_.ledger().with([&](Ledger& ledger) { return ledger.begin_copy(point); });
  if (!begun) co_return Result<>{};
  SnapshotSeal seal;
  const std::function<std::optional<std::string>()> next = [&] {
    return seal.take(
        registry_.ledger().with([](Ledger& ledger) { return ledger.copy_some(entries_per_slice); }));
  };
  const Result<> written =
      co_await replace_file(call, machine_, registry_.options().directory + "/state", next);
  registry_.ledger().with([](Ledger& ledger) { ledger.end_copy(); });
  if (!written) co_return fail(written.error());
  snapshot_at_ = point.sequence;
  co_return Result<>{};
}

}  // namespace cairn::registry
