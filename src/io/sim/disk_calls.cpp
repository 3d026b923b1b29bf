// The effects of a SimDisk's operations at their completion.
#include <algorithm>

#include "base/check.h"
#include "io/sim/disk.h"

namespace cairn::io::sim {
namespace {

Error failed(DiskFailure how, const char* context) noexcept {
  return {how == DiskFailure::full ? ErrorCode::storage_full : ErrorCode::io_failed, context};
}

}  // namespace

Result<> SimDisk::perform(Operation& operation) {
  // Reads, writes and syncs have their own way to fail; the others fail without an effect.
  switch (operation.call) {
    case DiskCall::read:
      return perform_read(operation);
    case DiskCall::write:
      return perform_write(operation);
    case DiskCall::sync_data:
      return perform_sync(operation);
    case DiskCall::sync_directory:
      return perform_sync_directory(operation);
    default:
      break;
  }
  if (operation.forced) return fail(failed(operation.failure, "injected"));
  switch (operation.call) {
    case DiskCall::open:
      return perform_open(operation);
    case DiskCall::truncate:
      return perform_truncate(operation);
    case DiskCall::rename:
      return perform_rename(operation);
    case DiskCall::unlink:
      return perform_unlink(operation);
    case DiskCall::make_directory:
      return perform_make_directory(operation);
    case DiskCall::list:
      if (!view_.has_directory(operation.path)) return fail(ErrorCode::not_found, "list");
      operation.names = view_.list(operation.path);
      return {};
    case DiskCall::total_space:
      operation.number = capacity_;
      return {};
    default:
      operation.number = used_ < capacity_ ? capacity_ - used_ : 0;
      operation.files = files_most_ - std::min(files_most_, files());
      return {};
  }
}

Result<> SimDisk::perform_open(Operation& operation) {
  const Image::Entry* entry = view_.find(operation.path);
  if (entry != nullptr) {
    if (operation.mode == OpenMode::create_new) return fail(ErrorCode::conflict, "open");
    if (entry->directory) return fail(ErrorCode::not_found, "not a file");
    operation.inode = entry->inode;
    return {};
  }
  if (operation.mode != OpenMode::create_new || !view_.has_directory(Image::parent(operation.path)))
    return fail(ErrorCode::not_found, "open");
  if (files() >= files_most_) return fail(ErrorCode::storage_full, "open");
  operation.inode = next_inode_++;
  view_.names[operation.path] = {false, operation.inode};
  view_.own(operation.inode);
  Change& change = add_change(Change::Kind::create);
  change.inode = operation.inode;
  change.path = operation.path;
  changed();
  return {};
}

Result<> SimDisk::perform_read(Operation& operation) {
  if (operation.forced) return fail(failed(operation.failure, "read"));
  if (operation.region.owner) {
    TRY(operation.count,
        read_now(operation.inode, operation.offset, operation.region.bytes, operation.direct));
    return {};
  }
  const MutableByteView room = operation.buffer.room();
  TRY(const std::size_t count,
      read_now(operation.inode, operation.offset, room.first(std::min(operation.count, room.size()))));
  operation.buffer.fill(count);
  return {};
}

Result<std::size_t> SimDisk::read_now(std::uint64_t inode, std::uint64_t offset, MutableByteView into,
                                      bool direct) {
  if (clockwork_.chance(faults.read_error, "disk.read_error")) {
    clockwork_.probes.hit("disk.read_error");
    return fail(ErrorCode::io_failed, "read");
  }
  const FileData* file = view_.data(inode);
  if (file == nullptr) return 0;
  const std::size_t count = file->read(offset, into);
  if (count == 0) return count;
  for (auto bad = rotten_in_memory_.lower_bound({inode, offset});
       !direct && bad != rotten_in_memory_.end() && bad->first < std::pair(inode, offset + count); ++bad)
    into[static_cast<std::size_t>(bad->first.second - offset)] ^= bad->second;
  if (clockwork_.chance(faults.rot, "disk.rot")) {
    const std::uint64_t at =
        offset + clockwork_.choices.pick(static_cast<std::uint32_t>(count), "disk.rot_offset");
    for (const auto& [path, entry] : view_.names)
      if (!entry.directory && entry.inode == inode) {
        rot(std::string(path), at, static_cast<std::byte>(1u << clockwork_.choices.pick(8, "disk.rot_bit")));
        break;
      }
    file = view_.data(inode);
    file->read(offset, into);
  }
  if (clockwork_.chance(faults.misdirected_read, "disk.misdirected_read")) {
    clockwork_.probes.hit("disk.misdirected_read");
    file->peek(random_sector(inode, "disk.elsewhere"), into.first(count));
  } else if (clockwork_.chance(faults.stale_read, "disk.stale_read")) {
    clockwork_.probes.hit("disk.stale_read");
    if (const FileData* old = durable_.data(inode))
      old->peek(offset, into.first(count));
    else
      std::fill_n(into.begin(), count, std::byte{0});
  }
  return count;
}

Result<> SimDisk::perform_write(Operation& operation) {
  ByteView bytes = operation.heap.empty() ? operation.buffer.bytes() : operation.heap.bytes();
  Result<> outcome;
  if (operation.forced) {
    outcome = fail(failed(operation.failure, "write"));
    bytes = bytes.first(operation.failure == DiskFailure::partial ? bytes.size() / 2 : 0);
  } else if (clockwork_.chance(faults.write_error, "disk.write_error")) {
    clockwork_.probes.hit("disk.write_error");
    outcome = fail(ErrorCode::io_failed, "write");
    bytes = bytes.first(clockwork_.choices.pick(static_cast<std::uint32_t>(bytes.size()), "disk.written"));
  }
  if (bytes.empty()) return outcome;
  std::uint64_t offset = operation.offset;
  if (size_of(operation.inode) > sector_size &&
      clockwork_.chance(faults.misdirected_write, "disk.misdirected_write")) {
    clockwork_.probes.hit("disk.misdirected_write");
    offset = random_sector(operation.inode, "disk.elsewhere");
    const std::uint64_t room = size_of(operation.inode) - offset;
    bytes = bytes.first(static_cast<std::size_t>(std::min<std::uint64_t>(bytes.size(), room)));
  }
  TRY_VOID(write_now(operation.inode, offset, bytes));
  return outcome;
}

Result<> SimDisk::write_now(std::uint64_t inode, std::uint64_t offset, ByteView bytes) {
  const std::uint64_t size = size_of(inode);
  const std::uint64_t end = offset + bytes.size();
  const std::uint64_t growth = end > size ? end - size : 0;
  const std::uint64_t room = capacity_ > used_ ? capacity_ - used_ : 0;
  const bool full = growth > room;
  if (full) {
    // As much as fits, as a file system does.
    clockwork_.probes.hit("disk.full");
    const std::uint64_t over = growth - room;
    bytes = bytes.first(over >= bytes.size() ? 0 : bytes.size() - static_cast<std::size_t>(over));
  }
  if (!bytes.empty()) {
    view_.own(inode).write(offset, bytes);
    used_ += size_of(inode) - size;
    Change& change = add_change(Change::Kind::write);
    change.inode = inode;
    change.offset = offset;
    change.bytes = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
    changed();
  }
  if (full) return fail(ErrorCode::storage_full, "write");
  return {};
}

Result<> SimDisk::perform_sync(Operation& operation) {
  const auto covered = [&](const Change& change) {
    return !change.names() && change.inode == operation.inode && change.sequence <= operation.sequence;
  };
  if (operation.forced || clockwork_.chance(faults.sync_error, "disk.sync_error")) {
    // The pages are marked clean although they never reached the disk: a later sync reports no error.
    clockwork_.probes.hit("disk.sync_failed");
    std::erase_if(pending_, covered);
    if (clockwork_.choices.pick(2, "disk.sync_evicted") == 1) {
      // Under memory pressure the clean pages are dropped too, and reads find the old bytes.
      clockwork_.probes.hit("disk.sync_evicted");
      FileData old;
      if (const FileData* durable = durable_.data(operation.inode)) old = *durable;
      for (const Change& change : pending_)
        if (change.inode == operation.inode && change.kind == Change::Kind::write)
          old.write(change.offset, *change.bytes);
      const std::uint64_t size = size_of(operation.inode);
      old.resize(size);  // the size is metadata, which is kept
      view_.own(operation.inode) = std::move(old);
    }
    changed();
    return fail(operation.forced ? failed(operation.failure, "sync") : Error(ErrorCode::io_failed, "sync"));
  }
  for (const Change& change : pending_)
    if (covered(change)) commit(change);
  std::erase_if(pending_, covered);
  changed();
  return {};
}

Result<> SimDisk::perform_truncate(Operation& operation) {
  const std::uint64_t size = size_of(operation.inode);
  if (operation.offset > size && operation.offset - size > capacity_ - std::min(used_, capacity_)) {
    clockwork_.probes.hit("disk.full");
    return fail(ErrorCode::storage_full, "truncate");
  }
  used_ = used_ - size + operation.offset;
  view_.own(operation.inode).resize(operation.offset);
  Change& change = add_change(Change::Kind::resize);
  change.inode = operation.inode;
  change.offset = operation.offset;
  changed();
  return {};
}

Result<> SimDisk::perform_rename(Operation& operation) {
  const Image::Entry* entry = view_.find(operation.from);
  if (entry == nullptr || !view_.has_directory(Image::parent(operation.path)))
    return fail(ErrorCode::not_found, "rename");
  const Image::Entry* old = view_.find(operation.path);
  // Services rename files only; a directory would move every name below it.
  if (entry->directory || (old != nullptr && old->directory))
    return fail(ErrorCode::invalid, "rename a directory");
  if (operation.from == operation.path) return {};
  const std::uint64_t inode = entry->inode;
  const std::uint64_t replaced = old == nullptr ? 0 : old->inode;
  view_.names.erase(operation.from);
  view_.names[operation.path] = {false, inode};
  if (replaced != 0) unlinked(replaced);
  Change& change = add_change(Change::Kind::rename);
  change.inode = inode;
  change.path = operation.path;
  change.from = operation.from;
  changed();
  return {};
}

Result<> SimDisk::perform_unlink(Operation& operation) {
  const Image::Entry* entry = view_.find(operation.path);
  if (entry == nullptr) return fail(ErrorCode::not_found, "unlink");
  if (entry->directory) return fail(ErrorCode::io_failed, "unlink a directory");
  const std::uint64_t inode = entry->inode;
  view_.names.erase(operation.path);
  unlinked(inode);
  Change& change = add_change(Change::Kind::unlink);
  change.inode = inode;
  change.path = operation.path;
  changed();
  return {};
}

Result<> SimDisk::perform_make_directory(Operation& operation) {
  if (operation.path.empty() || view_.find(operation.path) != nullptr)
    return fail(ErrorCode::conflict, "make directory");
  if (!view_.has_directory(Image::parent(operation.path)))
    return fail(ErrorCode::not_found, "make directory");
  view_.names[operation.path] = {true, 0};
  add_change(Change::Kind::make_directory).path = operation.path;
  changed();
  return {};
}

Result<> SimDisk::perform_sync_directory(Operation& operation) {
  if (!view_.has_directory(operation.path)) return fail(ErrorCode::not_found, "sync directory");
  for (Change& change : pending_) {
    if (!change.names() || change.sequence > operation.sequence) continue;
    if (Image::parent(change.path) == operation.path) change.path_synced = true;
    if (change.kind != Change::Kind::rename || Image::parent(change.from) == operation.path)
      change.from_synced = true;
  }
  const auto covered = [](const Change& change) {
    return change.names() && change.path_synced && change.from_synced;
  };
  if (operation.forced || clockwork_.chance(faults.sync_error, "disk.sync_error")) {
    clockwork_.probes.hit("disk.sync_failed");
    std::erase_if(pending_, covered);
    changed();
    return fail(operation.forced ? failed(operation.failure, "sync")
                                 : Error(ErrorCode::io_failed, "sync directory"));
  }
  for (const Change& change : pending_)
    if (covered(change)) commit(change);
  std::erase_if(pending_, covered);
  // Files that no name and no pending change refers to need not be kept for a crash.
  if (durable_.files.size() > 2 * view_.files.size() + 64)
    durable_.prune([&](std::uint64_t inode) {
      return view_.files.contains(inode) ||
             std::any_of(pending_.begin(), pending_.end(),
                         [&](const Change& change) { return change.inode == inode; });
    });
  changed();
  return {};
}

}  // namespace cairn::io::sim
