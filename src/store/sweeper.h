// Sweeper: ends uploads whose time is over, and sees whether the log's files are still there. It has objects
// with bytes in missing files quarantined, until the operator accepts the loss.
#pragma once

#include <set>
#include <vector>

#include "store/home_parts.h"

namespace cairn::store {

class Committer;
class Compactor;
class Scrubber;

class Sweeper {
 public:
  // The arguments outlive the sweeper. The tasks may be made after it.
  Sweeper(HomeParts& parts, Committer& committer, Compactor& compactor, Scrubber& scrubber);

  // Called when the log is open: losses that the log found by then are told already.
  void open();
  Task<> sweep_loop(Call call);
  void start_accepting() noexcept;
  // Tells at once of segments that were lost since. Their objects are named by the next look at files.
  void note_lost();

  // --- one round each, for tests
  Task<Result<>> sweep_once(Call call);
  // Looks whether the log's files are all there, and which objects are lost with the missing ones.
  Task<Result<>> look_at_files_once(Call call);
  // Removes objects that are quarantined because they are lost, and counts lost segments as removed.
  Task<Result<>> accept_losses_once(Call call);

 private:
  Task<Result<>> name_vanished(Call call);

  HomeParts& parts_;
  Committer& committer_;
  Compactor& compactor_;
  Scrubber& scrubber_;
  TaskSeats seats_;
  WaitList asked_;
  std::set<std::uint32_t> told_lost_;
  std::vector<Damage> vanished_;  // while it was open; their objects are not named yet
  bool name_now_ = false;
  bool accept_now_ = false;
};

}  // namespace cairn::store
