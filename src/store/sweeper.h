// Sweeper: ends uploads whose time is over, and sees whether the log's files are still there: what is lost
// with those that are not it has quarantined, until somebody accepts the loss.
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
  // All outlive it; the tasks may be made after it.
  Sweeper(HomeParts& parts, Committer& committer, Compactor& compactor, Scrubber& scrubber);

  // When the log is open: what it lost before is told already.
  void open();
  Task<> sweep_loop(Call call);
  void start_accepting() noexcept;
  // Segments that were lost since: told at once, their objects by whoever looks at files.
  void note_lost();

  // --- one round each, for tests
  Task<Result<>> sweep_once(Call call);
  // Whether the log's files are all there, and which objects are lost with those that are not.
  Task<Result<>> look_at_files_once(Call call);
  // Removes what is quarantined because it is lost, and takes what the log has lost for removed.
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
