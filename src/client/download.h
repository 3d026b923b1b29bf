// Getting objects: every group of 64 KiB is verified against the address as it arrives.
//   [DL-1] No byte reaches the destination that was not proved to be the object's at its offset, whatever the
//         server says.
//   [DL-2] A download that ended well has verified the last group, which proves the size.
//   [DL-3] Bytes that the destination already holds are verified like those of the server, and not
//         transferred again. From the first wrong group on, all are transferred.
//   [DL-4] After a break the transfer goes on behind the last verified group.
// Memory: one group, and the hashes of a window's groups.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "base/heap_bytes.h"
#include "client/storage_client.h"
#include "io/file.h"

namespace cairn::client {

inline constexpr std::uint64_t window_size = std::uint64_t{64} << 20;

// Where verified bytes go, in order.
class Destination {
 public:
  virtual ~Destination() = default;
  // How many bytes the destination already holds; read() returns them.
  virtual std::uint64_t held() const noexcept { return 0; }
  // Cancel: clean.
  virtual Task<Result<HeapBytes>> read(Call call, std::uint64_t offset, std::size_t count);
  // Cancel: partial — any part may have been written.
  virtual Task<Result<>> write(Call call, std::uint64_t offset, HeapBytes bytes) = 0;
};

class FileDestination final : public Destination {
 public:
  // The first `held` bytes of the file are taken for the beginning of the object. The file outlives this.
  FileDestination(io::File& file, std::uint64_t held) noexcept : file_(file), held_(held) {}
  std::uint64_t held() const noexcept override { return held_; }
  Task<Result<HeapBytes>> read(Call call, std::uint64_t offset, std::size_t count) override;
  Task<Result<>> write(Call call, std::uint64_t offset, HeapBytes bytes) override;

 private:
  io::File& file_;
  std::uint64_t held_;
};

// For objects that must be read whole to be understood. More than `cap` is body_cap.
class TextDestination final : public Destination {
 public:
  explicit TextDestination(std::size_t cap) noexcept : cap_(cap) {}
  Task<Result<>> write(Call call, std::uint64_t offset, HeapBytes bytes) override;
  std::string& text() noexcept { return text_; }

 private:
  std::size_t cap_;
  std::string text_;
};

struct DownloadOptions {
  std::function<void(std::uint64_t bytes)> moved = {};  // verified bytes, transferred or held
  // The size that another source claims. The proof of an object of one group is only its size, so with this
  // claim the proof need not be fetched.
  std::optional<std::uint64_t> claimed_size = {};
  // Larger objects are refused (body_cap) as soon as their size is claimed.
  std::uint64_t size_max = ~std::uint64_t{0};
};

struct Downloaded {
  std::uint64_t size = 0;         // proved
  std::uint64_t transferred = 0;  // of these, from the server
};

// Both pieces of memory belong to the caller and outlive the call.
// Cancel: partial — the destination holds verified bytes from the beginning on.
Task<Outcome<Downloaded>> download(Call call, StorageClient* storage, Address address,
                                   Destination* destination, DownloadOptions options);

}  // namespace cairn::client
