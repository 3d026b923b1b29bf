// Zstandard through libzstd: exactly one frame, with its checksum verified if it has one; no skippable
// frames, no dictionaries, and a window of at most 8 MiB (RFC 9659), which the library keeps in memory.
#pragma once

#include <memory>

#include "codec/raw_decoder.h"

namespace cairn::codec {

std::unique_ptr<RawDecoder> make_zstd_decoder();

}  // namespace cairn::codec
