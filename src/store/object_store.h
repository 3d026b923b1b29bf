// ObjectStore: content-addressed objects in one data directory: a segment log that is the truth, an index
// derived from it, and the shared cache of verified groups before both.
//
// One per directory and process. Its home shard writes (ObjectHome); every shard reads and asks for changes
// through a StorePort of its own.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "io/machine.h"
#include "observe/log.h"
#include "runtime/guarded.h"
#include "runtime/permits.h"
#include "store/group_cache.h"
#include "store/index_port.h"
#include "store/kv.h"
#include "store/locks.h"
#include "store/log.h"
#include "store/object_format.h"

namespace cairn::store {

class ChangeFeed;
class ObjectHome;
class StorePort;

inline constexpr std::uint64_t largest_object = std::uint64_t{256} << 30;
// The capacity of `changes`: how many may wait for one log's disk.
inline constexpr std::uint64_t changes_capacity = 512;

struct StoreOptions {
  std::string directory;
  std::uint64_t segment_size = 256u << 20;
  bool fsync = true;
  Duration upload_ttl = Duration::seconds(24 * 3600);
  std::uint64_t uploads_max = 4096;
  Duration upload_idle = Duration::seconds(600);  // without a part: it may give way to others
  Rate scrub_rate{20u << 20};
  Duration scrub_interval = Duration::seconds(7 * 24 * 3600);  // in which it looks at everything once
  std::uint64_t pending_max = changes_capacity;
  std::uint64_t reserve = 8u << 20;
  std::uint64_t spare_files = 0;  // as LogOptions
  // Told of every address whose bytes begin or cease to be served; outlives the store. None: nobody asks.
  ChangeFeed* changed = nullptr;
};

// Numbers that any thread may read.
struct StoreStatus {
  std::atomic<std::uint64_t> objects{0}, bytes{0}, uploads{0}, upload_bytes{0}, quarantined{0};
  std::atomic<std::uint64_t> segments{0}, log_bytes{0}, dead_bytes{0};
  std::atomic<std::uint64_t> room_bytes{0};     // about what can still be stored
  std::atomic<std::uint64_t> lost_segments{0};  // missing, and not by compaction
  std::atomic<std::uint64_t> first_lost{0};     // one of them
  std::atomic<std::uint64_t> scrub_segment{0}, scrub_passes{0}, scrub_bytes{0};
  std::atomic<std::uint64_t> rot{0};      // bytes found that did not match
  std::atomic<std::uint64_t> damage{0};   // places in the log that could not be read
  std::atomic<std::uint64_t> foreign{0};  // files beside the log's that are not of it
  std::atomic<std::uint64_t> groups_read{0}, groups_written{0};
  std::atomic<std::uint64_t> home{0};  // the shard
  std::atomic<bool> open{false}, fenced{false}, full{false};
  std::atomic<bool> making_room{false};  // on a full disk: deletes would take the room that copying needs
  // When the disk last refused a write without being full (instant ns; 0: never).
  std::atomic<std::int64_t> refused_at{0};
  std::atomic<bool> lossy{false};  // some quarantined objects are not damaged but gone
  bool whole() const noexcept { return lost_segments == 0 && !lossy; }
  // Requests that a damaged index cannot answer are refused until a new index has taken its place. Without
  // room for two indexes that is at the next start.
  std::atomic<bool> index_damaged{false}, index_lacks_room{false};
  // The index could not take in all records of the log: no change is taken until then.
  std::atomic<bool> index_behind{false};
};

class ObjectStore {
 public:
  // `kv` and `cache` outlive it.
  ObjectStore(StoreOptions options, KvMaker& kv, GroupCache& cache);
  ~ObjectStore();
  ObjectStore(const ObjectStore&) = delete;
  ObjectStore& operator=(const ObjectStore&) = delete;

  // --- on the home shard
  Task<Result<>> open(Call call, io::Machine& machine, observe::Logger log);
  ObjectHome& home() noexcept { return *home_; }
  // Precondition: its tasks have ended, and its ports are asked nothing any more. Cancel: partial — as after
  // a crash.
  Task<Result<>> close(Call call);

  // --- of the home
  KvMaker& kv_maker() noexcept { return kv_maker_; }
  std::string segment_directory() const { return options_.directory + "/segments"; }
  void set_index(std::shared_ptr<OpenIndex> index);
  // Tells every shard that there is another index, so that no shard keeps the old one.
  void renew_index_ports();
  // Tells every shard that a segment is gone, so that no shard keeps its file open.
  void forget_segment(std::uint32_t segment);

  // --- on each shard. It may be asked after open.
  std::unique_ptr<StorePort> make_port(io::Machine& machine);

  // --- from any thread
  const StoreOptions& options() const noexcept { return options_; }
  StoreStatus& status() noexcept { return status_; }
  bool writable() const noexcept {
    return status_.open && !status_.fenced && !status_.full && !status_.index_behind;
  }
  // Whether the next write is likely to be taken. For a while after the disk refused a write the answer is
  // no.
  bool takes_writes(Instant now) const noexcept {
    const std::int64_t refused = status_.refused_at;
    return writable() && (refused == 0 || now - Instant{refused} > refusal_counts_for);
  }
  static constexpr Duration refusal_counts_for = Duration::seconds(10);
  // Changes that wait for the disk.
  std::uint64_t waiting() const noexcept { return pending_.taken(); }
  GroupCache& cache() noexcept { return cache_; }
  // The index in use, while the store is open.
  std::shared_ptr<OpenIndex> index() const {
    return index_.with([](const std::shared_ptr<OpenIndex>& open) { return open; });
  }
  // Compared with a port's index, without a lock, to tell whether that is still the one in use.
  std::uint64_t index_number() const noexcept { return index_number_.load(std::memory_order_acquire); }
  // The index of this number is damaged. Ignored if that index was replaced since.
  void distrust_index(std::uint64_t number) noexcept;
  void ask_for_scrub();
  // Gives up objects that are known to be lost: their addresses are removed, and the loss is told no more.
  void ask_to_accept_losses();

 private:
  friend class StorePort;
  template <class F>
  void tell_ports(F tell);

  StoreOptions options_;
  KvMaker& kv_maker_;
  GroupCache& cache_;
  Permits pending_;
  StoreStatus status_;
  Mailbox* home_mailbox_ = nullptr;
  Guarded<std::shared_ptr<OpenIndex>, index_in_use_lock.rank> index_;
  std::atomic<std::uint64_t> index_number_{0};
  std::unique_ptr<ObjectHome> home_;
  struct PortList {
    std::vector<std::pair<StorePort*, Mailbox*>> ports;
  };
  using Ports = Guarded<PortList, ports_lock.rank>;
  std::shared_ptr<Ports> ports_ = std::make_shared<Ports>();  // also of the mail that is under way to them
};

}  // namespace cairn::store
