// ObjectHome: the part of an object store that lives on its home shard and is its only writer: the log, the
// index, and the tasks that tend them.
//
//   [OH-1] Order of a change: append → sync → index → answer. What was answered survives any crash.
//   [OH-2] Changes take effect in the order of the log; two that touch the same address or upload are never
//         decided in one group, but for equal puts, which share one record.
//   [OH-3] When the index cannot follow the log the store is fenced: nothing is answered as done that a
//         reader could not find; the next start catches up. If it cannot because it is damaged, changes are
//         refused only until a new index has taken its place. If it cannot because the disk is full, nothing
//         is appended: that is no reason to fence.
//   [OH-4] A segment is taken away only when no entry points into it, and when that is so in the index that a
//         crash would leave: what the index lost is then still in the log. On a disk that is too full to
//         write the index down, the log's floor tells the next start to make it anew.
//   [OH-5] A segment is compacted only when there is room for all of what lives in it: copying never takes
//         what the index needs. Deletes wait while they would take what copying needs and compaction has
//         something to do: a full disk can always be emptied.
//   [OH-6] A new index takes the place of a damaged one between two groups, when it has taken in everything
//         that was appended: no change is in one of them only.
//   [OH-7] Whatever hangs in one data directory holds up no change of another: each task of a store has a
//         seat in every lane of the pool that it asks.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "io/machine.h"
#include "observe/log.h"
#include "runtime/token_bucket.h"
#include "store/index_port.h"
#include "store/index_rebuild.h"
#include "store/indexer.h"
#include "store/kv.h"
#include "store/log.h"
#include "store/log_reserve.h"
#include "store/mutation.h"
#include "store/object_store.h"

namespace cairn::store {

// What a change is told that finds no place.
inline constexpr char changes_full[] = "too many changes wait for the disk";

class ObjectHome final : public Replay {
 public:
  // All outlive it.
  ObjectHome(ObjectStore& store, io::Machine& machine, observe::Logger log);
  ~ObjectHome() override;

  // Opens log and index and brings them together. Cancel: partial — as after a crash.
  Task<Result<>> open(Call call);
  // Precondition: its tasks have ended. What waits is refused. Cancel: partial — as after a crash.
  Task<Result<>> close(Call call);

  // --- tasks
  Task<> commit_loop(Call call);
  Task<> compact_loop(Call call);
  Task<> scrub_loop(Call call);
  Task<> sweep_loop(Call call);
  // Makes a new index when the one in use was found damaged.
  Task<> index_loop(Call call);

  ErrandHome<Mutation>& errands() noexcept { return errands_; }
  void start_scrub() noexcept;
  void start_accepting() noexcept;
  io::Machine& machine() noexcept { return machine_; }
  void set_scrub_rate(Rate rate) noexcept { scrub_pace_.set_rate(rate); }
  void set_scrub_interval(Duration interval) noexcept { scrub_interval_ = interval; }

  // One round of a task, for tests: whether there was something to do.
  Task<Result<bool>> compact_once(Call call);
  Task<Result<>> scrub_once(Call call);
  Task<Result<>> sweep_once(Call call);
  // Whether the log's files are all there, and which objects are lost with those that are not.
  Task<Result<>> look_at_files_once(Call call);
  // Removes what is quarantined because it is lost, and takes what the log has lost for removed.
  Task<Result<>> accept_losses_once(Call call);
  // A new index in place of the one in use.
  Task<Result<>> replace_index(Call call);
  // Ends the current segment. Precondition: nothing is under way.
  Task<Result<>> roll(Call call) { return segments_->roll(call); }

  Task<Result<>> on_record(Call call, Entry entry) override;
  Task<Result<>> on_damage(Call call, Damage damage) override;

 private:
  struct Group;
  enum class Planned : std::uint8_t { joined, answered, deferred };

