// Recovery: the steps of a start before any request is served. It reads the log into the ledger, imports
// genesis into an empty log, and checks that the log has not lost what a checkpoint or a snapshot shows.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "io/machine.h"
#include "observe/log.h"
#include "services/registry/backend.h"
#include "services/registry/registry.h"

namespace cairn::registry {

class Recovery final : public store::Replay {
 public:
  // All outlive it.
  Recovery(Registry& registry, io::Machine& machine, observe::Logger log);
  ~Recovery() override;

  // Called once. Returns the backend that the ledger was made from. A log that has lost something gives a
  // fenced backend, or an error.
  // Cancel: partial — as after a crash.
  Task<Result<std::unique_ptr<EmbeddedBackend>>> run(Call call);
  // The sequence at which the snapshot behind the ledger ends; 0: the ledger was made from the log alone.
  std::uint64_t snapshot_end() const noexcept { return snapshot_end_; }

  Task<Result<>> on_record(Call call, store::Entry entry) override;
  Task<Result<>> on_damage(Call call, store::Damage damage) override;

 private:
  Task<Result<>> open_log(Call call, bool with_snapshot, bool& again);
  Task<Result<>> import_genesis(Call call);
  Task<Result<>> heed_checkpoint(Call call);
  Result<> heed_snapshot();
  Task<Result<>> heal_leaves(Call call);
  Task<Result<>> validate_tail(Call call);
  void fence_rolled_back(const char* why) noexcept;

  Registry& registry_;
  io::Machine& machine_;
  observe::Logger log_;
  std::optional<Ledger> replaying_;
  std::vector<store::Damage> damage_;
  MaybeHead witness_;  // the head that the snapshot knew
  std::uint64_t snapshot_end_ = 0;
  std::unique_ptr<EmbeddedBackend> backend_;
  std::unique_ptr<Port> port_;  // for reading back
};

}  // namespace cairn::registry
