// base64url (RFC 4648 section 5) without padding: how tokens, keys and signatures are written.
#pragma once

#include <string>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"

namespace cairn::codec {

std::string encode_base64url(ByteView bytes);

// Strict, so that every byte string has exactly one spelling: padding, blanks, the letters of plain
// base64 and non-zero trailing bits are malformed.
Result<std::string> decode_base64url(std::string_view text);

}  // namespace cairn::codec
