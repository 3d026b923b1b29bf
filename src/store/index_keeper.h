// IndexKeeper: replaces an index that was found damaged. It makes a new index from the log beside the old
// one. The new index takes the place of the old one between two commit groups. The old one is closed and
// removed when the last question to it has ended.
//
//   [OH-6] A new index takes the place of a damaged one between two commit groups, when it has taken in
//         everything that was appended: no change is in only one of them.
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
  // The arguments outlive the keeper. The tasks may be made after it.
  IndexKeeper(HomeParts& parts, Committer& committer, Compactor& compactor, Scrubber& scrubber);

  // Makes a new index when the one in use was found damaged.
  Task<> index_loop(Call call);
  // A new index in place of the one in use, for tests.
  Task<Result<>> replace_index(Call call);
  // Called by the committer, between two commit groups [OH-6].
  Task<Result<>> adopt_index(Call call);
  // A new index that was not finished is left to the next start. Cancel: partial.
  Task<> close(Call call);

 private:
  Task<Result<>> find_room_for_index(Call call);
  Task<Result<>> make_index(Call call);
  // Takes over objects in quarantine that are not in the log any more: only the index in use knows of them.
  Task<Result<>> keep_lost(Call call);
  Task<Result<>> retire_index(Call call);

  HomeParts& parts_;
  Committer& committer_;
  Compactor& compactor_;
  Scrubber& scrubber_;
  TaskSeats seats_;
  std::unique_ptr<IndexRebuild> rebuild_;
  std::shared_ptr<OpenIndex> retired_;  // the index before the one in use, until its last question has ended
};

}  // namespace cairn::store
