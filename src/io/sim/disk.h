// SimDisk: the disk of a simulated node. Programs see the volatile view (the page cache). A crash goes back
// to the durable image plus an arbitrary part of the changes since (crash.h).
//
// Every operation takes simulated time and takes effect when it completes, so that concurrent ones finish in
// any order. Only operations that have a thread of their lane are concurrent; the others wait for a thread. A
// task that stops waiting leaves its operation behind: the operation still happens (counted in orphans()),
// unless it had not begun.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "io/file.h"
#include "io/sim/clockwork.h"
#include "io/sim/crash.h"
#include "io/sim/image.h"
#include "io/sim/pool.h"
#include "runtime/buffer.h"
#include "runtime/waiter.h"

namespace cairn::io::sim {

enum class DiskCall : std::uint8_t {
  open,
  read,
  write,
  sync_data,
  truncate,
  rename,
  unlink,
  make_directory,
  list,
  sync_directory,
  free_space,
  total_space
};
inline constexpr std::size_t disk_calls = 12;

// Rates are per million operations; 0 is never.
struct DiskFaults {
  std::uint32_t read_error = 0;
  std::uint32_t write_error = 0;        // none or a part of the bytes was written
  std::uint32_t sync_error = 0;         // the data is lost, and the next sync succeeds
  std::uint32_t rot = 0;                // a bit of the bytes read has flipped, for good
  std::uint32_t misdirected_read = 0;   // the bytes of another place
  std::uint32_t misdirected_write = 0;  // lands in another place, and not here
  std::uint32_t stale_read = 0;         // the bytes that were durable before the latest writes
  std::uint32_t cold = 0;               // try_read says busy
  std::uint32_t stall = 0;              // the operation takes stall_for
  Duration latency_min = Duration::micros(20);
  Duration latency_max = Duration::micros(200);
  Duration sync_min = Duration::micros(500);
  Duration sync_max = Duration::millis(5);
  Duration stall_for = Duration::seconds(30);
  // The fates of a pending change at a crash, per million; the rest are kept whole.
  std::uint32_t crash_drop = 350'000;
  std::uint32_t crash_tear = 300'000;
  bool powersafe_overwrite = true;
};

enum class DiskFailure : std::uint8_t { error, full, partial };  // partial: part of a write happened

class DiskPort;

class SimDisk {
 public:
  explicit SimDisk(Clockwork& clockwork, std::uint64_t capacity = std::uint64_t{1} << 40);
  SimDisk(const SimDisk&) = delete;
  SimDisk& operator=(const SimDisk&) = delete;
  ~SimDisk();

  DiskFaults faults;
  void set_capacity(std::uint64_t bytes) noexcept { capacity_ = bytes; }
  // The most files that can exist.
  void set_files_most(std::uint64_t count) noexcept { files_most_ = count; }
  std::uint64_t files() const noexcept { return view_.files.size(); }
  std::uint64_t used() const noexcept { return used_; }

  // --- faults on purpose
  // The nth call from now of this kind fails (1: the next); sticky: and every one after it.
  void fail_call(DiskCall call, std::uint64_t nth, DiskFailure how = DiskFailure::error, bool sticky = false);
  void heal() noexcept;  // forgets fail_call and stall; fault rates stay
  std::uint64_t calls(DiskCall call) const noexcept { return calls_[static_cast<std::size_t>(call)]; }
  // Nothing completes before now + span.
  void stall(Duration span);
  // Flips bits of a byte at rest. False: there is no such byte.
  bool rot(std::string_view path, std::uint64_t offset, std::byte mask = std::byte{1});
  // Flips bits of a byte in the page cache alone: reads past the page cache do not see it. The same flip
  // again restores the page. False: there is no such byte.
  bool rot_in_memory(std::string_view path, std::uint64_t offset, std::byte mask = std::byte{1});
  // Flips a random bit of a random file. False: there is none.
  bool rot_somewhere();

