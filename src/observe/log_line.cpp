#include "observe/log_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>

#include "base/check.h"
#include "base/utf8.h"

namespace cairn::observe {
namespace {

// Payload: source, message, then fields. A text is two bytes of length and its bytes; a field is its kind,
// its key as a text, and a text or eight bytes.
class Packer {
 public:
  explicit Packer(LogRecord& record) : record_(record) {}

  std::size_t room() const noexcept { return LogRecord::payload_size - size_; }
  void byte(std::uint8_t value) noexcept { raw(&value, 1); }
  void bits(std::uint64_t value) noexcept { raw(&value, sizeof value); }
  void text(std::string_view value) noexcept {
    const std::size_t fits = std::min(value.size(), room() - sizeof(std::uint16_t));
    if (fits < value.size()) record_.truncated = 1;
    const auto length = static_cast<std::uint16_t>(fits);
    raw(&length, sizeof length);
    raw(value.data(), fits);
  }
  void finish() noexcept { record_.size = static_cast<std::uint16_t>(size_); }

 private:
  void raw(const void* data, std::size_t size) noexcept {
    CHECK(size <= room());
    if (size != 0) std::memcpy(record_.payload.data() + size_, data, size);
    size_ += size;
  }
  LogRecord& record_;
  std::size_t size_ = 0;
};

class Unpacker {
 public:
  explicit Unpacker(const LogRecord& record) : record_(record) {}

  bool done() const noexcept { return at_ == record_.size; }
  std::uint8_t byte() noexcept { return value<std::uint8_t>(); }
  std::uint64_t bits() noexcept { return value<std::uint64_t>(); }
  std::string_view text() noexcept {
    const std::size_t length = value<std::uint16_t>();
    CHECK(at_ + length <= record_.size);
    std::string_view view(reinterpret_cast<const char*>(record_.payload.data()) + at_, length);
    at_ += length;
    return view;
  }

 private:
  template <class T>
  T value() noexcept {
    CHECK(at_ + sizeof(T) <= record_.size);
    T result;
    std::memcpy(&result, record_.payload.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return result;
  }
  const LogRecord& record_;
  std::size_t at_ = 0;
};

void append_escaped(std::string& out, std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_sequence_size(text);
    const char c = text[0];
    if (length == 0)
      out += "\xef\xbf\xbd";
    else if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (c == '\n')
      out += "\\n";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(c));
    else
      out += text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
}

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  append_escaped(out, text);
  out += '"';
}

// In the text format a value is quoted only if it would otherwise be ambiguous.
void append_word(std::string& out, std::string_view text) {
  const bool plain = !text.empty() && std::ranges::all_of(text, [](char c) {
    return c > ' ' && c < 0x7f && c != '"' && c != '=' && c != '\\';
  });
  if (plain)
    out += text;
  else
    append_quoted(out, text);
}

void append_number(std::string& out, Field::Kind kind, std::uint64_t bits) {
  auto to = std::back_inserter(out);
  if (kind == Field::Kind::boolean) {
    out += bits != 0 ? "true" : "false";
  } else if (kind == Field::Kind::integer) {
    fmt::format_to(to, "{}", static_cast<std::int64_t>(bits));
  } else if (kind == Field::Kind::natural) {
    fmt::format_to(to, "{}", bits);
  } else {
    const auto real = std::bit_cast<double>(bits);
    // JSON has no word for these.
    if (std::isfinite(real))
      fmt::format_to(to, "{}", real);
    else
      out += "null";
  }
}

std::string stamp(std::int64_t wall_ms) {
  // format_rfc3339 leaves out a zero fraction; here columns must line up.
  std::string text = format_rfc3339(WallTime{wall_ms});
  if (wall_ms % 1000 == 0) text.insert(text.size() - 1, ".000");
  return text;
}

void append_field(std::string& out, LogFormat format, Unpacker& in) {
  const auto kind = static_cast<Field::Kind>(in.byte());
  const std::string_view key = in.text();
  if (format == LogFormat::json) {
    out += ',';
    append_quoted(out, key);
    out += ':';
  } else {
    out += ' ';
    append_word(out, key);
    out += '=';
  }
  if (kind != Field::Kind::text)
    append_number(out, kind, in.bits());
  else if (format == LogFormat::json)
    append_quoted(out, in.text());
  else
    append_word(out, in.text());
}

void append_head(std::string& out, LogFormat format, const LogRecord& record, Unpacker& in) {
  const std::string_view source = in.text();
  const std::string_view message = in.text();
  const std::string_view level = name_of(static_cast<Level>(record.level));
  auto to = std::back_inserter(out);
  if (format == LogFormat::json) {
    fmt::format_to(to, R"({{"ts":"{}","level":"{}","msg":)", stamp(record.wall_ms), level);
    append_quoted(out, message);
    if (source.empty()) return;
    out += R"(,"source":)";
    append_quoted(out, source);
  } else {
    fmt::format_to(to, "{} {:<5} ", stamp(record.wall_ms), level);
    if (!source.empty()) {
      append_escaped(out, source);
      out += ": ";
    }
    append_escaped(out, message);
  }
}

}  // namespace

void pack_record(LogRecord& record, std::string_view source, std::string_view message,
                 Fields fields) noexcept {
  constexpr std::size_t field_head = 1 + sizeof(std::uint16_t);
  constexpr std::size_t field_tail = sizeof(std::uint64_t);
  constexpr std::size_t source_max = 64;
  Packer out(record);
  record.truncated = source.size() > source_max;
  out.text(source.substr(0, source_max));
  out.text(message);
  for (const Field& field : fields) {
    // A key is never cut: half a key would be another key.
    if (field.key().size() + field_head + field_tail > out.room()) {
      record.truncated = 1;
      break;
    }
    out.byte(static_cast<std::uint8_t>(field.kind()));
    out.text(field.key());
    if (field.kind() == Field::Kind::text)
      out.text(field.text());
    else
      out.bits(field.bits());
  }
  out.finish();
}

void render_record(const LogRecord& record, LogFormat format, std::string& out) {
  Unpacker in(record);
  append_head(out, format, record, in);
  while (!in.done()) append_field(out, format, in);
  if (format == LogFormat::json)
    out += record.truncated ? ",\"truncated\":true}\n" : "}\n";
  else
    out += record.truncated ? " truncated=true\n" : "\n";
}

}  // namespace cairn::observe
