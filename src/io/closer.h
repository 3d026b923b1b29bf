// Closer: where the descriptors of files are closed. The last close of a file that was removed gives its
// blocks back to the file system, which takes as long as it takes; so no destructor on a shard does it.
//   [CL-1] While there is a pool, a descriptor of a file is closed on one of its threads.
//   [CL-2] When the lane is full, descriptors wait here, and are tried again with the next use of the disk.
//          They are no more than were open. When the pool has ended, they are closed by the thread that ends
//          it.
#pragma once

#include <memory>

#include "runtime/list.h"
#include "runtime/pool.h"

namespace cairn::io {

class Closer;

// Owned by the File and by every operation still running on it: a descriptor is not closed under one.
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

// One shard's. Descriptors outlive neither their shard nor, without being closed at once, the pool.
class Closer : public std::enable_shared_from_this<Closer> {
 public:
  explicit Closer(Pool& pool) noexcept : pool_(&pool) {}
  ~Closer();
  Closer(const Closer&) = delete;
  Closer& operator=(const Closer&) = delete;

  // From any thread. Takes both over.
  SharedDescriptor hold(int number, int direct);
  // What waits is tried again.
  void retry() noexcept {
    if (!waiting_.empty()) submit();
  }
  // There is no pool any more.
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

// At once, on a thread that may wait: never on a shard.
void close_here(int descriptor) noexcept;

}  // namespace cairn::io
