// A request that a trusted peer passes on for its client.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/simulated_node.h"

namespace cairn::serve {
namespace {

using io::sim::Answer;
using testing::HasSubstr;

const std::string told = "Forwarded: for=192.0.2.7;host=\"a.example\";proto=https\r\n";
std::string guarded(std::string_view more) {
  return post("/guarded", "text", bearer({"ip = 192.0.2.0/24"}) + std::string(more));
}

TEST(Hop, the_client_of_a_trusted_peer_is_who_asks) {
  SimulatedNode sample({{"server.trusted", "::/0"}});
  EXPECT_EQ(sample.connect().ask(guarded(told)).status, 200);
  EXPECT_EQ(sample.connect().ask(guarded("")).status, 403);
  EXPECT_EQ(sample.connect().ask(guarded("Forwarded: for=192.0.2.7, for=198.51.100.1\r\n")).status, 403);
  EXPECT_EQ(sample.connect().ask(guarded("Forwarded: for=unknown\r\n")).status, 403);
}

TEST(Hop, who_is_not_trusted_may_say_what_he_likes) {
  SimulatedNode sample;
  EXPECT_EQ(sample.connect().ask(guarded(told)).status, 403);
  EXPECT_EQ(sample.connect().ask(get("/now/x", "Forwarded: nonsense\r\n")).status, 200);
}

TEST(Hop, a_trusted_peer_that_cannot_be_understood_is_refused) {
  SimulatedNode sample({{"server.trusted", "::/0"}});
  const Answer answer = sample.connect().ask(get("/now/x", "Forwarded: for=nonsense\r\n"));
  EXPECT_EQ(answer.status, 400);
  EXPECT_THAT(answer.body, HasSubstr("malformed"));
  EXPECT_EQ(sample.metric(R"(rejected_total{reason="head"})"), 1);
}

TEST(Hop, one_request_says_nothing_about_the_next_on_its_connection) {
  SimulatedNode sample({{"server.trusted", "::/0"}});
  io::sim::Guest guest = sample.connect();
  EXPECT_EQ(guest.ask(guarded(told)).status, 200);
  EXPECT_EQ(guest.ask(guarded("")).status, 403);
}

// A page that was rebound to this address could send the field, too.
TEST(Hop, the_host_is_checked_all_the_same) {
  SimulatedNode sample({{"server.trusted", "::/0"}}, {.bind = "localhost"});
  EXPECT_EQ(sample.connect().ask("GET /now/x HTTP/1.1\r\nHost: rebound.example\r\n" + told + "\r\n").status,
            421);
  EXPECT_EQ(sample.connect().ask("GET /now/x HTTP/1.1\r\nHost: localhost\r\n" + told + "\r\n").status, 200);
}

}  // namespace
}  // namespace cairn::serve
