// IndexRebuild: makes a new index of a store from its log, beside the index in use, while the log is written
// to.
//
//   [IB-1] It takes in every record of the log once, in order, up to the log's end when it is asked to.
//   [IB-2] However large the log is, it holds no more in memory than one index, one window of the log and one
//         batch of changes.
//   [IB-3] An object that the new index finds removed, and whose removal the index in use never took in, is
//         gone from the cache before the new index is asked.
// Compaction must rest until the rebuild is done: a record that moves to the log's end, behind a word on it,
// would miss that word, because words are kept only while the log is read for the first time.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "io/machine.h"
#include "runtime/token_bucket.h"
#include "store/group_cache.h"
#include "store/index_port.h"
#include "store/indexer.h"
#include "store/log.h"

namespace cairn::store {

class IndexRebuild {
 public:
  // The parts of the store that it works on; all of them outlive it.
  struct Sources {
    io::Machine& machine;
    KvMaker& maker;
    Log& log;
    SegmentFiles& files;
    GroupCache& cache;
  };
  // `indexed`: the last sequence that the index in use took in.
  IndexRebuild(const Sources& sources, std::uint64_t number, std::string directory, std::uint64_t indexed);
  ~IndexRebuild();

  // Makes the directory, whatever was there before. Cancel: partial — the directory may be there.
  Task<Result<>> open(Call call);
  // Takes in the whole log, at a pace, and then what can only be said at the log's end. Damage in the log is
  // in `damaged`.
  // Cancel: partial — close() it.
  Task<Result<>> make(Call call);
  // Takes in the records that were appended since; gives their number. Cancel: partial — close() it.
  Task<Result<std::uint64_t>> follow(Call call);
  Task<Result<>> flush(Call call);
  // Lets go of the files, which stay. Cancel: partial.
  Task<Result<>> close(Call call);

  bool is_made() const noexcept { return made_; }
  Indexer& indexer() noexcept { return *indexer_; }
  // The index, which is the caller's from now on; nothing is left to close().
  std::shared_ptr<OpenIndex> release() noexcept { return std::exchange(index_, nullptr); }
  std::vector<Damage> damaged;

 private:
  Task<Result<std::uint64_t>> read(Call call, bool paced);
  Task<Result<std::uint64_t>> read_segment(Call call, std::uint32_t segment, std::uint64_t until, bool paced);
  Task<Result<>> write(Call call);

  Sources sources_;
  std::uint64_t number_;
  std::string directory_;
  std::uint64_t indexed_;
  TokenBucket pace_;
  std::shared_ptr<OpenIndex> index_;
  std::unique_ptr<Kv> kv_;
  std::unique_ptr<Indexer> indexer_;
  LogPoint reached_;
  bool made_ = false;  // the whole log is taken in; only new records are left
};

}  // namespace cairn::store
