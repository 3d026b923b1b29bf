#include "codec/json_writer.h"

#include <charconv>
#include <cmath>

#include "base/check.h"
#include "base/utf8.h"

namespace cairn::codec {
namespace {

template <class Number>
void append_number(std::string& out, Number number) {
  char text[32];
  auto [end, error] = std::to_chars(text, text + sizeof text, number);
  CHECK(error == std::errc());
  out.append(text, end);
}

void append_escape(std::string& out, char c) {
  static constexpr char digits[] = "0123456789abcdef";
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\b':
      out += "\\b";
      return;
    case '\f':
      out += "\\f";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      out += "\\u00";
      out += digits[c >> 4 & 15];
      out += digits[c & 15];
  }
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  std::size_t copied = 0;  // text[copied, i) is clean and not yet written
  std::size_t i = 0;
  while (i < text.size()) {
    auto c = static_cast<unsigned char>(text[i]);
    std::size_t size = c < 0x80 ? 1 : utf8_sequence_size(text.substr(i));
    if (size > 0 && c >= 0x20 && c != '"' && c != '\\') {
      i += size;
      continue;
    }
    out.append(text, copied, i - copied);
    if (size == 0) {
      out += "\xEF\xBF\xBD";
    } else {
      append_escape(out, text[i]);
    }
    copied = ++i;
  }
  out.append(text, copied, i - copied);
  out += '"';
}

void JsonWriter::before_value() {
  if (depth_ == 0) {
    CHECK(!done_);
    done_ = true;
  } else if (frames_[depth_ - 1] == Frame::object) {
    CHECK(after_key_);
  } else if (needs_comma_) {
    out_ += ',';
  }
  after_key_ = false;
  needs_comma_ = true;
}

JsonWriter& JsonWriter::key(std::string_view name) {
  CHECK(depth_ > 0 && frames_[depth_ - 1] == Frame::object && !after_key_);
  if (needs_comma_) out_ += ',';
  append_json_string(out_, name);
  out_ += ':';
  after_key_ = true;
  return *this;
}

void JsonWriter::begin(Frame frame, char bracket) {
  before_value();
  CHECK(depth_ < depth_max);
  frames_[depth_++] = frame;
  needs_comma_ = false;
  out_ += bracket;
}

void JsonWriter::end(Frame frame, char bracket) {
  CHECK(depth_ > 0 && frames_[depth_ - 1] == frame && !after_key_);
  --depth_;
  needs_comma_ = true;
  out_ += bracket;
}

JsonWriter& JsonWriter::begin_object() {
  begin(Frame::object, '{');
  return *this;
}
JsonWriter& JsonWriter::end_object() {
  end(Frame::object, '}');
  return *this;
}
JsonWriter& JsonWriter::begin_array() {
  begin(Frame::array, '[');
  return *this;
}
JsonWriter& JsonWriter::end_array() {
  end(Frame::array, ']');
  return *this;
}

JsonWriter& JsonWriter::write_string(std::string_view text) {
  before_value();
  append_json_string(out_, text);
  return *this;
}

JsonWriter& JsonWriter::write_bool(bool flag) {
  before_value();
  out_ += flag ? "true" : "false";
  return *this;
}

JsonWriter& JsonWriter::write_int(std::int64_t number) {
  before_value();
  append_number(out_, number);
  return *this;
}

JsonWriter& JsonWriter::write_uint(std::uint64_t number) {
  before_value();
  append_number(out_, number);
  return *this;
}

JsonWriter& JsonWriter::value(double number) {
  if (!std::isfinite(number)) return null();
  before_value();
  std::size_t start = out_.size();
  append_number(out_, number);
  if (out_.find_first_of(".e", start) == std::string::npos) out_ += ".0";
  return *this;
}

JsonWriter& JsonWriter::null() {
  before_value();
  out_ += "null";
  return *this;
}

void JsonWriter::finish() const { CHECK(done_ && depth_ == 0); }

}  // namespace cairn::codec
