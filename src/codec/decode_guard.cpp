#include "codec/decode_guard.h"

#include "base/ascii.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "codec/brotli.h"
#include "codec/inflate.h"
#include "codec/zstd.h"

namespace cairn::codec {
namespace {

class Identity final : public RawDecoder {
 public:
  Result<Progress> step(ByteView in, MutableByteView out) override {
    std::size_t size = std::min(in.size(), out.size());
    if (size > 0) std::memcpy(out.data(), in.data(), size);
    return Progress{size, size};
  }
  bool complete() const noexcept override { return true; }
};

std::string_view trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool same_token(std::string_view text, std::string_view lowercase) {
  return std::ranges::equal(text, lowercase, {}, lower);
}

}  // namespace

std::uint64_t DecodeGuard::allowance(std::uint64_t consumed) const noexcept {
  const double earned = static_cast<double>(consumed) * ratio;
  if (earned >= static_cast<double>(bytes)) return bytes;
  return std::min(bytes, std::max(grace, static_cast<std::uint64_t>(earned)));
}

Decoder::Decoder(std::unique_ptr<RawDecoder> raw, DecodeGuard guard) : raw_(std::move(raw)), guard_(guard) {
  CHECK(guard_.ratio >= 1);
}

Error Decoder::over_limit() const noexcept {
  if (produced_ >= guard_.bytes) return {ErrorCode::decoded_cap, "decoded body: too large", Side::client};
  return {ErrorCode::decoded_ratio, "decoded body: expands too much", Side::client};
}

Result<Decoder::Progress> Decoder::step(ByteView in, MutableByteView out) {
  Progress total;
  while (!failed_) {
    // By DG-1 the raw decoder only ever sees the room it may fill; the bytes it consumes may then allow more.
    std::uint64_t allowed = guard_.allowance(consumed_) - produced_;
    MutableByteView room = out.subspan(total.produced);
    bool free = !room.empty();
    if (room.size() > allowed) room = room.first(static_cast<std::size_t>(allowed));
    ByteView rest = in.subspan(total.consumed);
    auto progress = raw_->step(rest, room);
    if (!progress) {
      failed_ = progress.error();
      break;
    }
    total.consumed += progress->consumed;
    total.produced += progress->produced;
    consumed_ += progress->consumed;
    produced_ += progress->produced;
    CHECK(produced_ <= guard_.allowance(consumed_));
    if (progress->consumed > 0 || progress->produced > 0) continue;
    // When input is left and none is consumed, a byte of output is due. If the caller has room for it, the
    // guard allows none.
    if (free && !rest.empty()) failed_ = over_limit();
    break;
  }
  if (failed_ && total.produced == 0) return fail(*failed_);
  return total;
}

Result<> Decoder::finish() {
  if (!failed_ && !raw_->complete()) {
    // With no input left, "wants more input" and "has a byte due" look alike until the decoder is offered
    // room.
    std::byte probe{};
    auto progress = raw_->step({}, {&probe, 1});
    if (!progress) {
      failed_ = progress.error();
    } else if (progress->produced > 0) {
      failed_ = produced_ == guard_.allowance(consumed_)
                    ? over_limit()
                    : Error(ErrorCode::internal, "finish() before the output was drained");
    } else if (!raw_->complete()) {
      failed_ = Error(ErrorCode::malformed, "compressed stream: ends early", Side::client);
    }
  }
  if (failed_) return fail(*failed_);
  return {};
}

Result<Decoder> make_decoder(std::string_view content_encoding, DecodeGuard guard) {
  std::string_view coding = trim(content_encoding);
  if (same_token(coding, "identity")) return Decoder(std::make_unique<Identity>(), guard);
  if (same_token(coding, "gzip") || same_token(coding, "x-gzip"))
    return Decoder(make_inflater(DeflateFrame::gzip), guard);
  if (same_token(coding, "br")) return Decoder(make_brotli_decoder(), guard);
  if (same_token(coding, "zstd")) return Decoder(make_zstd_decoder(), guard);
  if (same_token(coding, "deflate")) return Decoder(make_inflater(DeflateFrame::deflate), guard);
  return fail(ErrorCode::unsupported_type, "content coding is not supported", Side::client);
}

Result<std::string> decode_body(std::string_view content_encoding, ByteView body, DecodeGuard guard) {
  TRY(Decoder decoder, make_decoder(content_encoding, guard));
  std::string decoded;
  std::array<std::byte, 16 * 1024> out;
  for (bool more = true; more;) {
    TRY(Decoder::Progress progress, decoder.step(body, out));
    body = body.subspan(progress.consumed);
    decoded += as_text(ByteView(out).first(progress.produced));
    more = !body.empty() || progress.produced == out.size();
  }
  TRY_VOID(decoder.finish());
  return decoded;
}

}  // namespace cairn::codec
