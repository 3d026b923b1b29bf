// A second reading of RFC 9112 with our strict rules: slow, obvious, over a complete buffer, sharing no
// line with src/http. The fuzz targets hold the real parsers against it.
//
// It reads byte after byte, so the first byte that decides is also the one at which it stops: a stream
// that ends before that is incomplete, not refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace cairn::grammar {

enum class Verdict { accepted, rejected, incomplete };
enum class Body { none, length, chunked };

struct Limits {
  std::size_t head = 32 * 1024;
  std::size_t target = 8 * 1024;
};

struct Message {
  Verdict verdict = Verdict::incomplete;
  ErrorCode code = ErrorCode::ok;  // rejected
  bool head_complete = false;
  std::string method, target, path, query;
  int minor = 1;
  std::vector<std::pair<std::string, std::string>> fields;
  bool keep_alive = true, expect_continue = false;
  Body body_kind = Body::none;
  std::uint64_t length = 0;
  std::string body;     // what has arrived of it
  std::size_t end = 0;  // accepted: where the next message starts
};

inline bool is_alpha(int c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
inline bool is_digit(int c) { return c >= '0' && c <= '9'; }
inline bool is_hex(int c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
inline bool is_tchar(int c) {
  return is_alpha(c) || is_digit(c) ||
         (c > 0 && c < 128 && std::string_view("!#$%&'*+-.^_`|~").contains(static_cast<char>(c)));
}
inline std::string to_lower(std::string_view text) {
  std::string out;
  for (char c : text) out += (c >= 'A' && c <= 'Z') ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}
inline std::string strip(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(" \t") - first + 1));
}
inline std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> elements(1);
  for (char c : text) {
    if (c == ',')
      elements.emplace_back();
    else
      elements.back() += c;
  }
  for (std::string& element : elements) element = strip(element);
  return elements;
}

// Code points of UTF-8 text; nothing when writing them again does not give the same bytes.
inline bool is_utf8(const std::string& text) {
  for (std::size_t i = 0; i < text.size();) {
    const unsigned lead = static_cast<unsigned char>(text[i]);
    const std::size_t more = lead < 0x80   ? 0
                             : lead < 0xc0 ? 9
                             : lead < 0xe0 ? 1
                             : lead < 0xf0 ? 2
                             : lead < 0xf8 ? 3
                                           : 9;
    if (more == 9 || i + more >= text.size()) return false;
    unsigned long point = more == 0 ? lead : lead & (0x3fu >> more);
    for (std::size_t k = 1; k <= more; ++k) {
      const unsigned next = static_cast<unsigned char>(text[i + k]);
      if ((next & 0xc0) != 0x80) return false;
      point = point * 64 + (next & 0x3f);
    }
    const unsigned long least[] = {0, 0x80, 0x800, 0x10000};
    if (point < least[more] || point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff)) return false;
    i += more + 1;
  }
  return true;
}

// The path in normal form; nothing when it is to be refused.
inline std::optional<std::string> decode_path(const std::string& raw) {
  if (raw.empty() || raw[0] != '/') return std::nullopt;
  std::string path;
  for (std::size_t i = 0; i < raw.size(); ++i) {
    if (static_cast<unsigned char>(raw[i]) > 0x7f) return std::nullopt;
    if (raw[i] != '%') {
      path += raw[i];
      continue;
    }
    if (raw.size() - i < 3 || !is_hex(raw[i + 1]) || !is_hex(raw[i + 2])) return std::nullopt;
    const int value = std::stoi(raw.substr(i + 1, 2), nullptr, 16);
    if (value == '/') return std::nullopt;
    path += static_cast<char>(value);
    i += 2;
  }
  for (char c : path)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '\\') return std::nullopt;
  for (std::size_t i = 0; i + 2 < path.size(); ++i)
    if (raw != path && path[i] == '%' && is_hex(path[i + 1]) && is_hex(path[i + 2])) return std::nullopt;
  std::string segment;
  for (char c : path.substr(1) + "/") {
    if (c != '/') {
      segment += c;
      continue;
    }
    if (segment == "." || segment == "..") return std::nullopt;
    segment.clear();
  }
  return is_utf8(path) ? std::optional(path) : std::nullopt;
}

// Reads one message from `stream`, starting at `start`.
class Reader {
 public:
  Reader(std::string_view stream, std::size_t start, Limits limits)
      : stream_(stream), start_(start), at_(start), limits_(limits) {}

  Message read() {
    bounded_ = true;
    if (head() && semantics()) {
      m_.head_complete = true;
      bounded_ = false;
      if (body()) {
        m_.verdict = Verdict::accepted;
        m_.end = at_;
      }
    }
    return std::move(m_);
  }

  // Only a chunked body.
  Message read_chunked() {
    m_.body_kind = Body::chunked;
    if (body()) {
      m_.verdict = Verdict::accepted;
      m_.end = at_;
    }
    return std::move(m_);
  }

