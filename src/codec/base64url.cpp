#include "codec/base64url.h"

#include "codec/base64.h"

namespace cairn::codec {
namespace {

constexpr Base64Alphabet url("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", false);

}  // namespace

std::string encode_base64url(ByteView bytes) { return url.encode(bytes); }
Result<std::string> decode_base64url(std::string_view text) { return url.decode(text); }

}  // namespace cairn::codec
