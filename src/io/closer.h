// Closer: where the descriptors of files are closed. The last close of a removed file gives its blocks back
// to the file system, which may take long; so no destructor on a shard closes a file.
//   [CL-1] While there is a pool, a descriptor of a file is closed on one of its threads.
//   [CL-2] When the lane is full, descriptors wait here and are tried again with the next use of the disk.
//          Their number is bounded by the files that were open. When the pool has ended, the thread that ends
//          it closes them.
#pragma once

#include <memory>

#include "runtime/list.h"
#include "runtime/pool.h"

namespace cairn::io {

class Closer;

// Owned by the File and by every operation still running on it: a descriptor is not closed under a running
// operation.
class Descriptor : public Link {
 public:
  int number() const noexcept { return number_; }
  int direct() const noexcept { return direct_; }  // a second one, past the page cache; -1: none

 private:
  friend class Closer;
  Descriptor(int number, int direct) noexcept : number_(number), direct_(direct) {}
  int number_;
  int direct_;
};
using SharedDescriptor = std::shared_ptr<Descriptor>;

// One for each shard. Descriptors do not outlive their shard. One that outlives the pool is closed at once.
class Closer : public std::enable_shared_from_this<Closer> {
 public:
  explicit Closer(Pool& pool) noexcept : pool_(&pool) {}
  ~Closer();
  Closer(const Closer&) = delete;
  Closer& operator=(const Closer&) = delete;

  // Takes ownership of both descriptors. From any thread.
  SharedDescriptor hold(int number, int direct);
  // Submits the waiting descriptors again.
  void retry() noexcept {
    if (!waiting_.empty()) submit();
  }
  // Called when the pool has ended.
  void end() noexcept;
  std::size_t waiting() const noexcept { return count_; }

 private:
  class Job;
  void close(Descriptor* descriptor) noexcept;
  void submit() noexcept;
  static void close_all(List<Descriptor>& descriptors) noexcept;

  Pool* pool_;
  List<Descriptor> waiting_;
  std::size_t count_ = 0;
  bool closing_ = false;
};

// Closes it at once. For a thread that may block: never on a shard.
void close_here(int descriptor) noexcept;

}  // namespace cairn::io
