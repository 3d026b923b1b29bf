#include "codec/brotli.h"

#include <brotli/decode.h>

#include <new>

#include "base/check.h"
#include "codec/fed_decoder.h"

namespace cairn::codec {
namespace {

class BrotliDecoder final : public FedDecoder {
 public:
  BrotliDecoder() : state_(BrotliDecoderCreateInstance(nullptr, nullptr, nullptr)) {
    if (state_ == nullptr) throw std::bad_alloc();
    CHECK(BrotliDecoderSetParameter(state_, BROTLI_DECODER_PARAM_LARGE_WINDOW, 0) == BROTLI_TRUE);
  }
  ~BrotliDecoder() override { BrotliDecoderDestroyInstance(state_); }

 private:
  Fed feed(ByteView in, MutableByteView out) override {
    // The first bits of a stream say its window; these are the ones that ask for 16 MiB (RFC 7932, 9.1).
    constexpr std::byte widest{0b1111};
    if (!begun_ && !in.empty() && (in[0] & widest) == widest)
      return {{}, State::failed, "compressed stream: its window is over 8 MiB"};
    begun_ = begun_ || !in.empty();
    auto* next_in = reinterpret_cast<const std::uint8_t*>(in.data());
    auto* next_out = reinterpret_cast<std::uint8_t*>(out.data());
    std::size_t left_in = in.size();
    std::size_t left_out = out.size();
    const BrotliDecoderResult result =
        BrotliDecoderDecompressStream(state_, &left_in, &next_in, &left_out, &next_out, nullptr);
    const Progress progress{in.size() - left_in, out.size() - left_out};
    if (result == BROTLI_DECODER_RESULT_SUCCESS) return {progress, State::ended};
    if (result != BROTLI_DECODER_RESULT_ERROR) return {progress, State::going};
    const BrotliDecoderErrorCode code = BrotliDecoderGetErrorCode(state_);
    if (code <= BROTLI_DECODER_ERROR_ALLOC_CONTEXT_MODES &&
        code >= BROTLI_DECODER_ERROR_ALLOC_BLOCK_TYPE_TREES)
      throw std::bad_alloc();
    return {progress, State::failed};
  }
  // The library decodes all its input before it hands out any output, and drops the output when it meets an
  // error. Only when fed byte by byte is its output independent of how the input was cut.
  std::size_t portion(std::size_t) const noexcept override { return 1; }

  BrotliDecoderState* state_;
  bool begun_ = false;
};

}  // namespace

std::unique_ptr<RawDecoder> make_brotli_decoder() { return std::make_unique<BrotliDecoder>(); }

}  // namespace cairn::codec
