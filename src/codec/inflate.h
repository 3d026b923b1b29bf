// Inflater: gzip, zlib and raw deflate streams through zlib; a 32 KiB window.
#pragma once

#include <memory>

#include "codec/raw_decoder.h"

namespace cairn::codec {

enum class DeflateFrame : unsigned char {
  gzip,     // exactly one member, its CRC and size verified
  deflate,  // HTTP's `deflate`: zlib-framed as the RFC has it, or raw as some clients send it
};

std::unique_ptr<RawDecoder> make_inflater(DeflateFrame frame);

}  // namespace cairn::codec
