#include "codec/inflate.h"

#include <zlib.h>

#include <algorithm>
#include <new>

#include "base/check.h"

namespace cairn::codec {
namespace {

constexpr int window_bits = 15;
constexpr int window_bits_gzip = window_bits + 16;
constexpr std::size_t slice_max = std::size_t{1} << 30;  // zlib counts in 32 bits

std::unexpected<Error> malformed(const char* context) noexcept {
  return fail(ErrorCode::malformed, context, Side::client);
}

class Inflater final : public RawDecoder {
 public:
  explicit Inflater(DeflateFrame frame) {
    if (frame == DeflateFrame::gzip) begin(window_bits_gzip);
  }
  ~Inflater() override {
    if (begun_) inflateEnd(&stream_);
  }

  Result<Progress> step(ByteView in, MutableByteView out) override {
    if (ended_ && !in.empty()) return malformed("compressed stream: bytes after its end");
    if (ended_ || (!begun_ && in.empty())) return Progress{};
    // A zlib header's low nibble is 8. A raw stream that began so would be a stored block with a set
    // padding bit, which no encoder writes; so one byte tells them apart.
    if (!begun_) begin((std::to_integer<unsigned>(in[0]) & 15) == 8 ? window_bits : -window_bits);

    in = in.first(std::min(in.size(), slice_max));
    out = out.first(std::min(out.size(), slice_max));
    std::byte nowhere{};  // zlib refuses a null output even when it may not write
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(in.data()));
    stream_.avail_in = static_cast<uInt>(in.size());
    stream_.next_out = reinterpret_cast<Bytef*>(out.empty() ? &nowhere : out.data());
    stream_.avail_out = static_cast<uInt>(out.size());
    int status = inflate(&stream_, Z_NO_FLUSH);
    Progress progress{in.size() - stream_.avail_in, out.size() - stream_.avail_out};
    switch (status) {
      case Z_STREAM_END:
        ended_ = true;
        return progress;
      case Z_OK:
      case Z_BUF_ERROR:
        return progress;
      case Z_MEM_ERROR:
        throw std::bad_alloc();
      case Z_NEED_DICT:
      case Z_DATA_ERROR:
        // zlib stays in its error state, so the output before the error can be handed out first.
        if (progress.produced > 0) return progress;
        return malformed("compressed stream: corrupt");
      default:
        CHECK(status != status);
        return progress;
    }
  }

  bool complete() const noexcept override { return ended_; }

 private:
  void begin(int bits) {
    int status = inflateInit2(&stream_, bits);
    if (status == Z_MEM_ERROR) throw std::bad_alloc();
    CHECK(status == Z_OK);
    begun_ = true;
  }

  z_stream stream_{};
  bool begun_ = false;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<RawDecoder> make_inflater(DeflateFrame frame) { return std::make_unique<Inflater>(frame); }

}  // namespace cairn::codec
