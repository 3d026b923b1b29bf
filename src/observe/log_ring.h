// LogRing: a bounded queue of fixed-size records from one thread to one other.
//
// One of the tree's few atomic protocols. Two positions that only grow:
//   written_  stored by the producer (release) after it filled the record; loaded by the consumer (acquire),
//             which then sees the whole record.
//   read_     stored by the consumer (release) after it copied the record out; loaded by the producer
//             (acquire), which may then overwrite the record.
// Each side reads its own position relaxed. The producer never waits: a full ring drops and counts.
//   [LR-1] One producer thread, one consumer thread at a time.
//   [LR-2] read_ <= written_ <= read_ + capacity.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace cairn::observe {

struct LogRecord {
  static constexpr std::size_t payload_size = 500;
  std::int64_t wall_ms = 0;
  std::uint8_t level = 0;
  std::uint8_t truncated = 0;
  std::uint16_t size = 0;  // used bytes of payload
  std::array<std::byte, payload_size> payload;
};
static_assert(sizeof(LogRecord) == 512);

class LogRing {
 public:
  // Capacity is rounded up to a power of two.
  explicit LogRing(std::uint32_t capacity);

  // Producer: the record to fill, or nullptr when full (counted). publish() hands it over.
  LogRecord* try_claim() noexcept;
  void publish() noexcept;

  // Consumer: the oldest record, or nullptr. release() gives its place back.
  const LogRecord* front() const noexcept;
  void release() noexcept;

  // From any thread: everything published before has been released.
  bool empty() const noexcept {
    return read_.load(std::memory_order_acquire) == written_.load(std::memory_order_acquire);
  }
  std::uint64_t dropped() const noexcept { return dropped_.load(std::memory_order_relaxed); }

 private:
  std::size_t mask_;
  std::unique_ptr<LogRecord[]> records_;
  alignas(64) std::atomic<std::uint64_t> written_{0};
  std::atomic<std::uint64_t> dropped_{0};  // on the producer's cache line
  alignas(64) std::atomic<std::uint64_t> read_{0};
};

}  // namespace cairn::observe
