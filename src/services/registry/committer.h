// Committer: the only writer of the log, of the ledger and of HEAD. It decides, writes in groups, answers and
// tells; the other tasks ask it like everybody else.
//
//   [RH-1] Order of a change: decide → append → sync → ledger → answer → tell. What was answered or told
//         survives any crash.
//   [RH-2] HEAD moves only by compare-and-set on {version, commit_b3}, one version at a time.
//   [RH-3] A commit has approvals of at least m signers who are in force at the head it follows.
//   [RH-4] Every change that was decided, accepted or refused, leaves a record in the log, but for refusals
//         beyond those that a token has each minute (audit.h [AU-3]); all that were asked for are in the
//         trail.
//   [RH-6] The committer waits for the disk alone: not for a reader, the publisher, or another task.
#pragma once

#include "observe/log.h"
#include "services/registry/backend.h"
#include "services/registry/disk_room.h"
#include "services/registry/newest.h"
#include "services/registry/planner.h"

namespace cairn::registry {

class Committer {
 public:
  // All outlive it. The ledger has everything that is in the log.
  Committer(Registry& registry, io::Machine& machine, observe::Logger log, EmbeddedBackend& backend,
            DiskRoom& room, Newest& newest);

  // The task, until its call is stopped.
  Task<> run(Call call);
  // Where changes are asked for.
  ErrandHome<Mutation>& errands() noexcept { return errands_; }
  // The end of what the ledger has of the log.
  const store::LogPoint& applied() const noexcept { return applied_; }
  // Precondition: its task has ended. What waits is refused.
  void close() noexcept { errands_.close(); }

 private:
  Task<> commit_group(Call call);
  Task<Result<>> write_group(Call call, ChangeGroup& group);
  void fence(const char* why) noexcept;

  Registry& registry_;
  io::Machine& machine_;
  observe::Logger log_;
  EmbeddedBackend& backend_;
  DiskRoom& room_;
  Newest& newest_;
  Planner planner_;
  ErrandHome<Mutation> errands_;
  store::LogPoint applied_;
};

}  // namespace cairn::registry
