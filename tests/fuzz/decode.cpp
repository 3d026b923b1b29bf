// Decoder against arbitrary bodies: the first bytes choose coding, limits and cuts, the rest is the body or,
// so that the deep states are reached, is compressed into one and then damaged.
// The guard is never exceeded, and no way of cutting the input changes output or verdict.
#include "codec/decode_guard.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <vector>

#include "base/check.h"

namespace {

using namespace cairn;
using namespace cairn::codec;

struct Outcome {
  std::string output;
  ErrorCode verdict = ErrorCode::ok;
  bool operator==(const Outcome&) const = default;
};

// Sizes of the pieces: always the largest, or drawn from a seed.
struct Cuts {
  std::size_t in_max;
  std::size_t out_max;
  std::uint32_t seed;

  std::size_t draw(std::size_t max) {
    if (seed == 0) return max;
    seed = seed * 1664525 + 1013904223;
    return 1 + (seed >> 8) % max;
  }
};

Outcome decode(std::string_view coding, ByteView body, DecodeGuard guard, Cuts cuts) {
  auto decoder = make_decoder(coding, guard);
  CHECK(decoder.has_value());
  Outcome outcome;
  std::vector<std::byte> buffer(cuts.out_max);
  for (bool drained = false; !body.empty() || !drained;) {
    MutableByteView out(buffer.data(), cuts.draw(cuts.out_max));
    ByteView in = body.first(std::min(body.size(), cuts.draw(cuts.in_max)));
    auto progress = decoder->step(in, out);
    if (!progress) {
      CHECK(!decoder->step({}, out).has_value() && !decoder->finish().has_value());
      outcome.verdict = progress.error().code;
      return outcome;
    }
    CHECK(progress->consumed <= in.size() && progress->produced <= out.size());
    CHECK(in.empty() || progress->consumed > 0 || progress->produced > 0);
    body = body.subspan(progress->consumed);
    outcome.output += as_text(ByteView(out).first(progress->produced));
    CHECK(outcome.output.size() <= guard.allowance(decoder->consumed()));
    drained = progress->produced < out.size();
  }
  if (auto end = decoder->finish(); !end) outcome.verdict = end.error().code;
  return outcome;
}

std::string compress(std::string_view text, int bits, int level) {
  z_stream stream{};
  CHECK(deflateInit2(&stream, level, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&stream, text.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(out.size() - stream.avail_out);
  deflateEnd(&stream);
  return out;
}

std::string compress_zstd(std::string_view text, int level) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  const std::size_t size = ZSTD_compress(out.data(), out.size(), text.data(), text.size(), level);
  CHECK(ZSTD_isError(size) == 0);
  out.resize(size);
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t head = 8;
  if (size < head) return 0;
  std::string body(reinterpret_cast<const char*>(data + head), size - head);
  static constexpr const char* codings[] = {"gzip", "deflate", "deflate", "identity", "zstd", "br"};
  static constexpr int bits[] = {31, 15, -15, 0, 0, 0};
  // The top bit of the level chooses among the codings that came later.
  unsigned which = (data[3] & 128) != 0 ? 4 + (data[0] & 1) : data[0] & 3;
  DecodeGuard guard{.ratio = 1 + (data[1] % 256) / 4.0,
                    .bytes = std::uint64_t{data[2]} << (data[0] >> 4 & 7)};

  std::string text;
  bool made = which != 3 && which != 5 && (data[0] & 4) != 0;
  if (made) {
    // Each byte repeated by its successor's value squared: runs and noise in turn.
    for (std::size_t i = 0; i < body.size() && text.size() < 40'000; ++i) {
      auto times = static_cast<unsigned char>(body[(i + 1) % body.size()]);
      text.append(times > 200 ? std::size_t{times} * times : 1, body[i]);
    }
    body = which == 4 ? compress_zstd(text, data[3] % 16 - 4) : compress(text, bits[which], data[3] % 10);
    if (data[4] != 0) {
      std::size_t at = data[5] * body.size() / 256;
      body[at] = static_cast<char>(body[at] ^ data[4]);
      made = false;
    }
  }

  const char* coding = codings[which];
  Outcome whole =
      decode(coding, as_bytes(body), guard, {.in_max = body.size() + 1, .out_max = 1 << 15, .seed = 0});
  CHECK(whole.output.size() <= guard.allowance(body.size()));
  CHECK(decode(coding, as_bytes(body), guard, {.in_max = 1, .out_max = 1 << 12, .seed = 0}) == whole);
  Cuts cuts{.in_max = 1u + data[6], .out_max = 64 + data[7] * 16u, .seed = 1u + data[6] * 256u + data[7]};
  CHECK(decode(coding, as_bytes(body), guard, cuts) == whole);
  if (made) {
    CHECK(whole.verdict != ErrorCode::malformed);
    CHECK(whole.verdict != ErrorCode::ok || whole.output == text);
    CHECK(text.starts_with(whole.output));
  }
  return 0;
}
