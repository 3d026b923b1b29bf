#include "codec/json_reader.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/utf8.h"

namespace cairn::codec {
namespace {

std::string nested(std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); }

// Why the text is refused; empty when it is accepted.
std::string refusal(std::string_view text, JsonLimits limits = {}) {
  JsonReader reader(limits);
  auto value = reader.parse(text);
  if (value) return "";
  EXPECT_EQ(value.error().code, ErrorCode::malformed);
  EXPECT_FALSE(reader.detail().empty());
  return reader.detail();
}

struct Item {
  std::string name;
  std::uint64_t size = 0;
  std::optional<bool> pinned;
};

Result<std::vector<Item>> read_items(JsonReader& reader, std::string_view text) {
  TRY(JsonValue root, reader.parse(text));
  TRY(JsonObject object, root.object());
  TRY(JsonItems items, object.required_items("items"));
  std::vector<Item> all;
  for (JsonValue value : items) {
    TRY(JsonObject item, value.object());
    TRY(auto name, item.required_string("name"));
    TRY(auto size, item.required_uint("size"));
    TRY(auto pinned, item.optional_bool("pinned"));
    if (name.empty()) return item.refuse("name", "is empty");
    TRY_VOID(item.finish());
    all.push_back({std::string(name), size, pinned});
  }
  TRY_VOID(object.finish());
  return all;
}

std::string item_refusal(std::string_view text) {
  JsonReader reader;
  auto items = read_items(reader, text);
  return items ? "" : reader.detail();
}

}  // namespace

TEST(Json, texts_that_must_be_accepted) {
  const std::string_view texts[] = {
      "null",
      "true",
      "false",
      "0",
      "-0",
      "-1",
      "1.5",
      "1e5",
      "1E+5",
      "1e-5",
      "0.0",
      "-0.0",
      "123.456e78",
      "9223372036854775807",
      "-9223372036854775808",
      "18446744073709551615",
      "1e-400",
      R"("")",
      R"("a")",
      R"("\u0041\ud83d\ude00")",
      R"("\"\\\/\b\f\n\r\t")",
      R"("\u0000")",
      "\"\x7F\"",
      "\"\xE2\x82\xAC\"",
      "\"\xF4\x8F\xBF\xBF\"",
      "[]",
      "[ ]",
      "{}",
      "{ }",
      "[[],{}]",
      R"({"":0})",
      R"({"a":{"a":1}})",
      " \t\r\n[1 , 2]\n ",
      R"({"a":[1,2,{"b":null}],"c":"d"})",
  };
  for (auto text : texts) EXPECT_EQ(refusal(text), "") << text;
}

TEST(Json, texts_that_must_be_refused) {
  const std::string_view texts[] = {
      "",
      " ",
      "nul",
      "True",
      "nulll",
      "NaN",
      "Infinity",
      "-Infinity",
      "-",
      "+1",
      "01",
      "-01",
      "1.",
      ".5",
      "1.e1",
      "1e",
      "1e+",
      "0x1",
      "1_000",
      "1 2",
      "--1",
      "1a",
      "\xEF\xBC\x91",
      R"(")",
      R"("a)",
      "'a'",
      "a",
      R"("\x41")",
      R"("\u12")",
      R"("\u12G4")",
      R"("\)",
      R"("\a")",
      "\"\n\"",
      "\"\t\"",
      "\"a\x1F\"",
      "[",
      "]",
      "[1",
      "[1,",
      "[1,]",
      "[,1]",
      "[1,,2]",
      "[1 2]",
      "[1:2]",
      "[1}",
      "[\"a\":1]",
      "[a",
      "{",
      "}",
      "{]",
      R"({"a"})",
      R"({"a":})",
      R"({"a":1,})",
      R"({,"a":1})",
      R"({a:1})",
      R"({1:1})",
      R"({"a" 1})",
      R"({"a":1 "b":2})",
      R"({'a':1})",
      R"({"a"::1})",
      R"({"a":1)",
      "[]x",
      "{}{}",
      "[][]",
      "1]",
      "null,",
      "[1]//x",
      "/**/1",
      "[1]\xE2\x81\xA0",
      "\xC2\xA0[]",
      "\xEF\xBB\xBF{}",
      "\xFE\xFF",
      "1e400",
      "-1e400",
      "18446744073709551616",
      "-9223372036854775809",
      "100000000000000000000",
  };
  for (auto text : texts) EXPECT_NE(refusal(text), "") << text;
  for (std::string_view text :
       {std::string_view("\0", 1), std::string_view("[1]\0", 4), std::string_view("\"\0\"", 3)})
    EXPECT_NE(refusal(text), "") << text.size();
}

