#include "services/registry/snapshot_writer.h"

#include "services/registry/files.h"

namespace cairn::registry {
namespace {

// Entries of a snapshot that are copied while the ledger's lock is held once.
constexpr std::size_t entries_per_slice = 512;
// About as many records as a start after a crash should have to replay at most.
constexpr std::uint64_t records_per_snapshot = 50'000;

}  // namespace

bool SnapshotWriter::is_due() const noexcept { return applied_.sequence - written_ > records_per_snapshot; }

Task<Result<>> SnapshotWriter::write(Call call) {
  const store::LogPoint point = applied_;
  if (point.sequence == written_) co_return Result<>{};
  const bool begun = ledger_.with([&](Ledger& ledger) { return ledger.begin_copy(point); });
  if (!begun) co_return Result<>{};
  SnapshotSeal seal;
  const std::function<std::optional<std::string>()> next = [&] {
    return seal.take(ledger_.with([](Ledger& ledger) { return ledger.copy_some(entries_per_slice); }));
  };
  const Result<> written = co_await replace_file(call, machine_, directory_ + "/state", next);
  ledger_.with([](Ledger& ledger) { ledger.end_copy(); });
  if (!written) co_return fail(written.error());
  written_ = point.sequence;
  co_return Result<>{};
}

}  // namespace cairn::registry
