// Committer: the only writer of the log, of the ledger and of HEAD. It decides on changes, writes them in
// commit groups (store/group_commit.h), answers them and tells the shards of new heads. The home's other
// tasks ask it for changes as the ports do.
//
//   [RH-1] Order of a change: decide → append → sync → ledger → answer → tell. A change that was answered or
//         told survives any crash.
//   [RH-2] HEAD moves only by compare-and-set on {version, commit_b3}, one version at a time.
//   [RH-3] A commit has approvals of at least m signers who are in force at the head it follows.
//   [RH-4] Every decided change, accepted or refused, leaves a record in the log, except refusals beyond a
//         token's share of each minute (audit.h [AU-3]). Every requested change is in the trail.
//   [RH-6] The committer waits only for the disk, never for a reader, the publisher or another task.
#pragma once

#include "observe/log.h"
#include "services/registry/backend.h"
#include "services/registry/disk_room.h"
#include "services/registry/newest.h"
#include "services/registry/planner.h"

namespace cairn::registry {

class Committer final : public store::GroupCommit<Mutation, ChangeGroup> {
 public:
  // All outlive it. The ledger already has every record of the log.
  Committer(Registry& registry, io::Machine& machine, observe::Logger log, EmbeddedBackend& backend,
            DiskRoom& room, Newest& newest);

  // The point in the log up to which the ledger has its records.
  const store::LogPoint& applied() const noexcept { return applied_; }

 private:
  Task<> begin(Call call, ChangeGroup& group) override;
  std::optional<Error> closed(const Mutation& mutation) const override;
  Task<Result<Planned>> plan(Call call, Mutation& mutation, ChangeGroup& group) override;
  void refused(const Mutation& mutation, const Error& error) override;
  Task<Result<std::vector<store::Entry>>> append(Call call, ChangeGroup& group) override;
  Task<Result<>> apply(Call call, ChangeGroup& group, std::vector<store::Entry> placed) override;
  Task<Result<>> finish(Call call, ChangeGroup& group) override;
  void concluded(const ChangeGroup& group, const Result<>& written) override;
  void told(const ChangeGroup& group, const Result<>& written) override;

  Result<Planned> decide(const Ledger& ledger, Mutation& mutation, ChangeGroup& group);
  void fence(const char* why) noexcept;
  WallTime now_wall() const noexcept { return recorded_time(machine_.shard); }

  Registry& registry_;
  io::Machine& machine_;
  observe::Logger log_;
  EmbeddedBackend& backend_;
  DiskRoom& room_;
  Newest& newest_;
  Planner planner_;
  store::LogPoint applied_;
};

}  // namespace cairn::registry
