#include "codec/media_type.h"

#include <gtest/gtest.h>

#include <string>

namespace cairn::codec {
namespace {

using namespace std::literals;

TEST(MediaType, what_could_end_a_line_is_none) {
  for (const std::string_view good : {"text/plain"sv, "text/html; charset=utf-8"sv, "x"sv, "a/b;c=\"d e\""sv})
    EXPECT_TRUE(is_media_type(good)) << good;
  EXPECT_TRUE(is_media_type(std::string(255, 'a')));
  for (const std::string_view bad :
       {""sv, "a/b\r\nX: y"sv, "a\nb"sv, "a\tb"sv, "a\0b"sv, "a\x7f"sv, "a/\xc3\xa9"sv, " a/b"sv, "a/b "sv})
    EXPECT_FALSE(is_media_type(bad)) << bad;
  EXPECT_FALSE(is_media_type(std::string(256, 'a')));
}

TEST(MediaType, whatever_a_browser_may_run_is_active) {
  for (const char* active :
       {"text/html", "TEXT/HTML", "text/html;charset=utf-8", "application/xhtml+xml", "image/svg+xml",
        "application/xml", "text/xml", "text/xsl", "application/xslt+xml", "application/rss+xml", "x/y+xml",
        "text/plain, text/html", "text/plain;text/html", "multipart/x-mixed-replace; boundary=a"})
    EXPECT_TRUE(is_active_type(active)) << active;
  for (const char* inert : {"", "text/plain", "application/octet-stream", "image/png", "application/json",
                            "text/javascript", "text/css", "application/pdf", "video/mp4"})
    EXPECT_FALSE(is_active_type(inert)) << inert;
}

}  // namespace
}  // namespace cairn::codec
