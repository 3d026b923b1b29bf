// Pipe: one direction of a simulated connection: the bytes written and not yet read. Bytes lie in the
// writer's send buffer until they arrive at the reader's side, then on that side until they are read; the
// reader's window bounds the bytes that may be sent. As in a kernel, a shut window opens again only once
// `reopen` bytes of it are free, and the writer is told of room only once a third of its buffer is free.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"

namespace cairn::io::sim {

// A growing ring: an idle connection holds no memory, a busy one as much as it ever needed.
class ByteRing {
 public:
  std::size_t size() const noexcept { return size_; }
  void push(ByteView bytes) {
    if (size_ + bytes.size() > storage_.size()) grow(size_ + bytes.size());
    const std::size_t mask = storage_.size() - 1;
    const std::size_t at = (head_ + size_) & mask;
    const std::size_t first = std::min(bytes.size(), storage_.size() - at);
    if (first != 0) std::memcpy(storage_.data() + at, bytes.data(), first);
    if (bytes.size() > first) std::memcpy(storage_.data(), bytes.data() + first, bytes.size() - first);
    size_ += bytes.size();
  }
  void pop(MutableByteView into) noexcept {
    const std::size_t first = std::min(into.size(), storage_.size() - head_);
    if (first != 0) std::memcpy(into.data(), storage_.data() + head_, first);
    if (into.size() > first) std::memcpy(into.data() + first, storage_.data(), into.size() - first);
    drop(into.size());
  }
  void drop(std::size_t count) noexcept {
    CHECK(count <= size_);
    if (count == 0) return;
    head_ = (head_ + count) & (storage_.size() - 1);
    size_ -= count;
  }
  void clear() noexcept { head_ = size_ = 0; }

 private:
  void grow(std::size_t needed) {
    std::size_t capacity = std::max<std::size_t>(storage_.size(), 512);
    while (capacity < needed) capacity *= 2;
    std::vector<std::byte> larger(capacity);
    const std::size_t count = size_;
    if (count != 0) pop({larger.data(), count});
    storage_ = std::move(larger);
    head_ = 0;
    size_ = count;
  }
  std::vector<std::byte> storage_;
  std::size_t head_ = 0;
  std::size_t size_ = 0;
};

// Lengths of the segments under way, oldest first; 0 is the end of the stream.
class SegmentQueue {
 public:
  bool empty() const noexcept { return head_ == lengths_.size(); }
  void push(std::uint32_t length) { lengths_.push_back(length); }
  std::uint32_t pop() noexcept {
    const std::uint32_t length = lengths_[head_++];
    if (empty()) clear();
    return length;
  }
  void clear() noexcept {
    lengths_.clear();
    head_ = 0;
  }

 private:
  std::vector<std::uint32_t> lengths_;
  std::size_t head_ = 0;
};

struct Pipe {
  ByteRing bytes;           // written and not yet read
  SegmentQueue segments;    // under way
  std::size_t unsent = 0;   // of `bytes`, at the end: held back by a cork, or by a shut window
  std::size_t arrived = 0;  // of `bytes`, at the front: readable
  std::size_t owed = 0;     // read, but a slow reader has not given the room back yet
  std::size_t buffer = 0;   // of the writer: written and not yet arrived, at most
  std::size_t window = 0;   // of the reader: sent and not yet read, at most
  std::size_t reopen = 0;   // a shut window opens once this much of it is free
  std::uint32_t held = 0;   // segments that came while the way was cut
  std::int64_t last_due = 0;
  bool corked = false;
  bool blocked = false;  // the writer waits for room
  bool shut = false;     // bytes wait for the reader's window
  bool slow = false;
  bool finished = false;  // the writer will send no more
  bool end_sent = false;
  bool ended = false;  // that end has arrived

  std::size_t unacknowledged() const noexcept { return bytes.size() - arrived; }
  std::size_t room() const noexcept { return unacknowledged() < buffer ? buffer - unacknowledged() : 0; }
  // How much may be sent now.
  std::size_t open() const noexcept {
    const std::size_t used = bytes.size() - unsent + owed;
    return used < window ? window - used : 0;
  }
  bool above_low_water() const noexcept { return room() >= (buffer + 2) / 3; }
  void reset(std::size_t new_buffer, std::size_t new_window, std::size_t new_reopen) noexcept {
    bytes.clear();
    segments.clear();
    unsent = arrived = owed = 0;
    buffer = new_buffer;
    window = new_window;
    reopen = new_reopen;
    held = 0;
    last_due = 0;
    corked = blocked = shut = slow = finished = end_sent = ended = false;
  }
};

}  // namespace cairn::io::sim