  // --- crash
  // No operation has an effect or completes any more.
  void cut() noexcept { powered_ = false; }
  bool powered() const noexcept { return powered_; }
  // Forgets the operations under way (their buffers return to their slabs). For a killed process, a choice
  // says of each operation whether it had reached the kernel.
  void abandon_operations();
  // The durable image takes the pending changes that the fault model keeps; the rest is lost.
  void lose_unsynced();
  void power_on() noexcept { powered_ = true; }

  // --- what is there
  const Image& view() const noexcept { return view_; }        // as programs see it
  const Image& durable() const noexcept { return durable_; }  // as it surely survives a crash
  std::size_t pending() const noexcept { return pending_.size(); }
  DiskSnapshot snapshot() const { return {durable_, pending_, faults.powersafe_overwrite}; }
  // Replaces everything, as by a disk from elsewhere. No file may be open.
  void load(const Image& image);
  // For tests: a durable file.
  void put(std::string_view path, std::string_view text);
  // Unlinks a file now, as another program would.
  void take_away(std::string_view path);
  // Called after each change and each sync: between these moments the possible crash states do not change.
  void set_observer(std::function<void(const SimDisk&)> observer) { observer_ = std::move(observer); }
  std::uint64_t orphans() const noexcept { return orphans_; }
  // Operations that have not completed; and all of them completed now.
  std::size_t under_way() const noexcept;
  void finish_operations();
  std::size_t open_files() const noexcept { return open_.size(); }

 private:
  friend class DiskPort;
  friend class SimFile;
  friend class DiskTicket;

  struct Operation final : SimLanes::Entry {
    void begin() override { disk->submit(*this); }
    SimDisk* disk = nullptr;
    SimLanes* lanes = nullptr;  // while it has a thread, or waits for one
    DiskCall call = DiskCall::read;
    std::uint32_t index = 0;
    std::uint32_t generation = 0;
    bool busy = false;  // in use
    bool finished = false;
    bool abandoned = false;
    bool forced = false;
    bool too_late = false;  // asked for after the cut
    bool direct = false;    // past the page cache
    DiskFailure failure = DiskFailure::error;
    OpenMode mode = OpenMode::read;
    std::uint64_t inode = 0;
    std::uint64_t offset = 0;
    std::size_t count = 0;
    std::uint64_t sequence = 0;
    std::uint64_t number = 0;  // the answer of free_space and total_space
    std::uint64_t files = 0;   // the other answer of free_space
    Buffer buffer;
    Region region;   // the target of a read, in place of `buffer`
    HeapBytes heap;  // the bytes of a write, in place of `buffer`
    std::string path;
    std::string from;
    std::vector<std::string> names;
    Result<> outcome;
    WaitList waiters;
  };
  struct Rule {
    DiskCall call;
    std::uint64_t at;
    DiskFailure how;
    bool sticky;
  };

  Operation& begin(DiskCall call);
  void submit(Operation& operation);
  void release(Operation& operation) noexcept;
  static void complete(void* self, std::uint64_t index, std::uint64_t generation);
  bool forced(DiskCall call, DiskFailure& how) noexcept;

  Result<> perform(Operation& operation);
  Result<> perform_open(Operation& operation);
  Result<> perform_read(Operation& operation);
  Result<> perform_write(Operation& operation);
  Result<> perform_sync(Operation& operation);
  Result<> perform_truncate(Operation& operation);
  Result<> perform_rename(Operation& operation);
  Result<> perform_unlink(Operation& operation);
  Result<> perform_make_directory(Operation& operation);
  Result<> perform_sync_directory(Operation& operation);

  // Reads from the view under the faults of reading.
  Result<std::size_t> read_now(std::uint64_t inode, std::uint64_t offset, MutableByteView into,
                               bool direct = false);
  Result<> write_now(std::uint64_t inode, std::uint64_t offset, ByteView bytes);
  Change& add_change(Change::Kind kind);
  void commit(const Change& change);
  void unlinked(std::uint64_t inode);
  bool is_named(std::uint64_t inode) const noexcept;
  void close(std::uint64_t inode) noexcept;
  void changed();
  std::uint64_t size_of(std::uint64_t inode) const noexcept;
  std::uint64_t random_sector(std::uint64_t inode, Tag tag);