  Task<Result<>> open_log(Call call);
  // How much of the disk the log keeps for emptying it.
  Task<Result<>> set_room(Call call, LogOptions* options);
  // How an index fits the log: it does, or it must be looked at again with other options, or is made anew.
  struct Fit {
    bool good = false, again = false;
    const char* why = "";
  };
  Task<Result<Fit>> open_with_index(Call call, LogOptions* options, LogPoint from);
  Task<Result<>> remake_index(Call call);
  Task<Result<>> flush_replayed(Call call);
  // Opening does this itself: until it is done nothing may be answered as stored that is lost.
  Task<Result<>> name_losses(Call call);
  Task<Result<>> append_now(Call call, std::vector<Record> batch, LogPoint point);
  Task<Result<>> look_for_losses(Call call);
  // Segments that hold less than entries of the index point to.
  void look_for_short_segments();
  // Some of its bytes are in such a place.
  using PlaceTest = std::function<bool(const Place&)>;
  static bool is_hit(const Place& place, std::span<const Damage> damages) noexcept;
  Task<Result<bool>> is_hurt(Call call, const ObjectEntry& entry, const PlaceTest& is_bad);
  // Whether what the index says contradicts the log: looks at some of the last objects in it.
  Task<Result<bool>> is_index_of_another(Call call, std::size_t limit);
  Task<Result<bool>> is_another(Call call, Address address, Position at);
  Task<Result<>> settle_index(Call call);
  Task<> gather(Call call);
  Task<> commit_group(Call call);
  Task<Result<Planned>> plan(Call call, Mutation& mutation, Group& group);
  Task<Result<Planned>> plan_put(Call call, Mutation& mutation, Group& group);
  Task<Result<Planned>> plan_part(Call call, Mutation& mutation, Group& group);
  Task<Result<Planned>> plan_commit(Call call, Mutation& mutation, Group& group);
  Task<Result<Planned>> plan_begin(Call call, Mutation& mutation, Group& group);
  Task<Result<Planned>> plan_abort(Call call, Mutation& mutation, Group& group);
  Task<Result<Planned>> plan_end_idle(Call call, Mutation& mutation, Group& group);
  Task<Result<Planned>> plan_remove(Call call, Mutation& mutation, Group& group);
  Task<Result<Planned>> plan_pin(Call call, Mutation& mutation, Group& group);
  Task<Result<Planned>> plan_quarantine(Call call, Mutation& mutation, Group& group);
  Task<Result<Planned>> plan_lift(Call call, Mutation& mutation, Group& group);
  Task<Result<Planned>> plan_relocate(Call call, Mutation& mutation, Group& group);
  Task<Result<Planned>> plan_segment_gone(Call call, Mutation& mutation, Group& group);
  Task<Result<Planned>> plan_adopt_index(Call call, Mutation& mutation, Group& group);
  Task<Result<>> write_group(Call call, Group& group);
  // Before anything is appended that the index must take in.
  Task<Result<>> make_index_ready(Call call);
  Task<Result<>> flush_index(Call call);
  // While it is opened.
  Task<Result<>> write_index(Call call, KvBatch batch);
  void fence(const char* why) noexcept;
  // The log has something that the index could not take in.
  std::unexpected<Error> index_fell_behind(const char* why) noexcept;
  // --- object_index.cpp
  Task<Result<>> find_room_for_index(Call call);
  Task<Result<>> make_index(Call call);
  // What is in quarantine and not in the log any more is known to the index in use alone.
  Task<Result<>> keep_lost(Call call);
  Task<Result<>> adopt_index(Call call);
  Task<Result<>> retire_index(Call call);
  // After every group: costs nothing for segments that nothing happened to.
  void publish_totals() noexcept;
  std::set<std::uint32_t> segments_of_index_alone() const;
  // Files that the log set aside are told by name: nobody else would look for them.
  void tell_foreign();
  std::uint64_t live_bytes(std::uint32_t segment) const noexcept;
  // What compaction would copy, about: what lives in it, and removals of what is elsewhere.
  std::uint64_t bytes_to_copy(std::uint32_t segment) const noexcept {
    return live_bytes(segment) + indexer_->removal_bytes(segment);
  }

