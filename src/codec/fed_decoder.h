// FedDecoder: RawDecoder on top of a library that takes in more than its next byte of output needs, and that
// may keep output back when it meets an error. It is fed so little at a time that neither shows: a portion is
// offered only when nothing is left to come out of the portions before it.
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
  // One call of the library; `out` is not empty. All of `in` is consumed, unless output was left over.
  virtual Fed feed(ByteView in, MutableByteView out) = 0;
  // How much may be offered now (at least 1) so that no error follows output, and output is left over only
  // from what had to be consumed for its first byte. `room` is how much output would be taken.
  virtual std::size_t portion(std::size_t room) const noexcept = 0;

 private:
  std::optional<std::byte> due_;  // made to learn whether there is a byte, when there was no room for it
  bool more_ = false;             // the last call filled its room: more may be left over
  bool ended_ = false;
  bool failed_ = false;
  const char* problem_ = "";  // when it failed
};

}  // namespace cairn::codec
