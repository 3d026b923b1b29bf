// KernelDisk: the real file system. What may block goes to the pool; reads try the page cache first.
#pragma once

#include "io/file.h"
#include "runtime/pool.h"

namespace cairn::io {

class KernelDisk : public Disk {
 public:
  explicit KernelDisk(Pool& pool) noexcept : pool_(pool) {}

  Task<Result<std::unique_ptr<File>>> open(Call call, std::string path, OpenMode mode) override;
  Task<Result<>> rename(Call call, std::string from, std::string to) override;
  Task<Result<>> unlink(Call call, std::string path) override;
  Task<Result<>> make_directory(Call call, std::string path) override;
  Task<Result<std::vector<std::string>>> list(Call call, std::string path) override;
  Task<Result<>> sync_directory(Call call, std::string path) override;
  Task<Result<std::uint64_t>> free_space(Call call, std::string path) override;

 private:
  Pool& pool_;
};

}  // namespace cairn::io