 private:
  bool reject(ErrorCode code) {
    m_.verdict = Verdict::rejected;
    m_.code = code;
    return false;
  }
  bool malformed() { return reject(ErrorCode::malformed); }

  // Makes the next byte readable, or stops: at the head's limit by refusal, at the end as incomplete.
  bool have() {
    if (bounded_ && at_ - start_ >= limits_.head) return reject(ErrorCode::headers_too_large);
    return at_ < stream_.size();
  }
  int byte() const { return static_cast<unsigned char>(stream_[at_]); }
  bool expect(char c) {
    if (!have()) return false;
    if (stream_[at_] != c) return malformed();
    ++at_;
    return true;
  }
  bool crlf() { return expect('\r') && expect('\n'); }

  bool head() {
    if (!have()) return false;
    if (byte() == '\r' && !crlf()) return false;
    return method() && target() && version() && field_lines(m_.fields, 100, ErrorCode::headers_too_large);
  }

  bool method() {
    for (;;) {
      if (!have()) return false;
      if (byte() == ' ') break;
      if (!is_tchar(byte())) return malformed();
      m_.method += stream_[at_++];
      if (m_.method.size() > 32) return reject(ErrorCode::not_implemented);
    }
    ++at_;
    if (m_.method.empty() || m_.method == "CONNECT") return malformed();
    for (const char* known : {"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"})
      if (m_.method == known) return true;
    return reject(ErrorCode::not_implemented);
  }

  bool target() {
    for (;;) {
      if (!have()) return false;
      const int c = byte();
      if (c == ' ') break;
      if (c <= 0x20 || c >= 0x7f || std::string_view("\"#<>\\^`{|}").contains(static_cast<char>(c)))
        return malformed();
      m_.target += stream_[at_++];
      if (m_.target.size() > limits_.target) return reject(ErrorCode::uri_too_long);
    }
    ++at_;
    return split_target();
  }

  bool split_target() {
    std::string rest = m_.target;
    if (const std::size_t mark = rest.find('?'); mark != std::string::npos) {
      m_.query = rest.substr(mark + 1);
      rest.resize(mark);
    }
    if (m_.target == "*" && m_.method == "OPTIONS") {
      m_.path = "*";
      return true;
    }
    if (rest.starts_with("/")) {
      m_.path = rest;
      return true;
    }
    std::size_t scheme = 0;
    if (to_lower(rest).starts_with("http://")) scheme = 7;
    if (to_lower(rest).starts_with("https://")) scheme = 8;
    if (scheme == 0) return malformed();
    const std::size_t slash = rest.find('/', scheme);
    authority_ = rest.substr(scheme, slash == std::string::npos ? std::string::npos : slash - scheme);
    if (!is_host(*authority_)) return malformed();
    m_.path = slash == std::string::npos ? "/" : rest.substr(slash);
    return true;
  }

  bool digit(int& value) {
    if (!have()) return false;
    if (!is_digit(byte())) return malformed();
    value = stream_[at_++] - '0';
    return true;
  }
  bool version() {
    int major = 0;
    for (char c : std::string_view("HTTP/"))
      if (!expect(c)) return false;
    if (!digit(major) || !expect('.') || !digit(m_.minor) || !crlf()) return false;
    if (major != 1 || m_.minor > 1) return reject(ErrorCode::bad_version);
    return true;
  }

  bool field_lines(std::vector<std::pair<std::string, std::string>>& fields, std::size_t max,
                   ErrorCode too_many) {
    for (;;) {
      if (!have()) return false;
      if (byte() == '\r') return crlf();
      if (fields.size() == max) return reject(too_many);
      std::string name;
      while (true) {
        if (!have()) return false;
        if (byte() == ':') break;
        if (!is_tchar(byte())) return malformed();
        name += stream_[at_++];
      }
      if (name.empty()) return malformed();
      ++at_;
      std::string value;
      while (true) {
        if (!have()) return false;
        if (byte() == '\r') break;
        if ((byte() < 0x20 && byte() != '\t') || byte() == 0x7f) return malformed();
        value += stream_[at_++];
      }
      if (!crlf()) return false;
      fields.emplace_back(name, strip(value));
    }
  }

  static bool is_host(std::string_view text) {
    std::string host, port;
    bool has_port = false;
    if (!text.empty() && text[0] == '[') {
      const std::size_t close = text.find(']');
      if (close == std::string_view::npos) return false;
      host = text.substr(1, close - 1);
      if (host.size() < 2) return false;
      for (char c : host)
        if (!is_hex(c) && c != ':' && c != '.') return false;
      const std::string_view rest = text.substr(close + 1);
      if (!rest.empty() && rest[0] != ':') return false;
      has_port = !rest.empty();
      if (has_port) port = rest.substr(1);
    } else {
      const std::size_t colon = text.find(':');
      has_port = colon != std::string_view::npos;
      host = text.substr(0, colon);
      if (has_port) port = text.substr(colon + 1);
      if (host.empty() || host.size() > 255) return false;
      for (char c : host)
        if (!is_alpha(c) && !is_digit(c) && c != '-' && c != '.' && c != '_' && c != '~') return false;
    }
    if (!has_port) return true;
    if (port.empty() || port.size() > 5) return false;
    for (char c : port)
      if (!is_digit(c)) return false;
    return std::stoi(port) <= 65535;
  }

