#include "services/registry/disk_room.h"

namespace cairn::registry {

// Room is free bytes and a free inode: a disk that is out of inodes may still have bytes.
Task<bool> DiskRoom::look(Call call) {
  const auto room = co_await machine_.disk.free_space(call, options_.directory);
  if (!room) co_return !status_.full;
  bool full = room->bytes < options_.reserve / 8;
  // Only when in doubt: to make a probe file every second would be too much.
  if (!full && (status_.full || !looked_)) {
    const std::string probe = options_.directory + "/room";
    const auto made = co_await machine_.disk.open(call, probe, io::OpenMode::create_new);
    full = !made && made.error().code == ErrorCode::storage_full;
    (void)co_await machine_.disk.unlink(call, probe);
  }
  looked_ = true;
  if (status_.full.exchange(full) != full)
    full ? log_.warn("the disk is full: changes are refused") : log_.info("there is room for changes again");
  co_return !full;
}

}  // namespace cairn::registry
