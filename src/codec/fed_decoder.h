// FedDecoder: RawDecoder on top of a library that takes in more input than its next byte of output needs, and
// that may hold output back when it meets an error. FedDecoder feeds it so little at a time that neither
// shows: it offers a portion only when the portions before have no output left.
#pragma once

#include <optional>

#include "codec/raw_decoder.h"

namespace cairn::codec {

class FedDecoder : public RawDecoder {
 public:
  Result<Progress> step(ByteView in, MutableByteView out) final;
  bool complete() const noexcept final { return ended_ && !due_; }

 protected:
  enum class State : unsigned char { going, ended, failed };
  struct Fed {
    Progress progress;
    State state = State::going;
    const char* problem = "compressed stream: corrupt";  // when it failed
  };
  // One call of the library; `out` is not empty. All of `in` is consumed, unless output did not fit.
  virtual Fed feed(ByteView in, MutableByteView out) = 0;
  // How much input may be offered now (at least 1), so that no error follows output in one call, and
  // left-over output comes only from input that its first byte needed. `room` is the room for output.
  virtual std::size_t portion(std::size_t room) const noexcept = 0;

 private:
  std::optional<std::byte> due_;  // a byte decoded when there was no room for it, to learn whether one is due
  bool more_ = false;             // the last call filled its room: more may be left over
  bool ended_ = false;
  bool failed_ = false;
  const char* problem_ = "";  // when it failed
};

}  // namespace cairn::codec