  std::vector<std::string> values(std::string_view lowercase_name) const {
    std::vector<std::string> found;
    for (const auto& [name, value] : m_.fields)
      if (to_lower(name) == lowercase_name) found.push_back(value);
    return found;
  }

  // All refusals here are the same code, so their order does not matter.
  bool semantics() {
    const auto hosts = values("host");
    if (hosts.size() > 1 || (hosts.empty() && m_.minor != 0)) return malformed();
    if (!hosts.empty() && !is_host(hosts[0])) return malformed();
    if (authority_ && !hosts.empty() && to_lower(*authority_) != to_lower(hosts[0])) return malformed();

    const auto lengths = values("content-length");
    const auto codings = values("transfer-encoding");
    if (lengths.size() + codings.size() > 1) return malformed();
    if (!codings.empty()) {
      if (to_lower(codings[0]) != "chunked" || m_.minor == 0) return malformed();
      m_.body_kind = Body::chunked;
    }
    if (!lengths.empty()) {
      if (lengths[0].empty() || lengths[0].find_first_not_of("0123456789") != std::string::npos)
        return malformed();
      std::string digits = lengths[0];
      while (digits.size() > 1 && digits[0] == '0') digits.erase(0, 1);
      const std::string max = "9223372036854775807";
      if (digits.size() > max.size() || (digits.size() == max.size() && digits > max)) return malformed();
      m_.body_kind = Body::length;
      m_.length = std::stoull(digits);
    }

    bool close = false, keep = false;
    for (const std::string& value : values("connection"))
      for (const std::string& option : split_list(value)) {
        close |= to_lower(option) == "close";
        keep |= to_lower(option) == "keep-alive";
      }
    m_.keep_alive = !close && (m_.minor == 1 || keep);

    const auto expectations = values("expect");
    if (expectations.size() > 1) return malformed();
    if (!expectations.empty()) {
      if (to_lower(expectations[0]) != "100-continue") return malformed();
      const bool body_follows =
          m_.body_kind == Body::chunked || (m_.body_kind == Body::length && m_.length > 0);
      m_.expect_continue = body_follows && m_.minor == 1;
    }
    return true;
  }

  bool body() {
    if (m_.body_kind == Body::none) return true;
    if (m_.body_kind == Body::length) return octets(m_.length);
    std::size_t all_extensions = 0;
    for (;;) {
      std::uint64_t size = 0;
      if (!chunk_size(size) || !extension(all_extensions) || !crlf()) return false;
      if (size == 0) return trailers();
      if (!octets(size) || !crlf()) return false;
    }
  }

  bool octets(std::uint64_t count) {
    for (; count > 0; --count) {
      if (!have()) return false;
      m_.body += stream_[at_++];
    }
    return true;
  }

  bool chunk_size(std::uint64_t& size) {
    std::string digits;
    for (;;) {
      if (!have()) return false;
      if (!is_hex(byte())) break;
      digits += stream_[at_++];
      if (digits.size() > 16) return malformed();
      if (digits.size() == 16 && !(digits[0] >= '0' && digits[0] <= '7')) return malformed();
    }
    if (digits.empty()) return malformed();
    if (byte() != ';' && byte() != '\r') return malformed();
    size = std::stoull(digits, nullptr, 16);
    return true;
  }

  bool extension(std::size_t& all) {
    std::size_t here = 0;
    for (;;) {
      if (!have()) return false;
      if (byte() == '\r') return true;
      if (++here > 256 || ++all > 8192) return malformed();
      if (byte() != '\t' && (byte() < 0x20 || byte() > 0x7e)) return malformed();
      ++at_;
    }
  }

  // At most 8 KiB up to and with the final CRLF: beyond that the byte itself is refused.
  bool trailers() {
    const std::size_t from = at_;
    std::vector<std::pair<std::string, std::string>> fields;
    const std::string_view all = stream_;
    stream_ = all.substr(0, from + 8192);
    const bool read = field_lines(fields, 100, ErrorCode::malformed);
    stream_ = all;
    if (!read && m_.verdict == Verdict::incomplete && all.size() > from + 8192) return malformed();
    return read;
  }

  std::string_view stream_;
  std::size_t start_, at_;
  Limits limits_;
  bool bounded_ = false;
  std::optional<std::string> authority_;
  Message m_;
};

// All messages of a stream up to the first that is refused or incomplete (which is the last).
inline std::vector<Message> read_stream(std::string_view stream, Limits limits) {
  std::vector<Message> messages;
  for (std::size_t at = 0;;) {
    messages.push_back(Reader(stream, at, limits).read());
    if (messages.back().verdict != Verdict::accepted) return messages;
    at = messages.back().end;
  }
}

}  // namespace cairn::grammar
