// IndexKeeper: what a store does about an index that was found damaged. A new one is made from the log beside
// it, takes its place between two groups, and the old one is closed and removed when nobody asks it any more.
//
//   [OH-6] A new index takes the place of a damaged one between two groups, when it has taken in everything
//         that was appended: no change is in one of them only.
#pragma once

#include <memory>

#include "store/home_parts.h"
#include "store/index_rebuild.h"

namespace cairn::store {

class Committer;
class Compactor;
class Scrubber;

class IndexKeeper {
 public:
  // All outlive it; the tasks may be made after it.
  IndexKeeper(HomeParts& parts, Committer& committer, Compactor& compactor, Scrubber& scrubber);

  // Makes a new index when the one in use was found damaged.
  Task<> index_loop(Call call);
  // A new index in place of the one in use, for tests.
  Task<Result<>> replace_index(Call call);
  // The committer's, between two groups [OH-6].
  Task<Result<>> adopt_index(Call call);
  // What was not finished is for the next start. Cancel: partial.
  Task<> close(Call call);

 private:
  Task<Result<>> find_room_for_index(Call call);
  Task<Result<>> make_index(Call call);
  // What is in quarantine and not in the log any more is known to the index in use alone.
  Task<Result<>> keep_lost(Call call);
  Task<Result<>> retire_index(Call call);

  HomeParts& parts_;
  Committer& committer_;
  Compactor& compactor_;
  Scrubber& scrubber_;
  TaskSeats seats_;
  std::unique_ptr<IndexRebuild> rebuild_;
  std::shared_ptr<OpenIndex> retired_;  // the index before the one in use, until nobody asks it any more
};

}  // namespace cairn::store
