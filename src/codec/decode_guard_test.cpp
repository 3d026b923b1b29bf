#include "codec/decode_guard.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <vector>

#include "base/check.h"

namespace cairn::codec {
namespace {

constexpr int gzip_bits = 31;
constexpr int zlib_bits = 15;
constexpr int raw_bits = -15;

std::string compress(std::string_view text, int bits, int level = 6) {
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

// Text that deflate cannot shrink much.
std::string noise(std::size_t size) {
  std::string text;
  std::uint64_t state = 1;
  while (text.size() < size) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    text += static_cast<char>(state >> 56);
  }
  return text;
}

// One zstd frame, with a checksum, and with its size in the header or not.
std::string zstd(std::string_view text, int level = 3, bool sized = true, int window_log = 0) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level);
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  ZSTD_CCtx_setParameter(context, ZSTD_c_contentSizeFlag, sized ? 1 : 0);
  if (window_log != 0) ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_log);
  std::string out(ZSTD_compressBound(text.size()), '\0');
  ZSTD_inBuffer from{text.data(), text.size(), 0};
  ZSTD_outBuffer to{out.data(), out.size(), 0};
  if (!sized) CHECK(ZSTD_compressStream2(context, &to, &from, ZSTD_e_flush) == 0);
  CHECK(ZSTD_compressStream2(context, &to, &from, ZSTD_e_end) == 0);
  ZSTD_freeCCtx(context);
  out.resize(to.pos);
  return out;
}

std::string unhex(std::string_view digits) {
  std::string bytes(digits.size() / 2, '\0');
  CHECK(parse_hex_to(digits, {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()}));
  return bytes;
}

// Brotli (RFC 7932) written by hand: what follows the window bits is stored blocks of noise and, byte-aligned
// as an encoder flushes them, blocks of one repeated letter.
constexpr std::size_t brotli_run_size = 3000;
class BrotliText {
 public:
  explicit BrotliText(std::string_view begin) { store(begin, 1); }  // a window of 64 KiB is the bit 0
  void store(std::string_view bytes) { store(bytes, 0); }
  void run() {
    // Its distance is 1: told by one of the distances a stream begins with, later as the last one used.
    stream_ += unhex(ran_ ? "b85d0040222c1e0b206e00c000" : "b85d0040222c1e0b246e00c000");
    ran_ = true;
    text_.append(brotli_run_size, 'a');
  }
  std::string stream() const { return stream_ + '\x03'; }  // the last block, and empty
  const std::string& text() const { return text_; }

 private:
  void store(std::string_view bytes, unsigned shift) {
    CHECK(!bytes.empty() && bytes.size() <= 65'536);
    const std::size_t head = ((bytes.size() - 1) << 3 | 1u << 19) << shift;
    for (unsigned i = 0; i < 3; ++i) stream_ += static_cast<char>(head >> 8 * i & 255);
    stream_ += bytes;
    text_ += bytes;
  }
  std::string stream_;
  std::string text_;
  bool ran_ = false;
};

const std::string brotli_hello = unhex("1b1900f88d946ede44095286966c2c6f314f24b0e300");
// Ten million zeros in windows of 4 and 8 MiB.
const std::string brotli_bomb = unhex("cbffff3ff82700e2b14020f7fe2fff2c31f04f00c46111808e2306");
const std::string brotli_bomb_wide = unhex("9d7f9698f82700e2b14020c71113");

constexpr DecodeGuard open_guard{.ratio = 2000, .bytes = std::uint64_t{64} << 20};

ErrorCode verdict(const Result<std::string>& decoded) {
  return decoded ? ErrorCode::ok : decoded.error().code;
}

struct Outcome {
  std::string output;
  ErrorCode verdict = ErrorCode::ok;
  bool operator==(const Outcome&) const = default;
};

// Feeds `body` in pieces of in_size into buffers of out_size and keeps what came out before an error.
Outcome decode_in_pieces(std::string_view coding, std::string_view body, DecodeGuard guard,
                         std::size_t in_size, std::size_t out_size) {
  auto decoder = make_decoder(coding, guard);
  CHECK(decoder.has_value());
  Outcome outcome;
  std::vector<std::byte> out(out_size);
  ByteView rest = as_bytes(body);
  for (bool drained = false; !rest.empty() || !drained;) {
    auto progress = decoder->step(rest.first(std::min(in_size, rest.size())), out);
    if (!progress) {
      outcome.verdict = progress.error().code;
      return outcome;
    }
    rest = rest.subspan(progress->consumed);
    outcome.output += as_text(ByteView(out).first(progress->produced));
    EXPECT_LE(decoder->produced(), guard.allowance(decoder->consumed()));
    drained = progress->produced < out.size();
  }
  if (auto end = decoder->finish(); !end) outcome.verdict = end.error().code;
  return outcome;
}

}  // namespace

