// Committer: the only writer of a store's log and index. It decides what waits, writes it in groups
// (store/group_commit.h), and brings the index up to the log before it answers.
//
//   [OH-1] Order of a change: append → sync → index → answer. What was answered survives any crash.
//   [OH-2] Changes take effect in the order of the log; two that touch the same address or upload are never
//         decided in one group, but for equal puts, which share one record.
//   [OH-3] When the index cannot follow the log the store is fenced: nothing is answered as done that a
//         reader could not find; the next start catches up. If it cannot because it is damaged, changes are
//         refused only until a new index has taken its place. If it cannot because the disk is full, nothing
//         is appended: that is no reason to fence.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "store/change_group.h"
#include "store/home_parts.h"

namespace cairn::store {

class Compactor;
class IndexKeeper;
class Sweeper;

// What a change is told that finds no place.
inline constexpr char changes_full[] = "too many changes wait for the disk";

class Committer final : public GroupCommit<Mutation, ChangeGroup> {
 public:
  // All outlive it; the tasks may be made after it.
  Committer(HomeParts& parts, Compactor& compactor, Sweeper& sweeper, IndexKeeper& keeper);

  // For the store's own tasks. Cancel: partial — what was begun may still be done.
  Task<Result<Outcome>> submit(Call call, std::unique_ptr<Mutation> mutation) {
    return errands().ask(call, std::move(mutation), parts_.machine.mailbox, nullptr);
  }
  // On a disk that compaction cannot empty: the upload that was idle the longest ends. False: there is none.
  Task<Result<bool>> end_idle_upload(Call call);
  // The last sequence that the index took in.
  std::uint64_t indexed() const noexcept { return indexed_; }
  void note_indexed(std::uint64_t sequence) noexcept { indexed_ = sequence; }

 private:
  Task<> begin(Call call, ChangeGroup& group) override;
  std::optional<Error> closed(const Mutation& mutation) const override;
  Task<Result<>> prepare(Call call, ChangeGroup& group) override;
  Task<Result<std::vector<Entry>>> append(Call call, ChangeGroup& group) override;
  Task<Result<>> apply(Call call, ChangeGroup& group, std::vector<Entry> placed) override;
  Task<Result<>> finish(Call call, ChangeGroup& group) override;
  bool may_try_again(const Mutation& mutation, const Error& error) const override;
  void concluded(const ChangeGroup& group, const Result<>& written) override;

  // The log has something that the index could not take in.
  std::unexpected<Error> index_fell_behind(const char* why) noexcept;

  // --- committer_plan.cpp
  Task<Result<Planned>> plan(Call call, Mutation& mutation, ChangeGroup& group) override;
  Task<Result<Planned>> plan_put(Call call, Mutation& mutation, ChangeGroup& group);
  Task<Result<Planned>> plan_quarantine(Call call, Mutation& mutation, ChangeGroup& group);
  Task<Result<Planned>> plan_lift(Call call, Mutation& mutation, ChangeGroup& group);
  Task<Result<Planned>> plan_relocate(Call call, Mutation& mutation, ChangeGroup& group);
  Task<Result<Planned>> plan_segment_gone(Call call, Mutation& mutation, ChangeGroup& group);
  Task<Result<Planned>> plan_adopt_index(Call call, Mutation& mutation, ChangeGroup& group);
  // --- committer_delete.cpp
  Task<Result<Planned>> plan_remove(Call call, Mutation& mutation, ChangeGroup& group);
  Task<Result<Planned>> plan_pin(Call call, Mutation& mutation, ChangeGroup& group);
  // --- committer_uploads.cpp
  Task<Result<Planned>> plan_begin(Call call, Mutation& mutation, ChangeGroup& group);
  Task<Result<Planned>> plan_part(Call call, Mutation& mutation, ChangeGroup& group);
  Task<Result<Planned>> plan_commit(Call call, Mutation& mutation, ChangeGroup& group);
  Task<Result<Planned>> plan_abort(Call call, Mutation& mutation, ChangeGroup& group);
  Task<Result<Planned>> plan_end_idle(Call call, Mutation& mutation, ChangeGroup& group);
  // For so many bytes of parts; also what compaction can make.
  struct Room {
    std::uint64_t needed = 0, there = 0, dead = 0;
    bool enough() const noexcept { return needed <= there + dead; }
  };
  Task<Result<Room>> room_for(Call call, std::uint64_t size);
  // Those without a part for long, the longest first.
  std::vector<Ulid> idle_uploads() const;
  // Whether one more upload of this holder may be open, and which one ends for that, if one has to.
  struct Slot {
    bool there = false;
    std::optional<Ulid> ends = {};
  };
  Slot find_slot(const Ulid& holder, const ChangeGroup& group) const;
  Task<Result<>> end_upload(Call call, Ulid token, ChangeGroup& group);
  void note_uploads(const ChangeGroup& group) noexcept;

  HomeParts& parts_;
  Compactor& compactor_;
  Sweeper& sweeper_;
  IndexKeeper& keeper_;
  PoolSeat index_seat_;
  std::uint64_t indexed_ = 0;     // the last sequence that the index took in
  std::vector<Address> changed_;  // by the group that is applied
  observe::LogEvery failure_told_{Duration::seconds(10)};
};

}  // namespace cairn::store
