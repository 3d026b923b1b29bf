#pragma once
#include <strings.h>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

constexpr size_t head_limit = 32 << 10;  // what the protocol allows

// What the client needs of a response head.
struct Head {
  size_t bytes = 0;
  int status = 0;
  std::optional<uint64_t> length;
  bool close = false;
};

inline bool name_is(std::string_view line, std::string_view lower_name) {
  return line.size() > lower_name.size() && line[lower_name.size()] == ':' &&
         strncasecmp(line.data(), lower_name.data(), lower_name.size()) == 0;
}

inline std::string_view value_of(std::string_view line) {
  line.remove_prefix(line.find(':') + 1);
  while (!line.empty() && line.front() == ' ') line.remove_prefix(1);
  return line;
}

enum class Parsed { head, partial, bad };

inline Parsed parse_head(std::string_view in, Head& out) {
  const size_t end = in.find("\r\n\r\n");
  if (end == std::string_view::npos) return in.size() > head_limit ? Parsed::bad : Parsed::partial;
  if (end < 12 || !in.starts_with("HTTP/1.1 ")) return Parsed::bad;
  out = {};
  out.bytes = end + 4;
  if (std::from_chars(in.data() + 9, in.data() + 12, out.status).ptr != in.data() + 12) return Parsed::bad;
  size_t at = in.find("\r\n") + 2;
  while (at < end) {
    const size_t eol = in.find("\r\n", at);
    const std::string_view line = in.substr(at, eol - at);
    at = eol + 2;
    if ((line.front() | 0x20) != 'c') continue;
    if (name_is(line, "content-length")) {
      const std::string_view v = value_of(line);
      uint64_t n = 0;
      const auto r = std::from_chars(v.data(), v.data() + v.size(), n);
      if (out.length || r.ec != std::errc{} || r.ptr != v.data() + v.size()) return Parsed::bad;
      out.length = n;
    } else if (name_is(line, "connection")) {
      const std::string_view v = value_of(line);
      out.close = v.size() == 5 && strncasecmp(v.data(), "close", 5) == 0;
    }
  }
  return Parsed::head;
}

// redis says in five bytes that a SET is done.
inline Parsed parse_redis_ok(std::string_view in, Head& out) {
  constexpr std::string_view ok = "+OK\r\n";
  if (in.size() < ok.size() && ok.starts_with(in)) return Parsed::partial;
  if (!in.starts_with(ok)) return Parsed::bad;
  out = {.bytes = ok.size(), .status = 200, .length = 0, .close = false};
  return Parsed::head;
}
