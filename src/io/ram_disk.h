// RamDisk: a disk in memory, for a node that must leave nothing behind. Bounded; gone with the process.
//
// From any thread: each file's bytes and the names are under locks of their own, and no operation waits.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "io/file.h"
#include "runtime/declaration.h"
#include "runtime/guarded.h"

namespace cairn::io {

inline constexpr LockDeclaration ram_names_lock{"ram-names", 24, "names of the disk in memory (amnesia)"};
inline constexpr LockDeclaration ram_bytes_lock{"ram-bytes", 25, "bytes of its files"};

class RamDisk final : public Disk {
 public:
  explicit RamDisk(std::uint64_t capacity);
  ~RamDisk() override;

  Task<Result<std::unique_ptr<File>>> open(Call call, std::string path, OpenMode mode) override;
  Task<Result<>> rename(Call call, std::string from, std::string to) override;
  Task<Result<>> unlink(Call call, std::string path) override;
  Task<Result<>> make_directory(Call call, std::string path) override;
  Task<Result<std::vector<std::string>>> list(Call call, std::string path) override;
  Task<Result<>> sync_directory(Call call, std::string path) override;
  Task<Result<FreeSpace>> free_space(Call call, std::string path) override;
  Task<Result<std::uint64_t>> total_space(Call call, std::string path) override;

  struct Room;
  struct Content;

 private:
  struct Names {
    std::map<std::string, std::shared_ptr<Content>> files;
    std::map<std::string, bool> directories;
  };
  std::uint64_t capacity_;
  std::shared_ptr<Room> room_;
  Guarded<Names, ram_names_lock.rank> names_;
};

}  // namespace cairn::io
