// The media type that a file name's extension stands for.
#pragma once

#include <string_view>

namespace cairn::client {

// `application/octet-stream` for what is not known. Case does not matter.
std::string_view guess_media_type(std::string_view name) noexcept;

// Whether it can be what a person means by a media type: `type/subtype`, and parameters behind a `;`.
bool names_media_type(std::string_view text) noexcept;

}  // namespace cairn::client
