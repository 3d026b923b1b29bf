// The interfaces of a disk and its files, as coroutines over SimDisk's operations.
#include <algorithm>
#include <utility>

#include "base/check.h"
#include "io/sim/disk.h"
#include "runtime/wait.h"

namespace cairn::io::sim {

// An operation from its submission to its result. Leaving without the result abandons it.
class DiskTicket {
 public:
  DiskTicket(SimDisk& disk, SimPool& pool, Lane lane, DiskCall call)
      : disk_(disk), pool_(pool), lane_(lane), operation_(disk.begin(call)) {}
  ~DiskTicket() {
    if (operation_.finished || !entered_) {
      disk_.release(operation_);
      return;
    }
    operation_.abandoned = true;
    ++disk_.orphans_;
    disk_.clockwork_.probes.hit("disk.orphan");
  }
  DiskTicket(const DiskTicket&) = delete;
  DiskTicket& operator=(const DiskTicket&) = delete;

  SimDisk::Operation* operator->() noexcept { return &operation_; }

  // A place in the lane's queue. Nothing is submitted for a call that is already over.
  Result<> try_enter(const Call& call) {
    if (call.stopped() || call.expired()) return fail(ErrorCode::cancelled, "disk");
    operation_.lanes = &pool_.lanes();
    auto entered = pool_.lanes().try_enter(lane_, operation_, pool_);
    if (!entered) operation_.lanes = nullptr;
    entered_ = entered.has_value();
    return entered;
  }
  // Takes it back, if it has not begun.
  bool try_withdraw() noexcept {
    if (!entered_ || !pool_.lanes().try_leave(operation_)) return false;
    operation_.lanes = nullptr;
    entered_ = false;
    return true;
  }
  ListWait done(const Call& call, const char* context) noexcept {
    return {call, operation_.waiters, context};
  }
  bool finished() const noexcept { return operation_.finished; }
  SimPool& pool() noexcept { return pool_; }
  Lane lane() const noexcept { return lane_; }

