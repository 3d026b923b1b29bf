// Media types as they are kept and sent: text from outside, in a head, a document or a file.
#pragma once

#include <string_view>

namespace cairn::codec {

inline constexpr std::size_t media_type_size_max = 255;
// The type of bytes whose type is unknown, or is not a valid media type.
inline constexpr std::string_view unknown_media_type = "application/octet-stream";

// 1 to 255 printable ASCII characters, with no blank at either end: valid as the value of a field, and read
// alike by every reader.
bool is_media_type(std::string_view text) noexcept;

// Whether a browser that shows such bytes may run a script in them: any HTML or XML (SVG and XSLT are XML),
// and multipart types, whose parts have types of their own. A list of types, or a type in disguise, is judged
// by its worst part.
bool is_active_type(std::string_view text) noexcept;

}  // namespace cairn::codec
