// Piece: a part of a body: bytes of a buffer, of memory with another owner, or of a file. Hold: keeps that
// memory, or the place in the file, unchanged until the kernel has taken the bytes. Both are moved, never
// copied, and cost no allocation.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "base/bytes.h"
#include "base/result.h"
#include "io/file.h"
#include "runtime/buffer.h"
#include "runtime/call.h"
#include "runtime/task.h"

namespace cairn::io {

// Calls release(object) once, on the shard that sent the bytes. Made, for example, from a counted reference
// to a cache slot.
class Hold {
 public:
  using Release = void (*)(void* object) noexcept;

  Hold() = default;
  Hold(void* object, Release release) noexcept : object_(object), release_(release) {}
  Hold(Hold&& other) noexcept : object_(other.object_), release_(std::exchange(other.release_, nullptr)) {}
  Hold& operator=(Hold&& other) noexcept {
    if (this != &other) {
      reset();
      object_ = other.object_;
      release_ = std::exchange(other.release_, nullptr);
    }
    return *this;
  }
  ~Hold() { reset(); }

  explicit operator bool() const noexcept { return release_ != nullptr; }
  void reset() noexcept {
    if (Release release = std::exchange(release_, nullptr)) release(object_);
  }

 private:
  void* object_ = nullptr;
  Release release_ = nullptr;
};

struct Piece {
  Piece() = default;  // the end of a body
  // Owned bytes. Implicit: a source that fills buffers returns them as they are.
  Piece(Buffer owned) noexcept : buffer(std::move(owned)), bytes(buffer.bytes()) {}
  static Piece memory(ByteView bytes, Hold hold = {}) noexcept {
    Piece piece;
    piece.bytes = bytes;
    piece.hold = std::move(hold);
    return piece;
  }
  // The file outlives the sending, or the hold keeps it alive.
  static Piece range(io::File& file, std::uint64_t offset, std::uint64_t count, Hold hold = {}) noexcept {
    Piece piece;
    piece.file = &file;
    piece.offset = offset;
    piece.count = count;
    piece.hold = std::move(hold);
    return piece;
  }

  bool is_file() const noexcept { return file != nullptr; }
  std::uint64_t size() const noexcept { return file != nullptr ? count : bytes.size(); }
  bool empty() const noexcept { return size() == 0; }

  Buffer buffer;             // owns `bytes`, if they are owned
  ByteView bytes;            // unless it is of a file
  io::File* file = nullptr;  // [offset, offset + count)
  std::uint64_t offset = 0, count = 0;
  Hold hold;
};

// A body that is produced while it is sent.
class BodySource {
 public:
  virtual ~BodySource() = default;
  // The next piece if it is at hand; nullopt when the caller must call next() instead. An error is reported
  // by next() alone.
  virtual std::optional<Piece> try_next() { return std::nullopt; }
  // The next piece; an empty one is the end. An error breaks the connection: the peer must not take a part
  // for the whole. The request's own bytes are no longer available. Cancel: clean.
  virtual Task<Result<Piece>> next(Call call) = 0;
};

}  // namespace cairn::io
