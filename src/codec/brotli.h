// Brotli streams (RFC 7932) through libbrotlidec, without its large-window extension and without the largest
// window of the format: the library keeps a window of at most 8 MiB and less than 4 MiB of tables.
#pragma once

#include <memory>

#include "codec/raw_decoder.h"

namespace cairn::codec {

std::unique_ptr<RawDecoder> make_brotli_decoder();

}  // namespace cairn::codec
