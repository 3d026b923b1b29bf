// RawDecoder: one compression layer undone as a stream, with bounded memory and no limit on what comes
// out. Only Decoder uses it, which adds the limits.
#pragma once

#include "base/bytes.h"
#include "base/result.h"

namespace cairn::codec {

class RawDecoder {
 public:
  struct Progress {
    std::size_t consumed = 0;
    std::size_t produced = 0;
  };

  RawDecoder() = default;
  RawDecoder(const RawDecoder&) = delete;
  RawDecoder& operator=(const RawDecoder&) = delete;
  virtual ~RawDecoder() = default;

  // Goes on until the input is used up or the next thing to do is to write a byte beyond `out`; with an
  // empty `out` it still consumes what leads to that byte. So no progress with input left and no room
  // means that a byte of output is due. How the input is cut never changes what each byte needs to
  // have been consumed, which is what makes the limits independent of the cuts.
  // An error comes only from a call that produced nothing, and then from every later one. Input after
  // the end of the stream is an error.
  virtual Result<Progress> step(ByteView in, MutableByteView out) = 0;

  // Whether the input may stop here.
  virtual bool complete() const noexcept = 0;
};

}  // namespace cairn::codec