TEST(Decoder, every_supported_coding_decodes) {
  std::string text = "hello, hello, hello, hello";
  EXPECT_EQ(decode_body("identity", as_bytes(text), {}), text);
  EXPECT_EQ(decode_body("gzip", as_bytes(compress(text, gzip_bits)), {}), text);
  EXPECT_EQ(decode_body("x-gzip", as_bytes(compress(text, gzip_bits)), {}), text);
  EXPECT_EQ(decode_body(" GZip\t", as_bytes(compress(text, gzip_bits)), {}), text);
  EXPECT_EQ(decode_body("deflate", as_bytes(compress(text, zlib_bits)), {}), text);
  EXPECT_EQ(decode_body("deflate", as_bytes(compress(text, raw_bits)), {}), text);
  EXPECT_EQ(decode_body("deflate", as_bytes(compress(text, raw_bits, 0)), {}), text);  // stored blocks
  EXPECT_EQ(decode_body("gzip", as_bytes(compress("", gzip_bits)), {}), "");
  EXPECT_EQ(decode_body("identity", {}, {}), "");
  EXPECT_EQ(decode_body("br", as_bytes(brotli_hello), {}), text);
  EXPECT_EQ(decode_body("BR", as_bytes("\x3b"), {}), "");
  for (const bool sized : {false, true}) {
    EXPECT_EQ(decode_body("zstd", as_bytes(zstd(text, 3, sized)), {}), text);
    EXPECT_EQ(decode_body("zstd", as_bytes(zstd("", 3, sized)), {}), "");
  }
  BrotliText mixed("noise");
  mixed.run();
  mixed.store(noise(1000));
  mixed.run();
  EXPECT_EQ(decode_body("br", as_bytes(mixed.stream()), {}), mixed.text());
}

TEST(Decoder, other_codings_and_more_than_one_are_unsupported) {
  for (const char* coding : {"", "brotli", "x-zstd", "compress", "br, zstd", "gzip, gzip", "gzip,identity",
                             "identity, gzip", "gzip,", "gzip;q=1", "gz", "gzipp", "x-deflate", "*"}) {
    auto decoder = make_decoder(coding, {});
    ASSERT_FALSE(decoder) << coding;
    EXPECT_EQ(decoder.error().code, ErrorCode::unsupported_type) << coding;
  }
}

TEST(Decoder, every_truncation_is_malformed) {
  for (auto [coding, bits] : {std::pair("gzip", gzip_bits), {"deflate", zlib_bits}, {"deflate", raw_bits}}) {
    std::string body = compress("some text, some more text", bits);
    for (std::size_t size = 0; size < body.size(); ++size)
      EXPECT_EQ(verdict(decode_body(coding, as_bytes(body.substr(0, size)), {})), ErrorCode::malformed)
          << size;
  }
}

TEST(Decoder, anything_after_the_stream_is_malformed) {
  for (auto [coding, bits] : {std::pair("gzip", gzip_bits), {"deflate", zlib_bits}, {"deflate", raw_bits}}) {
    std::string body = compress("text", bits);
    EXPECT_EQ(verdict(decode_body(coding, as_bytes(body + '\0'), {})), ErrorCode::malformed);
    EXPECT_EQ(decode_in_pieces(coding, body + "x", {}, 1, 1), (Outcome{"text", ErrorCode::malformed}));
  }
}

TEST(Decoder, truncated_or_continued_brotli_and_zstd_are_malformed) {
  const std::string text = "hello, hello, hello, hello";
  for (const auto& [coding, body] :
       {std::pair("br", brotli_hello), {"zstd", zstd(text)}, {"zstd", zstd(text, 3, false)}}) {
    for (std::size_t size = 0; size < body.size(); ++size)
      EXPECT_EQ(verdict(decode_body(coding, as_bytes(body.substr(0, size)), {})), ErrorCode::malformed)
          << coding << size;
    EXPECT_EQ(verdict(decode_body(coding, as_bytes(body + '\0'), {})), ErrorCode::malformed);
    EXPECT_EQ(verdict(decode_body(coding, as_bytes(body + body), {})), ErrorCode::malformed);
    EXPECT_EQ(decode_in_pieces(coding, body + "x", {}, 1, 1), (Outcome{text, ErrorCode::malformed}));
    EXPECT_EQ(decode_in_pieces(coding, body + "x", {}, 1000, 1000), (Outcome{text, ErrorCode::malformed}));
  }
}

