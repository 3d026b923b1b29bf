// SnapshotWriter: writes the ledger to a file, so that the next start need not replay most of the log. The
// ledger may change meanwhile (snapshot.cpp has the layout).
#pragma once

#include <string>

#include "io/machine.h"
#include "services/registry/registry.h"

namespace cairn::registry {

class SnapshotWriter {
 public:
  // `applied`: the point in the log up to which the ledger has its records; the committer moves it.
  // `written`: the sequence at which the last snapshot ends. All outlive it.
  SnapshotWriter(io::Machine& machine, std::string directory, Guarded<Ledger, ledger_lock.rank>& ledger,
                 const store::LogPoint& applied, std::uint64_t written) noexcept
      : machine_(machine),
        directory_(std::move(directory)),
        ledger_(ledger),
        applied_(applied),
        written_(written) {}

  // Whether a start after a crash would have much to replay.
  bool is_due() const noexcept;
  // Cancel: partial — the old or the new one is there.
  Task<Result<>> write(Call call);

 private:
  io::Machine& machine_;
  std::string directory_;
  Guarded<Ledger, ledger_lock.rank>& ledger_;
  const store::LogPoint& applied_;
  std::uint64_t written_;  // sequence of the last one
};

}  // namespace cairn::registry
