// Home: the part of a registry that lives on its home shard. Its committer is the only writer of the log, of
// the ledger and of HEAD; the other tasks ask it like everybody else.
//
//   [RH-1] Order of a change: decide → append → sync → ledger → answer → tell. What was answered or told
//         survives any crash.
//   [RH-2] HEAD moves only by compare-and-set on {version, commit_b3}, one version at a time.
//   [RH-3] A commit has approvals of at least m signers who are in force at the head it follows.
//   [RH-4] Every change that was decided, accepted or refused, leaves a record in the log, but for refusals
//         beyond those that a token has each minute (audit.h [AU-3]); all that were asked for are in the
//         trail.
//   [RH-5] A checkpoint is signed only over commits that are durable and were read back from the disk.
//   [RH-6] The committer waits for the disk alone: not for a reader, the publisher, or another task.
#pragma once

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "crypto/signed_note.h"
#include "crypto/tile.h"
#include "format/chain_verifier.h"
#include "format/registry_field.h"
#include "io/machine.h"
#include "observe/log.h"
#include "runtime/mpsc.h"
#include "services/registry/backend.h"
#include "services/registry/mutation.h"
#include "services/registry/registry.h"

namespace cairn::registry {

class Home final : public store::Replay {
 public:
  Home(Registry& registry, io::Machine& machine, observe::Logger log);
  ~Home() override;

  // Cancel: partial — as after a crash.
  Task<Result<>> open(Call call);
  // Precondition: its tasks have ended. What waits is refused. Cancel: partial — as after a crash.
  Task<Result<>> close(Call call);

  // --- tasks
  Task<> commit_loop(Call call);
  Task<> sweep_loop(Call call);
  Task<> checkpoint_loop(Call call);
  Task<> prune_loop(Call call);
  Task<> verify_loop(Call call);
  // `tell` is told the newest sequence of the trail when there are new ones.
  Task<> audit_loop(Call call, std::function<void(std::uint64_t)> tell);

  // One round of a task, for tests.
  Task<Result<>> sweep_once(Call call);
  Task<Result<>> checkpoint_once(Call call);
  Task<Result<bool>> prune_once(Call call);
  // Goes on for at most `most` versions; whether it came to the head.
  Task<Result<bool>> verify_some(Call call, std::uint64_t most);
  Task<Result<>> write_snapshot(Call call);
  // Writes the trail's events into the ring; those that cannot be are dropped and counted. `all`: also of the
  // second that is not over yet. Cancel: partial — they may be there.
  Task<Result<>> flush_audit(Call call, bool all);
  // Whether a change, and the checkpoint over it, would find room, which Status::full says from then on.
  // Cancel: clean.
  Task<bool> look_for_room(Call call);

  ErrandHome<Mutation>& errands() noexcept { return errands_; }
  std::size_t retention_commands() const noexcept { return retention_commands_->depth(); }
  io::Machine& machine() noexcept { return machine_; }
  void set_retention(const Retention& retention) noexcept { retention_ = retention; }
  void set_checkpoint_interval(Duration interval) noexcept { checkpoint_interval_ = interval; }
  // Whom a checkpoint's reader must believe.
  const crypto::NoteVerifier& verifier() const noexcept { return verifier_; }

  Task<Result<>> on_record(Call call, store::Entry entry) override;
  Task<Result<>> on_damage(Call call, store::Damage damage) override;

 private:
  struct Group;
  enum class Planned : std::uint8_t { joined, answered };

  // --- home.cpp
  Task<Result<>> open_log(Call call, bool with_snapshot, bool& again);
  Task<Result<>> import_genesis(Call call);
  Task<Result<>> validate_tail(Call call);
  Task<Result<>> heal_leaves(Call call);
  Task<Result<>> heed_checkpoint(Call call);
  Result<> heed_snapshot();
  void publish_status();
  void fence(const char* why) noexcept;
  void fence_rolled_back(const char* why) noexcept;
  Task<Result<Outcome>> submit(Call call, std::unique_ptr<Mutation> mutation);