  // For its own tasks.
  Task<Result<Outcome>> submit(Call call, std::unique_ptr<Mutation> mutation) {
    return errands_.ask(call, std::move(mutation), machine_.mailbox, nullptr);
  }
  Task<Result<>> quarantine(Call call, Address address, std::uint64_t origin, Position at);
  // Every object with bytes in a damaged place.
  Task<Result<>> quarantine_damage(Call call, Damage damage);
  // Every object with bytes in such a place, by the word that they are at this one.
  Task<Result<>> quarantine_hurt(Call call, PlaceTest is_bad, std::optional<Position> at);
  // Segments that were lost since: told at once, their objects by whoever looks at files.
  void note_lost();
  Task<Result<>> name_vanished(Call call);
  // What lies behind the ends of segments as they are on the disk now.
  Task<Result<>> quarantine_cut(Call call);
  Task<Result<std::vector<HeapBytes>>> read_data(Call call, const Entry& entry);
  Task<Result<bool>> compact_any(Call call);
  Task<Result<bool>> compact_segment(Call call, std::uint32_t segment);
  Task<Result<bool>> is_right_on_disk(Call call, std::shared_ptr<io::File> file, const Entry& entry);
  Task<Result<std::optional<Entry>>> whole_record(Call call, Place place);
  // Everything that an object is made of is on the disk and right.
  Task<Result<bool>> is_whole(Call call, Address address, ObjectEntry entry);
  Task<Result<>> look_at_quarantined(Call call);
  // Everything of the index that is on the disk, whether anybody asks for it or not.
  Task<Result<>> scrub_index(Call call);
  // A pass of the scrubber: as fast as its rate allows, or spread over the interval.
  struct ScrubPass {
    bool spread = false;
    Instant began{};
    std::uint64_t bytes = 0;  // looked at since
    Position noted{};
    Instant noted_at{};
  };
  Task<Result<bool>> keep_pace(Call call, ScrubPass* pass, std::uint64_t bytes, Position next);
  Task<Result<>> note_scrub(Call call, Position next);
  Task<Position> noted_scrub(Call call);
  // False: another pass was asked for.
  Task<Result<bool>> scrub_pass(Call call, ScrubPass* pass, Position from);
  Task<Result<bool>> scrub_segment(Call call, ScrubPass* pass, std::uint32_t segment, std::uint64_t from,
                                   std::uint64_t end);
  Task<Result<>> scrub_record(Call call, std::shared_ptr<io::File> file, const Entry& entry);
  Task<Result<>> scrub_spread(Call call);
  Task<Result<>> move_batch(Call call, std::vector<Mutation::Move> moves);
  std::optional<std::uint32_t> pick_victim(std::uint64_t room) const;
  // On a full disk: what was deleted from the segment being written is compacted like the rest.
  Task<> end_dead_segment(Call call);
  // Compaction is not to wait for its time.
  void want_room() noexcept;
  void note_full();
  // A full disk that has room again takes writes again.
  Task<> look_for_room(Call call);
  // Tells how much can still be stored; none: the disk is full. Cancel: clean.
  Task<> measure_room(Call call);
  // --- uploads and the room they take
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
  Slot find_slot(const Ulid& holder, const Group& group) const;
  Task<Result<>> end_upload(Call call, Ulid token, Group& group);
  // On a disk that compaction cannot empty: the upload that was idle the longest ends. False: there is none.
  Task<Result<bool>> end_idle_upload(Call call);
  void note_uploads(const Group& group) noexcept;
  // What may go to the log at once: a batch is at most half of a segment.
  std::size_t batch_max(std::size_t wanted) const noexcept;

  // [OH-7] Of the compactor, the scrubber, the sweeper and the indexer each.
  struct TaskSeats {
    explicit TaskSeats(Pool& pool) : index(pool, Lane::index), upkeep(pool, Lane::upkeep) {}
    PoolSeat index, upkeep;
  };

  ObjectStore& store_;
  io::Machine& machine_;
  observe::Logger log_;
  PoolSeat committer_seat_;
  std::array<TaskSeats, 4> task_seats_;
  std::unique_ptr<IndexPort> kv_;
  std::unique_ptr<Indexer> indexer_;
  std::unique_ptr<Log> segments_;
  std::unique_ptr<SegmentFiles> files_;
  ErrandHome<Mutation> errands_;
  std::unique_ptr<IndexRebuild> rebuild_;
  std::shared_ptr<OpenIndex> retired_;  // the index before the one in use, until nobody asks it any more
  WaitList scrub_asked_;
  WaitList room_wanted_;
  WaitList accept_asked_;
  TokenBucket scrub_pace_;
  Duration scrub_interval_;
  LogReserve opening_;                     // room to open the index on a full disk
  std::set<std::uint32_t> absent_;         // segments that the index knows and the log has not
  std::map<std::uint32_t, bool> damaged_;  // segments with bytes that must not be thrown away
  std::vector<Damage> found_;              // by opening; their objects are named by the scrubber
  std::vector<Damage> losses_;             // by opening; their objects are named at once
  std::optional<LogPoint>
      held_;  // where the index stands as long as the end of the log is lost, and not named
  std::set<std::uint32_t> told_lost_;
  std::vector<Damage> vanished_;  // while it was open; their objects are not named yet
  bool name_now_ = false;
  bool scrub_now_ = false;
  bool accept_now_ = false;
  std::size_t around_ = 0;  // changes that were under way when the last group was written
  bool full_ = false;
  std::uint64_t wanted_ = 0;  // room that an upload was promised, and that compaction has to make
  Instant opened_{};
  bool index_lacked_room_ = false;                      // while it was opened
  bool compacting_ = false;                             // a segment
  bool compaction_failed_ = false;                      // it is tried again
  std::optional<std::uint32_t> victim_;                 // that segment
  std::uint64_t indexed_ = 0;                           // the last sequence that the index took in
  observe::LogEvery full_told_{Duration::seconds(60)};  // compaction makes room again and again
  observe::LogEvery failure_told_{Duration::seconds(10)};
};

}  // namespace cairn::store