  Clockwork& clockwork_;
  std::uint64_t capacity_;
  std::uint64_t files_most_ = UINT64_MAX;
  std::uint64_t used_ = 0;
  bool powered_ = true;
  Image view_;
  Image durable_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::byte> rotten_in_memory_;  // by inode and offset
  std::vector<Change> pending_;
  std::uint64_t sequence_ = 0;
  std::uint64_t next_inode_ = 1;
  std::map<std::uint64_t, std::uint32_t> open_;  // handles of an inode
  std::vector<std::unique_ptr<Operation>> operations_;
  std::vector<std::uint32_t> free_;
  std::array<std::uint64_t, disk_calls> calls_{};
  std::vector<Rule> rules_;
  Instant stalled_until_{};
  std::uint64_t orphans_ = 0;
  std::function<void(const SimDisk&)> observer_;
};

// One shard's way to its node's disk.
class DiskPort final : public Disk {
 public:
  DiskPort(SimDisk& disk, SimPool& pool);

  Disk& commits() noexcept override { return root_.commits_ ? *root_.commits_ : *this; }
  Disk& upkeep() noexcept override { return root_.upkeep_ ? *root_.upkeep_ : *this; }
  Task<Result<std::unique_ptr<File>>> open(Call call, std::string path, OpenMode mode) override;
  Task<Result<>> rename(Call call, std::string from, std::string to) override;
  Task<Result<>> unlink(Call call, std::string path) override;
  Task<Result<>> make_directory(Call call, std::string path) override;
  Task<Result<std::vector<std::string>>> list(Call call, std::string path) override;
  Task<Result<>> sync_directory(Call call, std::string path) override;
  Task<Result<FreeSpace>> free_space(Call call, std::string path) override;
  Task<Result<std::uint64_t>> total_space(Call call, std::string path) override;

 private:
  DiskPort(DiskPort& root, Lane all) noexcept;
  Task<Result<>> on_path(Call call, DiskCall kind, std::string path, std::string from);

  DiskPort& root_;
  SimDisk& disk_;
  SimPool& pool_;
  Lane reads_, changes_;
  std::unique_ptr<DiskPort> commits_, upkeep_;
};

class SimFile final : public File {
 public:
  SimFile(SimDisk& disk, SimPool& pool, Lane reads, Lane changes, std::uint64_t inode) noexcept;
  ~SimFile() override;

  Result<std::size_t> try_read(std::uint64_t offset, std::size_t count, Buffer& into) noexcept override;
  Task<Result<Buffer>> read(Call call, std::uint64_t offset, std::size_t count, Buffer into) override;
  Task<Result<Buffer>> write(Call call, std::uint64_t offset, Buffer from) override;
  Result<std::size_t> try_read_into(std::uint64_t offset, MutableByteView into) noexcept override;
  Task<Result<std::size_t>> read_into(Call call, std::uint64_t offset, Region into) override;
  Task<Result<std::size_t>> read_direct(Call call, std::uint64_t offset, std::size_t count,
                                        Region into) override;
  Task<Result<>> write_blocks(Call call, std::uint64_t offset, std::vector<HeapBytes> blocks,
                              Sync sync) override;
  Task<Result<>> sync_data(Call call) override;
  Task<Result<>> truncate(Call call, std::uint64_t size) override;
  Result<std::uint64_t> size() const noexcept override;
  bool is_named() const noexcept override { return disk_.is_named(inode_); }
  int descriptor() const noexcept override { return -1; }

  // Stands in for sendfile: reads without waiting, from the disk if need be.
  Result<std::size_t> copy_out(std::uint64_t offset, MutableByteView into) noexcept override;

 private:
  SimDisk& disk_;
  SimPool& pool_;
  Lane reads_, changes_;
  std::uint64_t inode_;
};

}  // namespace cairn::io::sim
