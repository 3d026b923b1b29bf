#include "base/units.h"

#include <gtest/gtest.h>

namespace cairn {

TEST(Units, duration_text_round_trips) {
  for (const char* text : {"250ms", "5s", "1m", "2h", "30d", "7ns", "90s"})
    EXPECT_EQ(format_duration(*parse_duration(text)), text);
  EXPECT_EQ(parse_duration("5s")->ns, 5'000'000'000);
}

TEST(Units, anything_but_number_and_unit_is_refused) {
  for (const char* text :
       {"", "5", "s", "-5s", "5 s", "5S", "1.5s", "99999999999999999999s", "9223372036854775807s"})
    EXPECT_FALSE(parse_duration(text)) << text;
  for (const char* text : {"", "1", "1kib", "-1B", "1TiB", "18446744073709551615GiB"})
    EXPECT_FALSE(parse_bytes(text)) << text;
  EXPECT_FALSE(parse_rate("50MiB"));
}

TEST(Units, sizes_are_binary_or_decimal_as_written) {
  EXPECT_EQ(parse_bytes("64KiB")->count, 65536u);
  EXPECT_EQ(parse_bytes("64KB")->count, 64000u);
  EXPECT_EQ(format_bytes({1048576}), "1MiB");
  EXPECT_EQ(format_bytes({1000}), "1000B");
  EXPECT_EQ(parse_rate("50MiB/s")->bytes_per_second, 50u << 20);
}

TEST(Units, instants_saturate_at_never) {
  EXPECT_EQ(Instant::never() + Duration::seconds(1), Instant::never());
  EXPECT_EQ(Instant{5} + Duration{3}, Instant{8});
}

TEST(Units, known_dates) {
  EXPECT_EQ(format_http_date({784111777000}), "Sun, 06 Nov 1994 08:49:37 GMT");
  EXPECT_EQ(parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT")->ms, 784111777000);
  EXPECT_EQ(format_rfc3339({0}), "1970-01-01T00:00:00Z");
  EXPECT_EQ(parse_rfc3339("2000-02-29T23:59:59.25+01:00")->ms, 951865199250);
  for (const char* text : {"2001-02-29T00:00:00Z", "2000-13-01T00:00:00Z", "2000-01-01T24:00:00Z",
                           "2000-01-01T00:00:00", "2000-01-01T00:00:00.Z"})
    EXPECT_FALSE(parse_rfc3339(text)) << text;
  for (const char* text : {"Sunday, 06-Nov-94 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37 UTC", ""})
    EXPECT_FALSE(parse_http_date(text)) << text;
}

}  // namespace cairn