TEST(Decoder, skippable_zstd_frames_and_other_magics_are_malformed) {
  const std::string frame = zstd("text");
  const std::string skippable = unhex("502a4d180400000061626364");
  for (const std::string& body :
       {skippable, skippable + frame, frame + skippable, unhex("27b52ffd") + frame.substr(4)})
    EXPECT_EQ(verdict(decode_body("zstd", as_bytes(body), {})), ErrorCode::malformed);
}

TEST(Decoder, every_flipped_bit_of_a_zstd_checksum_is_malformed) {
  const std::string body = zstd("some text");
  for (std::size_t i = body.size() - 4; i < body.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = body;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      EXPECT_EQ(verdict(decode_body("zstd", as_bytes(bad), {})), ErrorCode::malformed) << i << "." << bit;
    }
  }
}

TEST(Decoder, a_window_of_zstd_over_8_mib_is_malformed) {
  const std::string text = noise(1000);
  EXPECT_EQ(decode_body("zstd", as_bytes(zstd(text, 3, false, 23)), {}), text);
  EXPECT_EQ(verdict(decode_body("zstd", as_bytes(zstd(text, 3, false, 24)), {})), ErrorCode::malformed);
}

// A client whose tool chose the window can act on it.
TEST(Decoder, a_window_that_is_too_wide_is_told_as_such) {
  std::string wider = brotli_bomb_wide;
  wider[0] = static_cast<char>(wider[0] | 0xf);
  for (const auto& [coding, body] : {std::pair("br", wider), {"zstd", zstd(noise(1000), 3, false, 24)}})
    EXPECT_STREQ(decode_body(coding, as_bytes(body), {}).error().context,
                 "compressed stream: its window is over 8 MiB");
  EXPECT_STREQ(decode_body("zstd", as_bytes(std::string_view("nonsense")), {}).error().context,
               "compressed stream: corrupt");
}

TEST(Decoder, a_large_brotli_window_is_malformed) {
  const std::string body = unhex("115e6400e03752ba79132548195ab2b1bcc53c91801d07");
  EXPECT_EQ(verdict(decode_body("br", as_bytes(body), {})), ErrorCode::malformed);
}

TEST(Decoder, a_window_of_brotli_over_8_mib_is_malformed) {
  const DecodeGuard roomy{.ratio = 10'000'000, .bytes = 10'000'000};
  EXPECT_EQ(decode_body("br", as_bytes(brotli_bomb_wide), roomy), std::string(10'000'000, '\0'));
  std::string wider = brotli_bomb_wide;
  wider[0] = static_cast<char>(wider[0] | 0xf);
  for (const std::size_t cut : {std::size_t{1}, wider.size()})
    EXPECT_EQ(decode_in_pieces("br", wider, roomy, cut, 1 << 20), (Outcome{"", ErrorCode::malformed}));
}

TEST(Decoder, a_second_gzip_member_is_malformed) {
  std::string member = compress("text", gzip_bits);
  EXPECT_EQ(verdict(decode_body("gzip", as_bytes(member + member), {})), ErrorCode::malformed);
}

TEST(Decoder, every_flipped_bit_of_a_gzip_trailer_or_magic_is_malformed) {
  std::string body = compress("some text", gzip_bits);
  std::vector<std::size_t> covered{0, 1, 2};
  for (std::size_t i = body.size() - 8; i < body.size(); ++i) covered.push_back(i);
  for (std::size_t i : covered)
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = body;
      bad[i] = static_cast<char>(bad[i] ^ (1 << bit));
      EXPECT_EQ(verdict(decode_body("gzip", as_bytes(bad), {})), ErrorCode::malformed) << i << "." << bit;
    }
}

TEST(Decoder, a_preset_dictionary_is_malformed) {
  std::string body("\x78\xBB\x00\x00\x00\x01\x00", 7);
  EXPECT_EQ(verdict(decode_body("deflate", as_bytes(body), {})), ErrorCode::malformed);
}

