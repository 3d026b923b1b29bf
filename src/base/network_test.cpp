#include "base/network.h"

#include <gtest/gtest.h>

namespace cairn {
namespace {

TEST(Network, an_address_reads_as_it_is_written) {
  for (const char* text : {"0.0.0.0", "10.0.0.1", "255.255.255.255", "::", "::1", "2001:db8::1",
                           "2001:db8:1111:2222:3333:4444:5555:6666"}) {
    const auto ip = parse_ip(text);
    ASSERT_TRUE(ip) << text;
    EXPECT_EQ(format_ip(*ip), text);
  }
  EXPECT_EQ(format_ip(*parse_ip("::ffff:10.0.0.1")), "10.0.0.1");
}

TEST(Network, what_is_no_address_is_none) {
  for (const char* text : {"", "1", "10.0.0", "10.0.0.256", "10.0.0.1/32", "[::1]", "fe80::1%eth0", "host",
                           ":", "10.0.0.1 ", "0000:0000:0000:0000:0000:0000:0000:0000:0000:0000"})
    EXPECT_FALSE(parse_ip(text)) << text;
}

}  // namespace
}  // namespace cairn
