// Media types as they are kept and sent: text that somebody gave us, in a head, a document or a file.
#pragma once

#include <string_view>

namespace cairn::codec {

inline constexpr std::size_t media_type_size_max = 255;
// What is said of bytes of which nothing is known, or nothing that can be said.
inline constexpr std::string_view unknown_media_type = "application/octet-stream";

// 1 to 255 printable ASCII characters, with no blank at either end: what the value of a field can be and what
// every reader of it reads alike.
bool is_media_type(std::string_view text) noexcept;

// Whether a browser that is shown such bytes may run something in them: any HTML or XML (SVG and XSLT are),
// and parts with types of their own. A list of types, or a type in disguise, is judged by its worst part.
bool is_active_type(std::string_view text) noexcept;

}  // namespace cairn::codec
