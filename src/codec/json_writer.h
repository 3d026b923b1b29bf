// JsonWriter: compact JSON appended to a string, in the order of the calls.
//
//   JsonWriter json(body);
//   json.begin_object().field("ready", true).key("missing").begin_array().value("store").end_array();
//   json.end_object().finish();
//
// A call that would not yield JSON (a value where a key belongs, an unbalanced end) is a bug of the
// caller and a failed CHECK. The same calls always give the same bytes.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace cairn::codec {

// Appends `text` with its quotes. Only what JSON demands is escaped; each byte that is not part of
// well-formed UTF-8 becomes U+FFFD, so the output is always valid.
void append_json_string(std::string& out, std::string_view text);

class JsonWriter {
 public:
  static constexpr unsigned depth_max = 64;

  explicit JsonWriter(std::string& out) : out_(out) {}
  JsonWriter(const JsonWriter&) = delete;
  JsonWriter& operator=(const JsonWriter&) = delete;

  JsonWriter& begin_object();
  JsonWriter& end_object();
  JsonWriter& begin_array();
  JsonWriter& end_array();
  JsonWriter& key(std::string_view name);

  // Templates, because a string literal would otherwise prefer `bool` over `std::string_view`.
  template <class T>
    requires std::convertible_to<const T&, std::string_view>
  JsonWriter& value(const T& text) {
    return write_string(text);
  }
  template <std::same_as<bool> T>
  JsonWriter& value(T flag) {
    return write_bool(flag);
  }
  template <std::signed_integral T>
  JsonWriter& value(T number) {
    return write_int(number);
  }
  template <std::unsigned_integral T>
    requires(!std::same_as<T, bool>)
  JsonWriter& value(T number) {
    return write_uint(number);
  }
  // The shortest text that reads back as the same double, always with a `.` or an exponent so that it
  // reads back as a double. JSON has no NaN and no infinity: they become null.
  JsonWriter& value(double number);
  JsonWriter& null();

  template <class T>
  JsonWriter& field(std::string_view name, const T& content) {
    return key(name).value(content);
  }

  // CHECKs that exactly one value was written and everything is closed.
  void finish() const;

 private:
  enum class Frame : std::uint8_t { array, object };

  void begin(Frame frame, char bracket);
  void end(Frame frame, char bracket);
  void before_value();
  JsonWriter& write_string(std::string_view text);
  JsonWriter& write_bool(bool flag);
  JsonWriter& write_int(std::int64_t number);
  JsonWriter& write_uint(std::uint64_t number);

  std::string& out_;
  Frame frames_[depth_max] = {};
  unsigned depth_ = 0;
  bool after_key_ = false;    // the next call must write that key's value
  bool needs_comma_ = false;  // the innermost container already has an item
  bool done_ = false;         // the one root value has begun
};

}  // namespace cairn::codec
