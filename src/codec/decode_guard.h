// Decoder: a compressed body undone as a stream, under a DecodeGuard.
//
//   [DG-1] No byte is produced beyond guard.allowance(bytes consumed so far).
//   [DG-2] Output and verdict depend on the input's bytes only, not on how it was cut into steps.
//   [DG-3] A stream is accepted only whole: truncated, corrupt, or followed by anything (a second gzip
//         member or zstd frame included) it is malformed.
//
// All bytes before the fault are handed out before the error, so a caller that must not act on a bad body
// waits for finish(). Errors blame the client: a caller that decodes an upstream's body changes the side.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "codec/raw_decoder.h"

namespace cairn::codec {

struct DecodeGuard {
  double ratio = 10;
  std::uint64_t bytes = std::uint64_t{8} << 20;

  // The ratio is not checked up to this size: a small body of blanks is no bomb.
  static constexpr std::uint64_t grace = 4096;

  // The most output allowed once `consumed` bytes went in.
  std::uint64_t allowance(std::uint64_t consumed) const noexcept;
};

class Decoder {
 public:
  using Progress = RawDecoder::Progress;

  // guard.ratio is at least 1.
  Decoder(std::unique_ptr<RawDecoder> raw, DecodeGuard guard);

  // Consumes from `in` and produces into `out`. Call again with the rest of the input while there is
  // any, and with none while `out` comes back full. decoded_ratio, decoded_cap or malformed; the error
  // stays.
  Result<Progress> step(ByteView in, MutableByteView out);

  // The input ended here. Precondition: the last step left room in its `out`.
  Result<> finish();

  std::uint64_t consumed() const noexcept { return consumed_; }
  std::uint64_t produced() const noexcept { return produced_; }

 private:
  Error over_limit() const noexcept;

  std::unique_ptr<RawDecoder> raw_;
  DecodeGuard guard_;
  std::uint64_t consumed_ = 0;
  std::uint64_t produced_ = 0;
  std::optional<Error> failed_;
};

// The decoder of a Content-Encoding value: `identity`, `gzip`, `x-gzip`, `deflate`, `br`, `zstd`, in any
// case. Any other coding, and more than one, is unsupported_type.
Result<Decoder> make_decoder(std::string_view content_encoding, DecodeGuard guard);

// For bodies that are in memory already.
Result<std::string> decode_body(std::string_view content_encoding, ByteView body, DecodeGuard guard);

}  // namespace cairn::codec