  // --- committer.cpp
  Task<> commit_group(Call call);
  Task<Result<>> write_group(Call call, Group& group);
  Result<Planned> plan(Ledger& ledger, Mutation& mutation, Group& group);
  Result<Planned> plan_propose(Ledger& ledger, Mutation& mutation, Group& group);
  Result<> check_signature(const Ledger& ledger, const Pending& pending, const Mutation& mutation,
                           const Mutation::Signature& signature, const Group& group) const;
  void add_approval(const Mutation& mutation, const format::Approval& approval, Group& group);
  Result<Planned> plan_approve(Ledger& ledger, Mutation& mutation, Group& group);
  Result<Planned> plan_commit(Ledger& ledger, Mutation& mutation, Group& group);
  Result<Planned> plan_chore(Ledger& ledger, Mutation& mutation, Group& group);
  // Between 1970 and 9999, whatever the clock says: what is written with it can be read again.
  WallTime now_wall() const noexcept {
    return std::clamp(machine_.shard.wall(), WallTime{0}, format::registry_time_max);
  }
  // Of a change that is signed: no year is made up for it.
  Result<> check_clock() const noexcept {
    if (now_wall() == machine_.shard.wall()) return {};
    return fail(ErrorCode::degraded, "this machine's clock is before 1970 or after 9999");
  }
  Ulid new_id() noexcept;

  // --- checkpointer.cpp
  Task<Result<>> mend_files(Call call);
  std::string node_bytes(const crypto::TileId& tile);
  Task<Result<>> write_tiles(Call call, std::uint64_t size);
  Task<Result<std::string>> make_bundle(Call call, crypto::TileId tile, std::uint64_t before);
  Task<Result<>> write_tile(Call call, crypto::TileId tile, std::string bytes, std::uint64_t before);

  // --- auditor.cpp
  Task<Result<>> open_audit(Call call);
  Task<Result<>> write_audit(Call call, const std::vector<AuditEvent>& events);

  // --- pruner.cpp
  std::uint64_t prune_limit(const Ledger& ledger) const;
  Task<Result<bool>> prune_segment(Call call, store::SegmentInfo segment);

  // --- verifier.cpp
  Task<bool> caught_up(Call call);
  std::uint64_t slice() const noexcept;
  Task<Result<std::unique_ptr<format::ChainVerifier>>> resume_verifier(Call call, std::uint64_t version);

  Registry& registry_;
  io::Machine& machine_;
  observe::Logger log_;
  std::unique_ptr<EmbeddedBackend> backend_;
  std::unique_ptr<Port> port_;  // of this shard, for reading back
  crypto::NoteVerifier verifier_;
  Retention retention_;
  Duration checkpoint_interval_;
  ErrandHome<Mutation> errands_;
  WaitList committed_;  // those of the watch `newest`, whose value is the ledger's head
  std::optional<Ledger> replaying_;
  MaybeHead witness_;  // the head that the snapshot knew
  std::vector<store::Damage> damage_;
  std::unique_ptr<Mpsc<std::uint64_t>> retention_commands_;
  Instant last_commit_{};
  bool looked_for_room_ = false;
  store::LogPoint applied_;                    // what the ledger stands for
  std::uint64_t snapshot_at_ = 0;              // sequence of the last snapshot
  std::set<std::string> durable_directories_;  // of tiles
  std::vector<std::string> narrower_;          // tiles that go when no checkpoint speaks of them any more
  std::optional<std::uint64_t> tiles_at_;      // size up to which tiles are on disk; none: not looked yet
  std::shared_ptr<io::File> audit_file_;       // none: not opened, or it failed
  bool audit_told_ = false;                    // that it failed
  std::unique_ptr<format::ChainVerifier> deep_;
  std::optional<std::uint64_t> deep_from_;  // where it goes on; none: where a checkpoint says
};

}  // namespace cairn::registry
