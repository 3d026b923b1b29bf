#include "services/storage/endpoints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cairn::storage {
namespace {

using format::Endpoint;
using testing::ElementsAre;
using testing::IsEmpty;

Endpoint at(const char* text) { return *parse_announced(text); }
std::vector<IpBytes> machine(std::initializer_list<const char*> texts) {
  std::vector<IpBytes> all;
  for (const char* text : texts) all.push_back(*parse_ip(text));
  return all;
}

TEST(Endpoints, an_address_that_the_service_is_bound_to_is_the_one) {
  EXPECT_THAT(choose_endpoints({"10.1.2.3:7410"}, machine({"10.1.2.3", "10.9.9.9"})),
              ElementsAre(at("10.1.2.3:7410")));
  EXPECT_THAT(choose_endpoints({"127.0.0.1:7410", true}, {}), ElementsAre(at("https://127.0.0.1:7410")));
  EXPECT_THAT(choose_endpoints({"[2001:db8::1]:7410"}, {}), ElementsAre(at("[2001:db8::1]:7410")));
}

TEST(Endpoints, of_a_wildcard_they_are_the_machines_that_others_reach) {
  const auto all = machine({"127.0.0.1", "10.1.2.3", "169.254.1.1", "::1", "2001:db8::1", "fe80::1",
                            "10.1.2.3", "0.0.0.0", "ff02::1"});
  EXPECT_THAT(choose_endpoints({"[::]:80"}, all), ElementsAre(at("10.1.2.3:80"), at("[2001:db8::1]:80")));
  EXPECT_THAT(choose_endpoints({"0.0.0.0:80"}, all), ElementsAre(at("10.1.2.3:80")));
}

TEST(Endpoints, loopback_is_announced_only_by_a_machine_without_another_address) {
  EXPECT_THAT(choose_endpoints({"0.0.0.0:80"}, machine({"127.0.0.1", "fe80::1", "169.254.0.9"})),
              ElementsAre(at("127.0.0.1:80")));
}

TEST(Endpoints, there_are_at_most_as_many_as_a_record_has_room_for) {
  std::vector<IpBytes> many;
  for (std::uint8_t i = 1; i <= 20; ++i) {
    many.push_back(*parse_ip("10.0.0.1"));
    many.back()[15] = i;
  }
  EXPECT_EQ(choose_endpoints({"0.0.0.0:80"}, many).size(), format::endpoints_max);
}

TEST(Endpoints, a_service_that_is_bound_nowhere_has_none) {
  for (const char* text : {"", "host.example:80", "10.0.0.1:0", "unix:/tmp/x"})
    EXPECT_THAT(choose_endpoints({text}, machine({"10.0.0.1"})), IsEmpty()) << text;
}

TEST(Endpoints, only_an_ip_address_with_a_port_can_be_announced) {
  for (const char* text : {"", "10.0.0.1", "10.0.0.1:0", "host:80", "https://host:80", "unix:/x",
                           "0.0.0.0:80", "https://[::]:80", "10.0.0.1:80/x"})
    EXPECT_FALSE(parse_announced(text)) << text;
  EXPECT_TRUE(parse_announced("https://10.0.0.1:443")->tls);
  EXPECT_FALSE(parse_announced("10.0.0.1:443")->tls);
  EXPECT_EQ(parse_announced("https://[2001:db8::1]:7410")->port, 7410);
}

}  // namespace
}  // namespace cairn::storage
