#include "http/path.h"

#include <gtest/gtest.h>

#include <string>

namespace cairn::http {
namespace {

Result<std::string> decoded(std::string_view raw) {
  std::string room;
  TRY(auto path, decode_path(raw, room));
  return std::string(path);
}

}  // namespace

TEST(Path, what_is_in_normal_form_passes_unchanged_without_a_copy) {
  for (const char* raw :
       {"/", "/a", "//", "/a//b", "/o/b3:00", "/a.b", "/a/...", "/.a", "/..a", "/a./b..", "/a b|{}"}) {
    std::string room;
    const auto path = decode_path(raw, room);
    ASSERT_TRUE(path) << raw;
    EXPECT_TRUE(room.empty()) << raw;
    EXPECT_EQ(path->data(), raw);
    EXPECT_EQ(*path, raw);
  }
}

TEST(Path, escapes_are_decoded_once) {
  const std::pair<const char*, const char*> rows[] = {{"/%41", "/A"},
                                                      {"/a%20b", "/a b"},
                                                      {"/%c3%a9", "/\xc3\xa9"},
                                                      {"/%F0%9F%98%80", "/\xf0\x9f\x98\x80"},
                                                      {"/100%25", "/100%"},
                                                      {"/%25zz", "/%zz"},
                                                      {"/%2ea", "/.a"},
                                                      {"/a%2e%2e", "/a.."},
                                                      {"/%ed%9f%bf", "/\xed\x9f\xbf"}};
  for (const auto& [raw, path] : rows) EXPECT_EQ(decoded(raw).value_or("refused"), path) << raw;
}

TEST(Path, what_could_be_read_twice_is_refused) {
  for (const char* raw : {"",
                          "a",
                          "*",
                          "/%2F",
                          "/%2f",
                          "/a%2fb",
                          "/%00",
                          "/%",
                          "/%4",
                          "/%4g",
                          "/%g4",
                          "/%%41",
                          "/a%0a",
                          "/%7f",
                          "/%1F",
                          "/.",
                          "/..",
                          "/../a",
                          "/a/..",
                          "/a/../b",
                          "/a/./b",
                          "/a/.",
                          "/%2e",
                          "/%2e%2E",
                          "/.%2e/a",
                          "/a/%2e%2e/b",
                          "/a\\b",
                          "/a%5cb",
                          "/%5C",
                          "/%252e",
                          "/%2541",
                          "/%252f",
                          "/\x01",
                          "/\x7f",
                          "/\xc3\xa9",
                          "/%c3",
                          "/%c0%ae",
                          "/%e0%80%ae",
                          "/%ed%a0%80",
                          "/%f4%90%80%80",
                          "/%f5%80%80%80",
                          "/%80",
                          "/0123456789abcdef0123456789abcdef/..",
                          "/0123456789abcd/.."}) {
    const auto path = decoded(raw);
    ASSERT_FALSE(path) << raw;
    EXPECT_EQ(path.error().code, ErrorCode::malformed);
  }
}

TEST(Path, a_bad_byte_is_found_wherever_it_stands) {
  for (std::size_t size = 1; size < 70; ++size)
    for (std::size_t at = 1; at < size; ++at)
      for (const char c : {'\\', '\x1f', '\0', '\x7f', '\x80'}) {
        std::string raw = "/" + std::string(size - 1, 'a');
        raw[at] = c;
        EXPECT_FALSE(decoded(raw)) << size << ' ' << at;
      }
}

}  // namespace cairn::http
