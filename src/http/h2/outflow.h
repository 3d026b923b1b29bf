// Outflow: the bytes of one answer's body in the order of sending, from wherever they are: memory, a file, a
// source. It gives what is at hand, and says when it has to wait.
//   [OF-1] Of a sized answer exactly its size is given, or it fails: a part is never taken for the whole.
#pragma once

#include "http/conversation.h"

namespace cairn::http::h2 {

class Outflow {
 public:
  enum class State : std::uint8_t { ready, waits, ended, failed };

  // `response` outlives the sending. Without `body`, there is nothing to give. `conversing` leads its source,
  // and outlives the waits for it.
  void start(Response& response, bool body, Conversing* conversing) noexcept;
  void clear() noexcept;
  // Whether bytes are at hand; asks the source for them. May throw what the source throws.
  State look();
  // Copies bytes that are at hand and takes them off. 0: they are not in memory after all, or are lost:
  // look() says which. Precondition: look() said ready.
  std::size_t copy(MutableByteView into) noexcept;
  // Nothing follows, as far as can be known without asking.
  bool is_spent() const noexcept { return !has_bytes() && is_last(); }
  // Waits for what look() waits for. False: the rest is lost. Cancel: clean.
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the shard's
  Task<bool> fetch(Call call, Slab& slab);
  // The source ends here.
  void end() noexcept { ended_ = true; }
  // Bytes of ours that it holds.
  std::size_t held() const noexcept {
    return (piece_.buffer ? piece_.buffer.capacity() : 0) + (cold_ ? cold_.capacity() : 0);
  }

 private:
  bool has_bytes() const noexcept { return !bytes_.empty() || left_of_file_ > 0; }
  bool is_last() const noexcept { return source_ == nullptr || ended_ || (sized_ && left_ == 0); }
  void accept(io::Piece piece) noexcept;

  io::BodySource* source_ = nullptr;
  Conversing* conversing_ = nullptr;  // asks the source
  io::Piece piece_;
  ByteView bytes_;            // not yet copied
  io::File* file_ = nullptr;  // behind bytes_
  std::uint64_t file_at_ = 0, left_of_file_ = 0;
  Buffer cold_;             // bytes_ when they were read from the file
  std::uint64_t left_ = 0;  // of a sized source, behind the piece
  bool sized_ = false, ended_ = false, is_cold_ = false, failed_ = false;
};

}  // namespace cairn::http::h2
