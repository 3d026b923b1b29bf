// SnapshotWriter: the ledger as a file, which spares the next start most of the log. Written while the ledger
// goes on (snapshot.cpp has its layout).
#pragma once

#include <string>

#include "io/machine.h"
#include "services/registry/registry.h"

namespace cairn::registry {

class SnapshotWriter {
 public:
  // `applied`: the end of what the ledger has of the log, kept by the committer. `written`: where the
  // snapshot ends that the ledger was made from. All outlive it.
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
