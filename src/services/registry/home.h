// Home: the part of a registry that lives on its home shard: its log, and the tasks that tend it.
#pragma once

#include <memory>

#include "services/registry/auditor.h"
#include "services/registry/checkpointer.h"
#include "services/registry/committer.h"
#include "services/registry/proposal_expiry.h"

namespace cairn::registry {

class Home {
 public:
  // Reads the log and checks HEAD. Registry and machine outlive it. Cancel: partial — as after a crash.
  static Task<Result<std::unique_ptr<Home>>> open(Call call, Registry& registry, io::Machine& machine,
                                                  observe::Logger log);
  ~Home();
  Home(const Home&) = delete;
  Home& operator=(const Home&) = delete;
  // Precondition: its tasks have ended. Refuses changes that wait. Cancel: partial — as after a crash.
  Task<Result<>> close(Call call);

  Committer& committer() noexcept { return committer_; }
  Verifier& verifier() noexcept { return verifier_; }
  Pruner& pruner() noexcept { return pruner_; }
  Checkpointer& checkpointer() noexcept { return checkpointer_; }
  ProposalExpiry& proposal_expiry() noexcept { return proposal_expiry_; }
  Auditor& auditor() noexcept { return auditor_; }
  SnapshotWriter& snapshots() noexcept { return snapshots_; }
  DiskRoom& room() noexcept { return room_; }

 private:
  Home(Registry& registry, io::Machine& machine, observe::Logger log,
       std::unique_ptr<EmbeddedBackend> backend, std::uint64_t snapshot_end);

  // In order of construction: each member knows only those before it.
  Registry& registry_;
  observe::Logger log_;
  std::unique_ptr<EmbeddedBackend> backend_;
  std::unique_ptr<Port> port_;  // of this shard, for reading back
  DiskRoom room_;
  Newest newest_;
  Committer committer_;
  Chores chores_;
  SnapshotWriter snapshots_;
  Verifier verifier_;
  Pruner pruner_;
  TileFiles tiles_;
  Checkpointer checkpointer_;
  ProposalExpiry proposal_expiry_;
  Auditor auditor_;
};

}  // namespace cairn::registry
