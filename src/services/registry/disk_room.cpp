// Whether there is room for changes.
#include "services/registry/home.h"

namespace cairn::registry {

// Room is bytes and the right to make a file: a disk that is out of inodes has the first and not the second.
Task<bool> Home::look_for_room(Call call) {
  const RegistryOptions& options = registry_.options();
  const auto room = co_await machine_.disk.free_space(call, options.directory);
  if (!room) co_return !registry_.status_.full;
  bool full = room->bytes < options.reserve / 8;
  // Only where it is in doubt: a file for nothing every second would be too much.
  if (!full && (registry_.status_.full || !looked_for_room_)) {
    const std::string probe = options.directory + "/room";
    const auto made = co_await machine_.disk.open(call, probe, io::OpenMode::create_new);
    full = !made && made.error().code == ErrorCode::storage_full;
    (void)co_await machine_.disk.unlink(call, probe);
  }
  looked_for_room_ = true;
  if (registry_.status_.full.exchange(full) != full)
    full ? log_.warn("the disk is full: changes are refused") : log_.info("there is room for changes again");
  co_return !full;
}

}  // namespace cairn::registry
