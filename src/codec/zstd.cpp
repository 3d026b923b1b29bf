#include "codec/zstd.h"

#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <array>
#include <new>

#include "base/check.h"
#include "codec/fed_decoder.h"

namespace cairn::codec {
namespace {

constexpr int window_log_max = 23;
constexpr std::array magic{std::byte{0x28}, std::byte{0xb5}, std::byte{0x2f}, std::byte{0xfd}};
constexpr std::size_t block_header = 3;

class ZstdDecoder final : public FedDecoder {
 public:
  ZstdDecoder() : context_(ZSTD_createDCtx()) {
    if (context_ == nullptr) throw std::bad_alloc();
    CHECK(ZSTD_isError(ZSTD_DCtx_setParameter(context_, ZSTD_d_windowLogMax, window_log_max)) == 0);
  }
  ~ZstdDecoder() override { ZSTD_freeDCtx(context_); }

 private:
  Fed feed(ByteView in, MutableByteView out) override {
    // Other magics are skippable frames and formats of the past, which the library would accept.
    if (seen_ < magic.size() && !in.empty() && in[0] != magic[seen_]) return {{}, State::failed};
    ZSTD_inBuffer from{in.data(), in.size(), 0};
    ZSTD_outBuffer to{out.data(), out.size(), 0};
    const std::size_t status = ZSTD_decompressStream(context_, &to, &from);
    const Progress progress{from.pos, to.pos};
    if (ZSTD_isError(status) != 0) {
      if (ZSTD_getErrorCode(status) == ZSTD_error_memory_allocation) throw std::bad_alloc();
      if (ZSTD_getErrorCode(status) == ZSTD_error_frameParameter_windowTooLarge)
        return {{}, State::failed, "compressed stream: its window is over 8 MiB"};
      return {{}, State::failed};
    }
    seen_ = std::min(seen_ + from.pos, magic.size());
    wanted_ = status;
    return {progress, status == 0 ? State::ended : State::going};
  }

  // The library hands out a block's output at its end, so a portion ends there at the latest. The size that
  // the library asks for includes the header of the next block, which may be wrong. A stored block comes out
  // as it goes in, so no more of it is offered than there is room for. The magic goes in byte by byte, which
  // also keeps the library from decoding a whole frame in one step.
  std::size_t portion(std::size_t room) const noexcept override {
    const bool in_header = seen_ < magic.size() || wanted_ <= block_header;
    return in_header ? 1 : std::clamp<std::size_t>(room, 1, wanted_ - block_header);
  }

  ZSTD_DCtx* context_;
  std::size_t seen_ = 0;    // of the magic
  std::size_t wanted_ = 0;  // the input size that the library asks for next
};

}  // namespace

std::unique_ptr<RawDecoder> make_zstd_decoder() { return std::make_unique<ZstdDecoder>(); }

}  // namespace cairn::codec