TEST(Json, invalid_utf8_is_refused) {
  for (const char* text : {"\"\xFF\"", "\"\xC0\x80\"", "\"\xED\xA0\x80\"", "\"\xE2\x82\"",
                           "\"\xF4\x90\x80\x80\"", "{\"\x80\":1}", "[\xFF]"})
    EXPECT_NE(refusal(text), "") << text;
}

TEST(Json, lone_surrogate_escapes_are_refused) {
  for (const char* text :
       {R"("\ud800")", R"("\udc00")", R"("\ud800\ud800")", R"("\ud800x")", R"("\udbff\u0041")",
        R"(["\udfffx"])", R"({"\udead":1})", R"({"a":{"b":["\uDC00"]}})"})
    EXPECT_NE(refusal(text), "") << text;
}

TEST(Json, duplicate_keys_are_refused) {
  EXPECT_EQ(refusal(R"({"a":1,"a":1})"), "$.a: duplicate field");
  EXPECT_EQ(refusal(R"([0,{"x":{"k y":1,"b":2,"k y":3}}])"), R"($[1].x["k y"]: duplicate field)");
  // The same key in two spellings is the same key.
  EXPECT_EQ(refusal(R"({"a":1,"\u0061":2})"), "$.a: duplicate field");
  EXPECT_EQ(refusal(R"({"":1,"":2})"), R"($[""]: duplicate field)");
  EXPECT_EQ(refusal(R"({"a":1,"A":2,"aa":3,"b":{"a":1}})"), "");
}

