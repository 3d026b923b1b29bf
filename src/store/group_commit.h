// GroupCommit: how one task makes changes durable. It begins the changes that shards ask of it in the order
// in which they came, writes the records that it decided on together, with one append and one sync, and
// answers. A committer derives from it and says what its changes mean. The order of the steps, and which
// change is answered when, is the same for every committer and is here.
//
// A commit group is the changes that share an append; a member is a change that waits for its commit group.
//
//   [GP-1] Order of a commit group: plan → prepare → append and sync → apply → finish → answer. A change that
//         was answered as done survives any crash, and a reader finds it.
//   [GP-2] A change that was taken is answered exactly once: at once, or with its commit group.
//   [GP-3] Changes are begun in the order in which they came: a change that has to wait for a commit group is
//         the first of the next. Every commit group takes at least one.
//   [GP-4] All of a commit group is done, or nothing: when it fails its members are told why. A member that
//         was refused when it was planned is told its own refusal, however the commit group ends.
//   [GP-5] Some members of a failed commit group may be tried again, before all other changes, but never all
//         of them.
//   [GP-6] Records that were appended and could not be applied close the committer: nothing is appended
//         behind them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "base/check.h"
#include "runtime/errand.h"
#include "store/log.h"
#include "store/record.h"

namespace cairn::store {

// What a commit group does with a change that is not refused.
enum class Planned : std::uint8_t {
  joined,    // a member: answered when the commit group is done
  answered,  // it has its result, and there is nothing to write
  deferred   // it waits for the commit group to end
};

// The changes that are written together. A committer adds fields of its own.
template <class Mutation>
struct CommitGroup {
  static constexpr std::size_t records_most = 512;
  static constexpr std::size_t bytes_most = 4u << 20;

  std::vector<Mutation*> members;
  std::vector<Record> records;
  std::size_t bytes = 0;
  std::size_t bytes_max = bytes_most;
  bool closed = false;  // takes no more members

  bool full() const noexcept {
    return closed || records.size() >= records_most || bytes >= bytes_max || members.size() >= records_most;
  }
  void add(Record record) {
    bytes += record_header_size + record_alignment + record.meta.size();
    for (const HeapBytes& block : record.data) bytes += block.size();
    records.push_back(std::move(record));
  }
};

// Mutation: an Errand. Group: a CommitGroup<Mutation>.
template <class Mutation, class Group>
class GroupCommit {
 public:
  using Errands = ErrandHome<Mutation>;

  // `mailbox` is this shard's. `gather_most`: how long to wait for more changes, see gather().
  GroupCommit(Shard& shard, Mailbox& mailbox, typename Errands::Words words, Duration gather_most = {})
      : shard_(shard), gather_most_(gather_most), errands_(shard, mailbox, words) {}
  GroupCommit(const GroupCommit&) = delete;
  GroupCommit& operator=(const GroupCommit&) = delete;

  // The queue of changes asked for; closed when the task has ended.
  Errands& errands() noexcept { return errands_; }

  // The task; runs until its call is stopped. A commit group that was begun is ended. Cancel: clean.
  Task<> run(Call call) {
    while (co_await errands_.arrived(call)) {
      co_await gather(call);
      co_await commit_group(call.unbounded());
    }
  }

 protected:
  ~GroupCommit() = default;

 private:
  // --- what a committer says. No two of these run at the same time.
  // NOLINTBEGIN(cppcoreguidelines-avoid-reference-coroutine-parameters): commit_group waits for each

