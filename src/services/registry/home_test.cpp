#include "services/registry/home.h"

#include <gtest/gtest.h>

#include "services/registry/simulated_registry.h"

namespace cairn::registry {
namespace {

TEST(Home, a_registry_that_is_dropped_unclosed_says_so) {
  observe::Log log({.level = observe::Level::debug}, [] { return WallTime{}; });
  SimulatedRegistry place;
  place.log = observe::Logger(log, 0);
  const auto told = [&] {
    std::string text;
    log.drain([&](std::string_view lines) {
      text += lines;
      return true;
    });
    return text.find("dropped unclosed") != text.npos;
  };
  ASSERT_TRUE(place.open());
  place.stop();
  EXPECT_TRUE(told());
  ASSERT_TRUE(place.open());
  ASSERT_TRUE(place.close());
  EXPECT_FALSE(told());
}

}  // namespace
}  // namespace cairn::registry
