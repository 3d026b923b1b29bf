#include "serve/origin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/simulated_node.h"

namespace cairn::serve {
namespace {

using io::sim::Answer;
using testing::HasSubstr;

std::string to(std::string_view host, std::string_view path = "/now/x") {
  return fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", path, host);
}
std::string from(std::string_view origin, std::string_view method = "POST", std::string_view host = "h:80") {
  return fmt::format("{} /echo HTTP/1.1\r\nHost: {}\r\nOrigin: {}\r\nContent-Length: 2\r\n\r\nhi", method,
                     host, origin);
}
SimulatedNode::Shape on_loopback() { return {.bind = "localhost"}; }

TEST(Origin, loopback_names_are_those_that_nobody_else_can_own) {
  for (const char* name : {"localhost", "LocalHost", "a.localhost", "127.0.0.1", "127.255.0.3", "::1"})
    EXPECT_TRUE(is_loopback_name(name)) << name;
  for (const char* name : {"", "h", "localhost.example", "xlocalhost", ".localhost", "128.0.0.1",
                           "127.0.0.1.example", "0.0.0.0", "::2", "127.1.example"})
    EXPECT_FALSE(is_loopback_name(name)) << name;
  EXPECT_FALSE(is_loopback_name(std::string(200, '1')));
}

// OR-1
TEST(Origin, a_listener_on_loopback_answers_to_no_foreign_name) {
  SimulatedNode sample({{"server.names", "store.example,10.1.2.3"}}, on_loopback());
  for (const char* host : {"localhost", "LOCALHOST:7410", "localhost.", "127.0.0.1:1", "[::1]:80",
                           "a.localhost", "store.example", "Store.Example:99", "10.1.2.3"})
    EXPECT_EQ(sample.connect().ask(to(host)).status, 200) << host;
  for (const char* host :
       {"rebound.example", "localhost.rebound.example", "x.store.example", "10.1.2.4", "[::2]"}) {
    const Answer answer = sample.connect().ask(to(host));
    EXPECT_EQ(answer.status, 421) << host;
    EXPECT_THAT(answer.body, HasSubstr(R"("code":"misdirected")"));
    EXPECT_THAT(answer.body, HasSubstr("server.names"));
  }
  EXPECT_EQ(sample.connect()
                .ask("GET http://rebound.example/now/x HTTP/1.1\r\nHost: rebound.example\r\n\r\n")
                .status,
            421);
  EXPECT_EQ(sample.connect().ask("GET http://rebound.example/now/x HTTP/1.0\r\n\r\n").status, 421);
}

// OR-1
TEST(Origin, health_and_those_who_cannot_say_a_name_pass) {
  SimulatedNode sample({}, on_loopback());
  for (const char* path : {"/healthz", "/readyz", "/version", "/metrics"})
    EXPECT_EQ(sample.connect().ask(to("10.9.8.7:80", path)).status, 200) << path;
  EXPECT_EQ(sample.connect().ask("GET /now/x HTTP/1.0\r\n\r\n").body, "x");
  EXPECT_EQ(sample.connect().ask(to("h", "/debug/topology")).status, 421);
}

// OR-1
TEST(Origin, elsewhere_any_name_is_answered_unless_names_are_given) {
  SimulatedNode any;
  EXPECT_EQ(any.connect().ask(to("whatever.example")).status, 200);
  SimulatedNode named({{"server.names", "store.example"}, {"server.bind", "10.0.0.1:80"}});
  EXPECT_EQ(named.connect().ask(to("store.example")).status, 200);
  EXPECT_EQ(named.connect().ask(to("10.0.0.1:80")).status, 200);
  EXPECT_EQ(named.connect().ask(to("localhost")).status, 200);
  EXPECT_EQ(named.connect().ask(to("whatever.example")).status, 421);
}

// OR-2
TEST(Origin, a_foreign_page_changes_nothing) {
  SimulatedNode sample({{"cors.origins", "https://app.example,other.example:8080"}});
  for (const char* own : {"http://h:80", "https://H:80", "https://app.example", "http://other.example:8080"})
    EXPECT_EQ(sample.connect().ask(from(own)).body, "hi") << own;
  for (const char* foreign :
       {"null", "", "http://h", "http://h:81", "http://app.example", "https://app.example:444",
        "https://evil.example", "h:80", "https://app.example.evil", "http://h:80.evil"}) {
    const Answer answer = sample.connect().ask(from(foreign));
    EXPECT_EQ(answer.status, 403) << foreign;
    EXPECT_THAT(answer.body, HasSubstr(R"("code":"forbidden")"));
  }
  // Said twice is said by nobody.
  EXPECT_EQ(sample.connect().ask(from("http://h:80\r\nOrigin: http://h:80")).status, 403);
  // What changes nothing may be asked by anybody.
  EXPECT_EQ(sample.connect().ask(get("/now/x", "Origin: https://evil.example\r\n")).status, 200);
  EXPECT_EQ(sample.service.state.started, 4);
}

// OR-2
TEST(Origin, a_foreign_page_opens_no_websocket) {
  SimulatedNode sample({{"cors.origins", "https://app.example"}});
  const std::string asks = "Connection: Upgrade\r\nUpgrade: websocket\r\n";
  for (const char* own : {"Origin: http://h\r\n", "Origin: https://app.example\r\n", ""})
    EXPECT_EQ(sample.connect().ask(get("/now/x", asks + own)).status, 200) << own;
  for (const char* foreign : {"Origin: https://evil.example\r\n", "Origin: null\r\n",
                              "Origin: http://h:81\r\n", "Origin: http://h\r\nOrigin: http://h\r\n"})
    EXPECT_EQ(sample.connect().ask(get("/now/x", asks + foreign)).status, 403) << foreign;
}

}  // namespace
}  // namespace cairn::serve
