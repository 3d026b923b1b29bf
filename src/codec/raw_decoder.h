// RawDecoder: one compression layer undone as a stream, with bounded memory and no limit on its output. Only
// Decoder uses it, which adds the limits.
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

  // Goes on until the input is used up or the next action is to write a byte beyond `out`. With an empty
  // `out` it still consumes the input that leads to that byte. So when input is left, there is no room and no
  // progress, a byte of output is due. The input that each byte of output needs never depends on how the
  // input is cut; so the limits do not depend on the cuts either. An error comes only from a call that
  // produced nothing, and then from every later one. Input after the end of the stream is an error.
  virtual Result<Progress> step(ByteView in, MutableByteView out) = 0;

  // Whether the input may stop here.
  virtual bool complete() const noexcept = 0;
};

}  // namespace cairn::codec
