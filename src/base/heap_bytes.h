// HeapBytes: bytes on the heap with one owner, not initialised, free to travel between threads.
#pragma once

#include <cstring>
#include <memory>

#include "base/bytes.h"
#include "base/check.h"

namespace cairn {

class HeapBytes {
 public:
  HeapBytes() = default;
  explicit HeapBytes(std::size_t capacity)
      : data_(std::make_unique_for_overwrite<std::byte[]>(capacity)), capacity_(capacity) {}
  HeapBytes(HeapBytes&& other) noexcept { swap(other); }
  HeapBytes& operator=(HeapBytes&& other) noexcept {
    swap(other);
    return *this;
  }

  std::size_t size() const noexcept { return size_; }
  std::size_t capacity() const noexcept { return capacity_; }
  bool empty() const noexcept { return size_ == 0; }
  ByteView bytes() const noexcept { return {data_.get(), size_}; }
  MutableByteView bytes() noexcept { return {data_.get(), size_}; }
  MutableByteView room() noexcept { return {data_.get() + size_, capacity_ - size_}; }
  void fill(std::size_t count) noexcept {
    CHECK(count <= capacity_ - size_);
    size_ += count;
  }
  void clear() noexcept { size_ = 0; }
  // Precondition: there is room.
  void append(ByteView more) noexcept {
    CHECK(more.size() <= capacity_ - size_);
    if (!more.empty()) std::memcpy(data_.get() + size_, more.data(), more.size());
    size_ += more.size();
  }

 private:
  void swap(HeapBytes& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
  }
  std::unique_ptr<std::byte[]> data_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace cairn
