#include "codec/json_writer.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/utf8.h"
#include "codec/json_reader.h"

namespace cairn::codec {
namespace {

std::string string_json(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

template <class T>
std::string written(const T& value) {
  std::string out;
  JsonWriter json(out);
  json.value(value);
  json.finish();
  return out;
}

}  // namespace

TEST(JsonWriter, nested_containers_get_their_commas) {
  std::string out = "prefix ";
  JsonWriter json(out);
  json.begin_object().field("a", 1).key("b").begin_array().end_array().key("c").begin_array();
  json.value(true).null().begin_object().end_object().value("x").end_array().field("d", "y");
  json.end_object().finish();
  EXPECT_EQ(out, R"(prefix {"a":1,"b":[],"c":[true,null,{},"x"],"d":"y"})");
}

TEST(JsonWriter, strings_are_escaped_as_json_demands_and_no_more) {
  EXPECT_EQ(string_json("a/b\"\\\b\f\n\r\t\x7F"), "\"a/b\\\"\\\\\\b\\f\\n\\r\\t\x7F\"");
  EXPECT_EQ(string_json(std::string_view("\0\x1F", 2)), R"("\u0000\u001f")");
  EXPECT_EQ(string_json("\xE2\x82\xAC\xF0\x9F\x98\x80"), "\"\xE2\x82\xAC\xF0\x9F\x98\x80\"");
}

TEST(JsonWriter, each_invalid_byte_becomes_one_replacement_character) {
  const std::string mark = "\xEF\xBF\xBD";
  EXPECT_EQ(string_json("a\xFFz"), "\"a" + mark + "z\"");
  EXPECT_EQ(string_json("\xE2\x82"), "\"" + mark + mark + "\"");
  EXPECT_EQ(string_json("\xED\xA0\x80\n"), "\"" + mark + mark + mark + "\\n\"");
}

TEST(JsonWriter, numbers_keep_their_kind_and_value) {
  EXPECT_EQ(written(std::numeric_limits<std::int64_t>::min()), "-9223372036854775808");
  EXPECT_EQ(written(std::numeric_limits<std::uint64_t>::max()), "18446744073709551615");
  EXPECT_EQ(written(std::uint8_t{7}), "7");
  EXPECT_EQ(written(0.1), "0.1");
  EXPECT_EQ(written(1.0), "1.0");
  EXPECT_EQ(written(-0.0), "-0.0");
  EXPECT_EQ(written(1e300), "1e+300");
  EXPECT_EQ(written(5e-324), "5e-324");
  EXPECT_EQ(written(std::nan("")), "null");
  EXPECT_EQ(written(-std::numeric_limits<double>::infinity()), "null");
}

TEST(JsonWriter, a_literal_is_a_string_and_not_a_bool) {
  EXPECT_EQ(written("x"), "\"x\"");
  EXPECT_EQ(written(std::string("x")), "\"x\"");
  EXPECT_EQ(written(false), "false");
}

using JsonWriterDeathTest = testing::Test;

TEST(JsonWriterDeathTest, calls_that_are_not_json_are_bugs) {
  std::string out;
  EXPECT_DEATH(JsonWriter(out).begin_object().value(1), "after_key_");
  EXPECT_DEATH(JsonWriter(out).begin_object().key("a").end_object(), "CHECK");
  EXPECT_DEATH(JsonWriter(out).begin_object().key("a").key("b"), "CHECK");
  EXPECT_DEATH(JsonWriter(out).begin_array().key("a"), "CHECK");
  EXPECT_DEATH(JsonWriter(out).begin_array().end_object(), "CHECK");
  EXPECT_DEATH(JsonWriter(out).value(1).value(2), "CHECK");
  EXPECT_DEATH(JsonWriter(out).begin_array().finish(), "CHECK");
  EXPECT_DEATH(JsonWriter(out).finish(), "CHECK");
  EXPECT_DEATH(
      {
        JsonWriter json(out);
        for (unsigned i = 0; i <= JsonWriter::depth_max; ++i) json.begin_array();
      },
      "depth_max");
}

RC_GTEST_PROP(JsonWriter, any_bytes_make_a_valid_string, (const std::string& bytes)) {
  JsonReader reader;
  auto value = reader.parse(string_json(bytes));
  RC_ASSERT(value.has_value());
  if (is_utf8(bytes)) RC_ASSERT(*value->as_string() == bytes);
}

RC_GTEST_PROP(JsonWriter, every_finite_double_reads_back_bit_for_bit, (std::uint64_t bits)) {
  auto number = std::bit_cast<double>(bits);
  RC_PRE(std::isfinite(number));
  JsonReader reader;
  auto value = reader.parse(written(number));
  RC_ASSERT(value.has_value() && value->kind() == JsonKind::number);
  RC_ASSERT(std::bit_cast<std::uint64_t>(*value->as_double()) == bits);
}

}  // namespace cairn::codec