  // Begins a commit group: sets how much it takes, and does what the committer has to do first.
  virtual Task<> begin(Call, Group&) { co_return; }
  // Why no change, or no change of this kind, can be begun now. None: the committer is open to it.
  virtual std::optional<Error> closed(const Mutation& mutation) const = 0;
  // Decides one change and changes nothing but the commit group. A change that joins or is answered has its
  // result. A member whose result is an error is refused; its records in the commit group note the refusal.
  virtual Task<Result<Planned>> plan(Call call, Mutation& mutation, Group& group) = 0;
  // The change is refused, leaves no record, and is about to be told.
  virtual void refused(const Mutation&, const Error&) {}
  // Makes sure that the records can be applied once they are appended. If it fails nothing is appended.
  virtual Task<Result<>> prepare(Call, Group&) { co_return Result<>{}; }
  // Takes `group.records`, and gives a place for each when all of them are durable. If it fails none is.
  virtual Task<Result<std::vector<Entry>>> append(Call call, Group& group) = 0;
  // Lets readers find the appended records. If it fails the committer is closed [GP-6].
  virtual Task<Result<>> apply(Call call, Group& group, std::vector<Entry> placed) = 0;
  // Does what else the members asked for, now that the change stands. If it fails the members are told so.
  virtual Task<Result<>> finish(Call, Group&) { co_return Result<>{}; }
  // Whether a member of a failed commit group may succeed in another one.
  virtual bool may_try_again(const Mutation&, const Error&) const { return false; }
  // The members have their results and are about to be told. Changes that are tried again are no longer
  // members.
  virtual void concluded(const Group&, const Result<>& /*written*/) {}
  // The members were told, and are gone.
  virtual void told(const Group&, const Result<>& /*written*/) {}
  // NOLINTEND(cppcoreguidelines-avoid-reference-coroutine-parameters)

  // --- what is the same for every committer

  // Larger commit groups need fewer syncs. Callers that were just answered are likely to ask again. So while
  // this shard has other work to do, the task waits for three quarters as many changes as there were around
  // the last commit group. The other changes are worked on while the disk syncs.
  Task<> gather(Call call) {
    if (gather_most_ <= Duration{}) co_return;
    const Instant until = shard_.now() + gather_most_;
    const std::size_t enough = around_ - around_ / 4;
    while (co_await next_turn(call)) {
      if (errands_.waiting() >= enough || shard_.now() >= until) break;
    }
  }

  Task<> commit_group(Call call) {
    Group group;
    co_await begin(call, group);
    CHECK(!group.full());  // GP-3
    co_await take_members(call, group);
    if (group.members.empty()) co_return;
    const Result<> written = co_await write(call, group);
    // Counts those that wait only if they could have joined.
    around_ = group.members.size() + (group.full() ? 0 : errands_.waiting());
    conclude(group, written);
  }

  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): commit_group waits for it
  Task<> take_members(Call call, Group& group) {
    std::size_t taken = 0;
    for (Mutation* next = nullptr; !group.full() && (next = errands_.next()) != nullptr; ++taken) {
      Result<Planned> planned = Planned::answered;
      if (const auto why = closed(*next))
        planned = fail(*why);
      else
        planned = co_await plan(call, *next, group);
      if (planned && *planned == Planned::deferred) {
        CHECK(taken > 0);  // GP-3
        co_return;
      }
      errands_.take(*next);
      if (!planned) {
        refused(*next, planned.error());
        errands_.refuse(*next, planned.error());
      } else if (*planned == Planned::answered) {
        errands_.answer(*next);
      } else {
        group.members.push_back(next);
      }
    }
  }

  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): commit_group waits for it
  Task<Result<>> write(Call call, Group& group) {
    CO_TRY_VOID(co_await prepare(call, group));
    const std::size_t records = group.records.size();
    std::vector<Entry> placed;
    if (records > 0) {
      CO_TRY(placed, co_await append(call, group));
      CHECK(placed.size() == records);  // GP-4
    }
    const Result<> applied = co_await apply(call, group, std::move(placed));
    if (!applied) {
      CHECK(records == 0 || closed(*group.members.front()));  // GP-6
      co_return applied;
    }
    co_return co_await finish(call, group);
  }

  void conclude(Group& group, const Result<>& written) {
    List<Mutation, ErrandLink> again;
    if (!written) fail_members(group, written.error(), again);
    concluded(group, written);
    for (Mutation* member : std::exchange(group.members, {})) errands_.answer(*member);
    errands_.put_back(again);
    told(group, written);
  }

  // Members that are tried again leave the commit group.
  void fail_members(Group& group, const Error& error, List<Mutation, ErrandLink>& again) {
    std::vector<Mutation*> told, retried;
    for (Mutation* member : group.members)
      (member->result && may_try_again(*member, error) ? retried : told).push_back(member);
    if (told.empty()) std::swap(told, retried);  // GP-5
    for (Mutation* member : retried) again.push_back(*member);
    for (Mutation* member : told)
      if (member->result) member->result = fail(error);
    group.members = std::move(told);
  }

  Shard& shard_;
  Duration gather_most_;
  Errands errands_;
  std::size_t around_ = 0;  // changes that were under way when the last commit group was written
};

}  // namespace cairn::store
