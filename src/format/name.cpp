#include "format/name.h"

#include <algorithm>

namespace cairn::format {
namespace {

bool is_name_character(char c) noexcept {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

}  // namespace

bool is_name(std::string_view text) noexcept {
  if (text.empty() || text.size() > name_size_max) return false;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find('/', at), text.size());
    const std::string_view segment = text.substr(at, end - at);
    if (segment.empty() || segment == "." || segment == ".." ||
        !std::ranges::all_of(segment, is_name_character))
      return false;
    at = end + 1;
  }
  return true;
}

bool is_covered(std::string_view name, std::string_view prefix) noexcept {
  return name.starts_with(prefix) && (name.size() == prefix.size() || name[prefix.size()] == '/');
}

}  // namespace cairn::format
