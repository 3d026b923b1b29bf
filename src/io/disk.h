// KernelDisk: the real file system. Operations that may block go to the pool; reads try the page cache first.
//   [KD-1] Reads go by the lane `read`, changes by `upkeep`, a committer's steps by `commit`. So however many
//          readers wait, a segment can be begun, its space allocated, and a file removed.
#pragma once

#include "io/closer.h"
#include "io/file.h"
#include "runtime/pool.h"

namespace cairn::io {

class KernelDisk : public Disk {
 public:
  explicit KernelDisk(Pool& pool);
  ~KernelDisk() override;

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
  KernelDisk(KernelDisk& root, Lane all) noexcept;

  KernelDisk& root_;
  Pool& pool_;
  Lane reads_, changes_;
  std::shared_ptr<Closer> closer_;
  std::unique_ptr<KernelDisk> commits_, upkeep_;
};

}  // namespace cairn::io