 private:
  SimDisk& disk_;
  SimPool& pool_;
  Lane lane_;
  SimDisk::Operation& operation_;
  bool entered_ = false;
};

namespace {

// As run() of the real pool, for an operation that takes its own time: waits for room in the lane, for a
// thread, and for the operation, whose own failure becomes the caller's.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller waits
Task<Result<>> run(Call call, DiskTicket& ticket, const char* context) {
  Pool::Room& room = ticket.pool().room(ticket.lane());
  LaneWatch watch(ticket.pool(), call, ticket.lane());
  ticket->urgent = watch.urgent();
  Result<> entered = fail(ErrorCode::busy, context);
  if (!room.entering && room.waiting.empty()) entered = ticket.try_enter(call);
  const bool refused = !entered && entered.error().code == ErrorCode::busy;
  for (bool first = watch.urgent(); !entered && entered.error().code == ErrorCode::busy; first = true) {
    const Result<> waited = co_await RoomWait(watch.span(), room, first);
    if (watch.goes_on(waited)) continue;
    entered = waited ? ticket.try_enter(call) : waited;
  }
  if (refused) ticket.pool().tell_room(ticket.lane());
  if (!entered) {
    // The call had ended before the operation was submitted: the wait says why.
    Result<> over = entered;
    if (call.stopped() || call.expired()) over = co_await ticket.done(call, context);
    co_return fail(watch.refusal((over ? entered : over).error()).as_undone());
  }
  Result<> waited;
  do {
    do {
      if (!ticket.finished()) waited = co_await ticket.done(watch.span(), context);
    } while (!ticket.finished() && watch.goes_on(waited));
    if (ticket.finished()) {
      watch.done();
      co_return ticket->outcome;
    }
    if (ticket.try_withdraw()) co_return fail(watch.refusal(waited.error()).as_undone());
  } while (watch.goes_on_running(waited));
  co_return fail(waited.error());
}

}  // namespace

DiskPort::DiskPort(SimDisk& disk, SimPool& pool)
    : root_(*this),
      disk_(disk),
      pool_(pool),
      reads_(Lane::read),
      changes_(Lane::upkeep),
      commits_(new DiskPort(*this, Lane::commit)),
      upkeep_(new DiskPort(*this, Lane::upkeep)) {}
DiskPort::DiskPort(DiskPort& root, Lane all) noexcept
    : root_(root), disk_(root.disk_), pool_(root.pool_), reads_(all), changes_(all) {}

Task<Result<std::unique_ptr<File>>> DiskPort::open(Call call, std::string path, OpenMode mode) {
  const bool reads = mode == OpenMode::read || mode == OpenMode::read_direct;
  DiskTicket ticket(disk_, pool_, reads ? reads_ : changes_, DiskCall::open);
  ticket->path = Image::normalise(path);
  ticket->mode = mode;
  CO_TRY_VOID(co_await run(call, ticket, "open"));
  // Between completion and here the file may have been unlinked; its inode is gone then.
  if (disk_.view_.data(ticket->inode) == nullptr) co_return fail(ErrorCode::not_found, "open");
  co_return std::make_unique<SimFile>(disk_, pool_, reads_, changes_, ticket->inode);
}

Task<Result<>> DiskPort::on_path(Call call, DiskCall kind, std::string path, std::string from) {
  DiskTicket ticket(disk_, pool_, changes_, kind);
  ticket->path = Image::normalise(path);
  ticket->from = Image::normalise(from);
  co_return co_await run(call, ticket, "disk");
}

Task<Result<>> DiskPort::rename(Call call, std::string from, std::string to) {
  return on_path(call, DiskCall::rename, std::move(to), std::move(from));
}
Task<Result<>> DiskPort::unlink(Call call, std::string path) {
  return on_path(call, DiskCall::unlink, std::move(path), {});
}
Task<Result<>> DiskPort::make_directory(Call call, std::string path) {
  return on_path(call, DiskCall::make_directory, std::move(path), {});
}
Task<Result<>> DiskPort::sync_directory(Call call, std::string path) {
  return on_path(call, DiskCall::sync_directory, std::move(path), {});
}

Task<Result<std::vector<std::string>>> DiskPort::list(Call call, std::string path) {
  DiskTicket ticket(disk_, pool_, reads_, DiskCall::list);
  ticket->path = Image::normalise(path);
  CO_TRY_VOID(co_await run(call, ticket, "list"));
  co_return std::move(ticket->names);
}

Task<Result<FreeSpace>> DiskPort::free_space(Call call, std::string path) {
  DiskTicket ticket(disk_, pool_, reads_, DiskCall::free_space);
  ticket->path = Image::normalise(path);
  CO_TRY_VOID(co_await run(call, ticket, "free space"));
  co_return FreeSpace{ticket->number, ticket->files};
}

Task<Result<std::uint64_t>> DiskPort::total_space(Call call, std::string path) {
  DiskTicket ticket(disk_, pool_, reads_, DiskCall::total_space);
  ticket->path = Image::normalise(path);
  CO_TRY_VOID(co_await run(call, ticket, "total space"));
  co_return ticket->number;
}

SimFile::SimFile(SimDisk& disk, SimPool& pool, Lane reads, Lane changes, std::uint64_t inode) noexcept
    : disk_(disk), pool_(pool), reads_(reads), changes_(changes), inode_(inode) {
  ++disk_.open_[inode_];
}
SimFile::~SimFile() { disk_.close(inode_); }

Result<std::size_t> SimFile::copy_out(std::uint64_t offset, MutableByteView into) noexcept {
  if (!disk_.powered()) return fail(ErrorCode::io_failed, "read");
  DiskFailure how{};
  if (disk_.forced(DiskCall::read, how)) return fail(ErrorCode::io_failed, "read");
  return disk_.read_now(inode_, offset, into);
}

Result<std::size_t> SimFile::try_read(std::uint64_t offset, std::size_t count, Buffer& into) noexcept {
  const MutableByteView room = into.room();
  TRY(const std::size_t got, try_read_into(offset, room.first(std::min(count, room.size()))));
  into.fill(got);
  return got;
}

Task<Result<Buffer>> SimFile::read(Call call, std::uint64_t offset, std::size_t count, Buffer into) {
  DiskTicket ticket(disk_, pool_, reads_, DiskCall::read);
  ticket->inode = inode_;
  ticket->offset = offset;
  ticket->count = count;
  ticket->buffer = std::move(into);
  CO_TRY_VOID(co_await run(call, ticket, "read"));
  co_return std::move(ticket->buffer);
}

Task<Result<Buffer>> SimFile::write(Call call, std::uint64_t offset, Buffer from) {
  DiskTicket ticket(disk_, pool_, changes_, DiskCall::write);
  ticket->inode = inode_;
  ticket->offset = offset;
  ticket->buffer = std::move(from);
  CO_TRY_VOID(co_await run(call, ticket, "write"));
  co_return std::move(ticket->buffer);
}

Result<std::size_t> SimFile::try_read_into(std::uint64_t offset, MutableByteView into) noexcept {
  if (disk_.clockwork_.chance(disk_.faults.cold, "disk.cold") ||
      disk_.stalled_until_ > disk_.clockwork_.now) {
    disk_.clockwork_.probes.hit("disk.cold_read");
    return fail(ErrorCode::busy, "read");
  }
  return copy_out(offset, into);
}

Task<Result<std::size_t>> SimFile::read_into(Call call, std::uint64_t offset, Region into) {
  CHECK(into.owner != nullptr);
  DiskTicket ticket(disk_, pool_, reads_, DiskCall::read);
  ticket->inode = inode_;
  ticket->offset = offset;
  ticket->region = std::move(into);
  CO_TRY_VOID(co_await run(call, ticket, "read"));
  co_return ticket->count;
}

Task<Result<std::size_t>> SimFile::read_direct(Call call, std::uint64_t offset, std::size_t count,
                                               Region into) {
  CHECK(into.owner != nullptr);
  DiskTicket ticket(disk_, pool_, reads_, DiskCall::read);
  ticket->inode = inode_;
  ticket->offset = offset;
  ticket->direct = true;
  ticket->region = {into.bytes.subspan(offset % direct_alignment, count), std::move(into.owner)};
  CO_TRY_VOID(co_await run(call, ticket, "read"));
  co_return ticket->count;
}

// Between the write and its sync a crash may come, as between any two operations.
Task<Result<>> SimFile::write_blocks(Call call, std::uint64_t offset, std::vector<HeapBytes> blocks,
                                     Sync sync) {
  std::size_t size = 0;
  for (const HeapBytes& block : blocks) size += block.size();
  if (size > 0) {
    DiskTicket ticket(disk_, pool_, changes_, DiskCall::write);
    ticket->inode = inode_;
    ticket->offset = offset;
    ticket->heap = HeapBytes(size);
    for (const HeapBytes& block : blocks) ticket->heap.append(block.bytes());
    CO_TRY_VOID(co_await run(call, ticket, "write"));
  }
  if (sync != Sync::data) co_return Result<>{};
  auto synced = co_await sync_data(call);
  // The write happened, even if the sync never began: the real one is a single step.
  if (!synced) {
    Error error = synced.error();
    error.undone = error.undone && size == 0;
    co_return fail(error);
  }
  co_return synced;
}

Task<Result<>> SimFile::sync_data(Call call) {
  DiskTicket ticket(disk_, pool_, changes_, DiskCall::sync_data);
  ticket->inode = inode_;
  co_return co_await run(call, ticket, "sync");
}

Task<Result<>> SimFile::truncate(Call call, std::uint64_t size) {
  DiskTicket ticket(disk_, pool_, changes_, DiskCall::truncate);
  ticket->inode = inode_;
  ticket->offset = size;
  co_return co_await run(call, ticket, "truncate");
}

Result<std::uint64_t> SimFile::size() const noexcept {
  if (!disk_.powered()) return fail(ErrorCode::io_failed, "size");
  return disk_.size_of(inode_);
}

}  // namespace cairn::io::sim