TEST(DecodeGuard, the_allowance_is_grace_then_ratio_then_cap) {
  DecodeGuard guard{.ratio = 10, .bytes = 100'000};
  EXPECT_EQ(guard.allowance(0), 4096u);
  EXPECT_EQ(guard.allowance(409), 4096u);
  EXPECT_EQ(guard.allowance(410), 4100u);
  EXPECT_EQ(guard.allowance(10'000), 100'000u);
  EXPECT_EQ(guard.allowance(10'001), 100'000u);
  EXPECT_EQ(guard.allowance(~std::uint64_t{0}), 100'000u);
  EXPECT_EQ((DecodeGuard{.ratio = 10, .bytes = 100}.allowance(1000)), 100u);
}

TEST(DecodeGuard, a_ratio_may_be_a_fraction) {
  EXPECT_EQ((DecodeGuard{.ratio = 1.5, .bytes = 100'000}.allowance(10'001)), 15'001u);
  // A third larger than what was sent.
  const std::string text = noise(30'000) + std::string(10'000, ' ');
  const std::string body = compress(text, gzip_bits);
  EXPECT_EQ(decode_body("gzip", as_bytes(body), {.ratio = 1.5}), text);
  EXPECT_EQ(verdict(decode_body("gzip", as_bytes(body), {.ratio = 1.25})), ErrorCode::decoded_ratio);
}

TEST(DecodeGuard, a_bomb_is_stopped_at_the_ratio) {
  std::string bomb = compress(std::string(10'000'000, '\0'), gzip_bits);
  EXPECT_EQ(verdict(decode_body("gzip", as_bytes(bomb), {})), ErrorCode::decoded_ratio);
  Outcome outcome = decode_in_pieces("gzip", bomb, {}, bomb.size(), 1 << 20);
  EXPECT_EQ(outcome.verdict, ErrorCode::decoded_ratio);
  EXPECT_EQ(outcome.output.size(), DecodeGuard::grace);
}

TEST(DecodeGuard, a_bomb_behind_honest_bytes_is_stopped_at_the_ratio) {
  std::string bomb = compress(noise(20'000) + std::string(10'000'000, '\0'), gzip_bits);
  Outcome outcome = decode_in_pieces("gzip", bomb, {}, bomb.size(), 1 << 20);
  EXPECT_EQ(outcome.verdict, ErrorCode::decoded_ratio);
  EXPECT_LE(outcome.output.size(), 10 * bomb.size());
}

TEST(DecodeGuard, a_brotli_or_zstd_bomb_is_stopped_at_ratio_or_cap) {
  const std::string zeros(10'000'000, '\0');
  for (const auto& [coding, bomb] : {std::pair("br", brotli_bomb),
                                     {"br", brotli_bomb_wide},
                                     {"zstd", zstd(zeros)},
                                     {"zstd", zstd(zeros, 19, false)}}) {
    for (const std::size_t cut : {std::size_t{1}, bomb.size()}) {
      Outcome outcome = decode_in_pieces(coding, bomb, {.ratio = 10}, cut, 1 << 20);
      EXPECT_EQ(outcome.verdict, ErrorCode::decoded_ratio);
      EXPECT_LE(outcome.output.size(), std::max<std::size_t>(DecodeGuard::grace, 10 * bomb.size()));
      outcome = decode_in_pieces(coding, bomb, {.ratio = 10'000'000, .bytes = 1'000'000}, cut, 1 << 20);
      EXPECT_EQ(outcome, (Outcome{std::string(1'000'000, '\0'), ErrorCode::decoded_cap}));
    }
    EXPECT_EQ(decode_body(coding, as_bytes(bomb), {.ratio = 10'000'000, .bytes = 10'000'000}), zeros);
  }
}

TEST(DecodeGuard, small_outputs_are_never_refused_by_ratio) {
  std::string text(DecodeGuard::grace, ' ');
  EXPECT_EQ(decode_body("gzip", as_bytes(compress(text, gzip_bits)), {.ratio = 1}), text);
  text += ' ';
  EXPECT_EQ(verdict(decode_body("gzip", as_bytes(compress(text, gzip_bits)), {.ratio = 1})),
            ErrorCode::decoded_ratio);
}

TEST(DecodeGuard, the_cap_is_exact) {
  std::string text = noise(10'000);
  for (auto [coding, body] : {std::pair("identity", text),
                              {"gzip", compress(text, gzip_bits)},
                              {"deflate", compress(text, raw_bits)},
                              {"deflate", compress(text, raw_bits, 0)},
                              {"br", BrotliText(text).stream()},
                              {"zstd", zstd(text)},
                              {"zstd", zstd(text, 3, false)}}) {
    EXPECT_EQ(decode_body(coding, as_bytes(body), {.bytes = 10'000}), text) << coding;
    EXPECT_EQ(verdict(decode_body(coding, as_bytes(body), {.bytes = 9'999})), ErrorCode::decoded_cap)
        << coding;
    Outcome outcome = decode_in_pieces(coding, body, {.bytes = 9'999}, body.size(), 1 << 20);
    EXPECT_EQ(outcome.output, text.substr(0, 9'999)) << coding;
  }
}

TEST(DecodeGuard, an_error_stays) {
  auto decoder = make_decoder("gzip", {});
  std::array<std::byte, 16> out;
  EXPECT_FALSE(decoder->step(as_bytes("garbage"), out));
  EXPECT_FALSE(decoder->step(as_bytes(compress("fine", gzip_bits)), out));
  EXPECT_FALSE(decoder->finish());
}

TEST(DecodeGuard, finishing_with_output_still_due_is_not_success) {
  auto decoder = make_decoder("deflate", {});
  std::string body = compress("text", raw_bits);
  std::array<std::byte, 2> out;
  ASSERT_TRUE(decoder->step(as_bytes(body), out));
  EXPECT_FALSE(decoder->finish());
}

RC_GTEST_PROP(DecodeGuard, cuts_change_neither_output_nor_verdict, ()) {
  // Runs and noise in turn, so that the ratio is crossed back and forth; sometimes damaged.
  std::string text;
  for (int size : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 3000))) {
    text += std::string(static_cast<std::size_t>(size), 'a');
    text += noise(static_cast<std::size_t>(size % 150));
  }
  auto bits = *rc::gen::element(gzip_bits, zlib_bits, raw_bits);
  std::string coding = bits == gzip_bits ? "gzip" : "deflate";
  std::string body = compress(text, bits, *rc::gen::inRange(0, 10));
  if (*rc::gen::arbitrary<bool>()) body[*rc::gen::inRange<std::size_t>(0, body.size())] ^= 0x10;
  DecodeGuard guard{.ratio = static_cast<double>(*rc::gen::inRange<std::uint64_t>(10, 400)) / 10,
                    .bytes = *rc::gen::inRange<std::uint64_t>(0, 60'000)};
  Outcome whole = decode_in_pieces(coding, body, guard, body.size(), 1 << 20);
  auto in_size = *rc::gen::inRange<std::size_t>(1, 40);
  auto out_size = *rc::gen::inRange<std::size_t>(1, 600);
  RC_ASSERT(decode_in_pieces(coding, body, guard, in_size, out_size) == whole);
  RC_ASSERT(decode_in_pieces(coding, body, guard, 1, 1 << 20) == whole);
  if (whole.verdict == ErrorCode::decoded_ratio) RC_ASSERT(whole.output.size() >= DecodeGuard::grace);
}

// As above, for the decoders that are fed.
RC_GTEST_PROP(DecodeGuard, cuts_of_brotli_and_zstd_change_neither_output_nor_verdict, ()) {
  BrotliText brotli("!");
  for (int size : *rc::gen::container<std::vector<int>>(rc::gen::inRange(0, 400))) {
    if (size % 3 == 0) brotli.run();
    if (size > 0) brotli.store(noise(static_cast<std::size_t>(size)));
  }
  const bool br = *rc::gen::arbitrary<bool>();
  std::string body =
      br ? brotli.stream() : zstd(brotli.text(), *rc::gen::inRange(-5, 12), *rc::gen::arbitrary<bool>());
  if (*rc::gen::arbitrary<bool>()) body[*rc::gen::inRange<std::size_t>(0, body.size())] ^= 0x10;
  DecodeGuard guard{.ratio = static_cast<double>(*rc::gen::inRange<std::uint64_t>(10, 400)) / 10,
                    .bytes = *rc::gen::inRange<std::uint64_t>(0, 60'000)};
  const char* coding = br ? "br" : "zstd";
  Outcome whole = decode_in_pieces(coding, body, guard, body.size(), 1 << 20);
  auto in_size = *rc::gen::inRange<std::size_t>(1, 40);
  auto out_size = *rc::gen::inRange<std::size_t>(1, 600);
  RC_ASSERT(decode_in_pieces(coding, body, guard, in_size, out_size) == whole);
  RC_ASSERT(decode_in_pieces(coding, body, guard, 1, 1 << 20) == whole);
}

RC_GTEST_PROP(Decoder, any_bytes_round_trip, (const std::string& text)) {
  for (const bool sized : {false, true})
    RC_ASSERT(decode_body("zstd", as_bytes(zstd(text, 3, sized)), open_guard).value_or("lost") == text);
  for (auto [coding, bits] : {std::pair("gzip", gzip_bits), {"deflate", zlib_bits}, {"deflate", raw_bits}}) {
    auto decoded = decode_body(coding, as_bytes(compress(text, bits)), open_guard);
    RC_ASSERT(decoded.has_value() && *decoded == text);
  }
}

}  // namespace cairn::codec
