#include "http/path.h"

#include "base/utf8.h"
#include "http/scan.h"

namespace cairn::http {
namespace {

std::unexpected<Error> malformed(const char* context) noexcept {
  return fail(ErrorCode::malformed, context, Side::client);
}

// The first byte that an unescaped path in normal form cannot hold without a closer look: an escape, a
// backslash, a control character, a byte above 0x7f.
const char* find_special(const char* p, const char* end) noexcept {
  return scan_until(
      p, end,
      CAIRN_SCAN_BLOCK(_mm_or_si128(_mm_or_si128(_mm_cmplt_epi8(block, _mm_set1_epi8(0x20)),
                                                 _mm_cmpeq_epi8(block, _mm_set1_epi8(0x7f))),
                                    _mm_or_si128(_mm_cmpeq_epi8(block, _mm_set1_epi8('%')),
                                                 _mm_cmpeq_epi8(block, _mm_set1_epi8('\\'))))),
      [](char c) { return c == '%' || c == '\\' || is_control(c) || static_cast<unsigned char>(c) > 0x7f; });
}

bool has_dot_segment(std::string_view path) noexcept {
  for (std::size_t at = path.find("/."); at != std::string_view::npos; at = path.find("/.", at + 1)) {
    std::string_view rest = path.substr(at + 2);
    if (rest.starts_with('.')) rest.remove_prefix(1);
    if (rest.empty() || rest.front() == '/') return true;
  }
  return false;
}

bool has_escape(std::string_view text) noexcept {
  for (std::size_t at = text.find('%'); at != std::string_view::npos; at = text.find('%', at + 1))
    if (at + 2 < text.size() && hex_value(text[at + 1]) >= 0 && hex_value(text[at + 2]) >= 0) return true;
  return false;
}

}  // namespace

Result<std::string_view> decode_path(std::string_view raw, std::string& room) {
  if (!raw.starts_with('/')) return malformed("path does not start with /");
  const char* const end = raw.data() + raw.size();
  if (find_special(raw.data(), end) == end) [[likely]] {
    if (has_dot_segment(raw)) return malformed("dot segment in the path");
    return raw;
  }
  room.resize(raw.size());
  char* out = room.data();
  for (std::size_t i = 0; i < raw.size(); ++i) {
    char c = raw[i];
    if (static_cast<unsigned char>(c) > 0x7f) return malformed("raw byte above 0x7f in the path");
    if (c == '%') {
      if (i + 2 >= raw.size()) return malformed("cut escape in the path");
      const int high = hex_value(raw[i + 1]);
      const int low = hex_value(raw[i + 2]);
      if (high < 0 || low < 0) return malformed("escape in the path is not hex");
      c = static_cast<char>(high * 16 + low);
      if (c == '/') return malformed("escaped / in the path");
      i += 2;
    }
    if (is_control(c) || c == '\\') return malformed("control character or backslash in the path");
    *out++ = c;
  }
  const std::string_view path(room.data(), static_cast<std::size_t>(out - room.data()));
  if (has_dot_segment(path)) return malformed("dot segment in the path");
  if (has_escape(path)) return malformed("path is escaped twice");
  if (!is_utf8(path)) return malformed("path is not UTF-8");
  return path;
}

}  // namespace cairn::http