TEST(Json, depth_is_counted_exactly) {
  EXPECT_EQ(refusal(nested(64)), "");
  EXPECT_NE(refusal(nested(65)), "");
  EXPECT_NE(refusal(nested(100'000)), "");
  JsonLimits limits{.depth = 2};
  EXPECT_EQ(refusal("[[1],{}]", limits), "");
  EXPECT_EQ(refusal("[[1],{},[[]]]", limits), "$[2][0]: nested too deeply");
  EXPECT_EQ(refusal(R"({"a":{"b":{}}})", limits), "$.a.b: nested too deeply");
  EXPECT_EQ(refusal("1", {.depth = 0}), "");
  EXPECT_NE(refusal("[]", {.depth = 0}), "");
}

TEST(Json, size_limit_is_exact) {
  EXPECT_EQ(refusal("[1,2]", {.bytes = 5}), "");
  EXPECT_EQ(refusal("[1,2]", {.bytes = 4}), "$: too many bytes");
}

TEST(Json, values_are_read_without_conversion) {
  JsonReader reader;
  auto root = reader.parse(R"([1,-1,18446744073709551615,1.0,"1",true,null])");
  ASSERT_TRUE(root);
  std::vector<JsonValue> v;
  for (JsonValue item : *root->items()) v.push_back(item);
  ASSERT_EQ(v.size(), 7u);
  EXPECT_EQ(v[0].as_int(), 1);
  EXPECT_EQ(v[0].as_uint(), 1u);
  EXPECT_EQ(v[0].as_double(), 1.0);
  EXPECT_EQ(v[1].as_int(), -1);
  EXPECT_FALSE(v[1].as_uint());
  EXPECT_EQ(reader.detail(), "$[1]: out of range");
  EXPECT_EQ(v[2].as_uint(), 18446744073709551615u);
  EXPECT_FALSE(v[2].as_int());
  EXPECT_FALSE(v[3].as_int());
  EXPECT_EQ(reader.detail(), "$[3]: expected an integer");
  EXPECT_FALSE(v[4].as_int());
  EXPECT_FALSE(v[4].as_double());
  EXPECT_EQ(v[4].as_string(), "1");
  EXPECT_EQ(v[5].as_bool(), true);
  EXPECT_FALSE(v[5].as_string());
  EXPECT_EQ(v[6].kind(), JsonKind::null);
  EXPECT_FALSE(v[6].as_bool());
  EXPECT_FALSE(v[6].object());
  EXPECT_FALSE(root->fields());
}

TEST(Json, fields_come_in_the_order_of_the_text) {
  JsonReader reader;
  auto root = reader.parse(R"({"z":1,"a":{"q":[]},"m":3})");
  ASSERT_TRUE(root);
  std::string keys;
  for (JsonField field : *root->fields()) keys += field.key;
  EXPECT_EQ(keys, "zam");
}

TEST(Json, values_survive_a_move_of_the_reader) {
  JsonReader first;
  auto root = first.parse(R"({"a":"text"})");
  ASSERT_TRUE(root);
  JsonReader second = std::move(first);
  EXPECT_EQ(root->object()->required_string("a"), "text");
  EXPECT_FALSE(root->as_int());
  EXPECT_EQ(second.detail(), "$: expected an integer");
}

TEST(Json, a_reader_reads_again_after_a_refusal) {
  JsonReader reader;
  EXPECT_FALSE(reader.parse("["));
  auto root = reader.parse(std::string(4000, ' ') + "7");
  ASSERT_TRUE(root);
  EXPECT_EQ(reader.detail(), "");
  EXPECT_EQ(root->as_int(), 7);
}

TEST(JsonObject, a_closed_object_is_read_by_name) {
  JsonReader reader;
  auto items = read_items(reader, R"({"items":[{"size":3,"name":"a"},{"name":"b","pinned":true,"size":4}]})");
  ASSERT_TRUE(items) << reader.detail();
  ASSERT_EQ(items->size(), 2u);
  EXPECT_EQ((*items)[0].name, "a");
  EXPECT_EQ((*items)[0].pinned, std::nullopt);
  EXPECT_EQ((*items)[1].size, 4u);
  EXPECT_EQ((*items)[1].pinned, true);
}

TEST(JsonObject, unknown_and_missing_fields_are_refused_with_their_path) {
  EXPECT_EQ(item_refusal(R"({"items":[],"more":1})"), "$.more: unknown field");
  EXPECT_EQ(item_refusal(R"({"items":[{"name":"a","size":1},{"name":"a","size":1,"siez":2}]})"),
            "$.items[1].siez: unknown field");
  EXPECT_EQ(item_refusal(R"({"items":[{"name":"a"}]})"), "$.items[0].size: required field is missing");
  EXPECT_EQ(item_refusal("{}"), "$.items: required field is missing");
}

TEST(JsonObject, wrong_types_and_values_are_refused_with_their_path) {
  EXPECT_EQ(item_refusal(R"({"items":[{"name":"a","size":"1"}]})"), "$.items[0].size: expected an integer");
  EXPECT_EQ(item_refusal(R"({"items":[{"name":"a","size":-1}]})"), "$.items[0].size: out of range");
  EXPECT_EQ(item_refusal(R"({"items":[{"name":"","size":1}]})"), "$.items[0].name: is empty");
  EXPECT_EQ(item_refusal(R"({"items":[7]})"), "$.items[0]: expected an object");
  EXPECT_EQ(item_refusal(R"({"items":{}})"), "$.items: expected an array");
  EXPECT_EQ(item_refusal("[]"), "$: expected an object");
}

TEST(JsonObject, null_is_not_absence) {
  EXPECT_EQ(item_refusal(R"({"items":[{"name":"a","size":1,"pinned":null}]})"),
            "$.items[0].pinned: expected true or false");
}

TEST(JsonObject, more_than_64_fields_are_refused) {
  auto wide = [](int fields) {
    std::string text = "{";
    for (int i = 0; i < fields; ++i)
      text += (i ? ",\"f" : "\"f") + std::to_string(i) + "\":" + std::to_string(i);
    return text + "}";
  };
  for (int fields : {64, 65}) {
    JsonReader reader;
    auto root = reader.parse(wide(fields));
    ASSERT_TRUE(root);
    auto object = root->object();
    for (int i = 0; i < fields; ++i) EXPECT_EQ(object->required_int("f" + std::to_string(i)), i);
    EXPECT_EQ(object->finish().has_value(), fields == 64);
  }
}

TEST(JsonObject, the_detail_is_bounded_and_valid_utf8) {
  std::string key;
  for (int i = 0; i < 100; ++i) key += "\xE2\x82\xAC";
  std::string text = "1";
  for (int i = 0; i < 20; ++i) text = "{\"" + key + "\":" + text + "}";
  JsonReader reader;
  auto value = reader.parse(text);
  ASSERT_TRUE(value);
  for (int i = 0; i < 20; ++i) value = (*value->fields()->begin()).value;
  EXPECT_FALSE(value->as_bool());
  EXPECT_LE(reader.detail().size(), JsonReader::detail_max);
  EXPECT_TRUE(is_utf8(reader.detail()));
  EXPECT_TRUE(reader.detail().ends_with(": expected true or false")) << reader.detail();
}

}  // namespace cairn::codec
