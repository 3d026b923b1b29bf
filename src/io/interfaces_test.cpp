#include "io/interfaces.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cairn::io {
namespace {

TEST(Interfaces, a_machine_has_its_loopback_address) {
  EXPECT_THAT(interface_addresses(), testing::Contains(*parse_ip("127.0.0.1")));
}

}  // namespace
}  // namespace cairn::io
