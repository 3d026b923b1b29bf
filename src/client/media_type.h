// The media type that a file name's extension stands for.
#pragma once

#include <string_view>

namespace cairn::client {

// `application/octet-stream` for what is not known. Case does not matter.
std::string_view guess_media_type(std::string_view name) noexcept;

}  // namespace cairn::client
