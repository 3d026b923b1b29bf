#include "codec/media_type.h"

#include <algorithm>

#include "base/ascii.h"

namespace cairn::codec {
namespace {

bool contains(std::string_view text, std::string_view lowercase) noexcept {
  return !std::ranges::search(text, lowercase, {}, lower).empty();
}

}  // namespace

bool is_media_type(std::string_view text) noexcept {
  return !text.empty() && text.size() <= media_type_size_max && text.front() != ' ' && text.back() != ' ' &&
         std::ranges::all_of(text, [](char c) { return c >= ' ' && c < 0x7f; });
}

bool is_active_type(std::string_view text) noexcept {
  return std::ranges::any_of(
      std::initializer_list<std::string_view>{"html", "xml", "xsl", "svg", "multipart/"},
      [&](std::string_view part) { return contains(text, part); });
}

}  // namespace cairn::codec
