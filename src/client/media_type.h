// The media type that a file name's extension stands for.
#pragma once

#include <string_view>

namespace cairn::client {

// `application/octet-stream` for an unknown extension. Case does not matter.
std::string_view guess_media_type(std::string_view name) noexcept;

// Whether the text has the form of a media type: `type/subtype`, and parameters behind a `;`.
bool names_media_type(std::string_view text) noexcept;

}  // namespace cairn::client
