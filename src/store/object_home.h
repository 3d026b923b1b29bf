// ObjectHome: the part of an object store that lives on its home shard. It opens log and index and brings
// them together. Then the committer writes, and the tasks tend the store. Each of them has a class and a
// file.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "store/committer.h"
#include "store/compactor.h"
#include "store/home_parts.h"
#include "store/index_keeper.h"
#include "store/scrubber.h"
#include "store/sweeper.h"

namespace cairn::store {

class ObjectHome final : public Replay {
 public:
  // All outlive it.
  ObjectHome(ObjectStore& store, io::Machine& machine, observe::Logger log);
  ~ObjectHome() override;

  // Opens log and index and brings them together. Cancel: partial — as after a crash.
  Task<Result<>> open(Call call);
  // Precondition: its tasks have ended. Waiting changes are refused. Cancel: partial — as after a crash.
  Task<Result<>> close(Call call);

  Committer& committer() noexcept { return committer_; }
  Compactor& compactor() noexcept { return compactor_; }
  Scrubber& scrubber() noexcept { return scrubber_; }
  Sweeper& sweeper() noexcept { return sweeper_; }
  IndexKeeper& index_keeper() noexcept { return keeper_; }
  io::Machine& machine() noexcept { return parts_.machine; }
  // Ends the current segment, for tests. Precondition: nothing is under way.
  Task<Result<>> roll(Call call) { return parts_.segments->roll(call); }

  Task<Result<>> on_record(Call call, Entry entry) override;
  Task<Result<>> on_damage(Call call, Damage damage) override;

 private:
  Task<Result<>> open_log(Call call);
  // How much of the disk the log keeps for emptying it.
  Task<Result<>> set_room(Call call, LogOptions* options);
  // How an index fits the log. `good`: it does. `again`: it must be looked at again with other options.
  // Neither: it is made anew.
  struct Fit {
    bool good = false, again = false;
    const char* why = "";
  };
  Task<Result<Fit>> open_with_index(Call call, LogOptions* options, LogPoint from);
  Task<Result<>> remake_index(Call call);
  Task<Result<>> flush_replayed(Call call);
  Task<Result<>> write_index(Call call, KvBatch batch);
  // Names lost objects during opening: until that is done, no lost object may be answered as stored.
  Task<Result<>> name_losses(Call call);
  Task<Result<>> append_now(Call call, std::vector<Record> batch, LogPoint point);
  // Looks for segments that hold fewer bytes than entries of the index point to.
  void look_for_short_segments();
  // Whether the index contradicts the log: looks at some of the last objects in the index.
  Task<Result<bool>> is_index_of_another(Call call, std::size_t limit);
  Task<Result<bool>> is_another(Call call, Address address, Position at);
  Task<Result<>> settle_index(Call call);

  HomeParts parts_;
  Committer committer_;
  Compactor compactor_;
  Scrubber scrubber_;
  Sweeper sweeper_;
  IndexKeeper keeper_;
  std::vector<Damage> losses_;  // by opening; their objects are named at once
  // Where the index stands, while a loss at the end of the log is not yet named.
  std::optional<LogPoint> held_;
  bool index_lacked_room_ = false;
};

}  // namespace cairn::store
