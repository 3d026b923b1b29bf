// The pipeline under HTTP/2: the same answers, limits and counts as under HTTP/1.1.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/h2/simulated_guest.h"
#include "serve/simulated_node.h"

namespace cairn::serve {
namespace {

using http::h2::H2Guest;
using testing::HasSubstr;
using testing::StartsWith;

// A sample whose peers have agreed upon HTTP/2.
struct H2Sample {
  explicit H2Sample(SettingTexts settings = {}) : sample(std::move(settings)) {
    sample.world.network().protocol = "h2";
  }
  H2Guest connect() { return H2Guest(sample.world, sample.away, {"host", SimulatedNode::port, {}}); }
  SimulatedNode sample;
};

TEST(H2, every_way_to_run_answers) {
  H2Sample h2;
  H2Guest guest = h2.connect();
  const auto now = guest.get("/now/x"), later = guest.get("/later"), throws = guest.get("/throw"),
             health = guest.get("/healthz"), none = guest.get("/none"), wrong = guest.ask("POST", "/later"),
             echo = guest.ask("POST", "/echo", std::string(100'000, 'e')),
             staged = guest.ask("POST", "/staged", std::string(100'000, 's')),
             head = guest.ask("HEAD", "/now/x", {}, true, {{"x-corr-id", "chosen-by-client"}});
  EXPECT_EQ(guest.wait(now).body, "x");
  EXPECT_EQ(guest.wait(later).body, "done");
  EXPECT_EQ(guest.wait(throws).status, 500);
  EXPECT_EQ(guest.wait(health).body, "ok\n");
  EXPECT_EQ(guest.wait(none).status, 404);
  EXPECT_EQ(guest.wait(wrong).status, 405);
  EXPECT_EQ(guest.reply(wrong).field("allow"), "GET");
  EXPECT_EQ(guest.wait(echo).body, std::string(100'000, 'e'));
  EXPECT_EQ(guest.wait(staged).body, std::string(100'000, 's'));
  EXPECT_EQ(guest.wait(head).field("x-corr-id"), "chosen-by-client");
  EXPECT_EQ(guest.reply(head).body, "");
  EXPECT_EQ(guest.goaway, std::nullopt);
  EXPECT_EQ(h2.sample.service.state.staged, 0);
}

TEST(H2, limits_of_requests_hold_for_each_stream) {
  H2Sample h2({{"server.max_inflight", "2"}, {"limits.max_body_bytes", "10B"}});
  H2Guest guest = h2.connect();
  const auto first = guest.get("/job/50"), second = guest.get("/job/50"), third = guest.get("/job/50");
  EXPECT_EQ(guest.wait(third).status, 429);
  EXPECT_EQ(guest.wait(first).status, 200);
  EXPECT_EQ(guest.wait(second).status, 200);
  EXPECT_EQ(guest.wait(guest.ask("POST", "/echo", "more than ten")).status, 413);
  EXPECT_EQ(guest.wait(guest.ask("POST", "/echo", "few")).body, "few");
}

TEST(H2, open_streams_beyond_the_first_take_places_of_connections) {
  H2Sample h2({{"server.max_conns", "2"}});
  H2Guest guest = h2.connect();
  const auto first = guest.get("/events"), second = guest.get("/events"), third = guest.get("/events");
  EXPECT_EQ(guest.wait(third).status, 429);
  ASSERT_TRUE(guest.until([&] { return guest.reply(second).body.ends_with("data: {}\n\n"); }));
  EXPECT_EQ(guest.reply(first).status, 200);
  {
    H2Guest other = h2.connect();
    EXPECT_EQ(other.wait(other.get("/now/x")).status, 429) << "both places are taken";
  }
  guest.reset(second);
  guest.run_for(Duration::millis(10));
  EXPECT_EQ(h2.sample.service.state.open, 1);
  H2Guest other = h2.connect();
  EXPECT_EQ(other.wait(other.get("/now/x")).status, 200);
}

TEST(H2, a_reset_request_is_stopped_and_leaves_its_place) {
  H2Sample h2({{"server.max_inflight", "1"}});
  H2Guest guest = h2.connect();
  const auto id = guest.get("/job/5000");
  guest.run_for(Duration::millis(10));
  guest.reset(id);
  guest.run_for(Duration::millis(10));
  EXPECT_THAT(h2.sample.service.state.stops, testing::ElementsAre(StopReason::client_gone));
  EXPECT_EQ(guest.wait(guest.get("/now/x")).body, "x");
}

TEST(H2, refused_heads_are_errors_like_any_other) {
  H2Sample h2;
  H2Guest guest = h2.connect();
  const http::h2::Reply& reply = guest.wait(guest.get("/now/x", {{"host", "other"}}));
  EXPECT_EQ(reply.status, 400);
  EXPECT_THAT(reply.body, StartsWith(R"({"error":{"code":"malformed")"));
  EXPECT_THAT(reply.body, HasSubstr(reply.fields.at("x-corr-id")));
}

}  // namespace
}  // namespace cairn::serve
