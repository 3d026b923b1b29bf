// WebSockets through the gateway: to a service of the same process, to the same service over a connection,
// and to one that answers badly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/websocket/client_frames.h"
#include "services/gateway/simulated_gateway.h"

namespace cairn::gateway {
namespace {

using http::websocket::client_close;
using http::websocket::client_frame;
using http::websocket::Opcode;
using http::websocket::read_server_frames;
using http::websocket::ServerFrame;
using io::sim::Answer;
using io::sim::Guest;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::string_view asks =
    "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n";
constexpr std::string_view key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

std::string opening(std::string_view path = "/registry/stream") {
  return get(path, std::string(asks).append(key));
}
std::vector<ServerFrame> frames(Guest& guest) { return read_server_frames(guest.got()).value(); }
bool until(Guest& guest, std::size_t count) {
  return guest.until([&] { return frames(guest).size() >= count; }, Duration::seconds(5));
}

// With the service behind in the same process, or not.
class Conversed : public testing::TestWithParam<bool> {
 protected:
  void open(Guest& guest) {
    guest.send(opening());
    const Answer answer = guest.answer();
    EXPECT_EQ(answer.status, 101);
    EXPECT_EQ(answer.field("Sec-WebSocket-Accept"), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    EXPECT_EQ(gateway.plain.state.talks, 1);
  }
  bool is_gone_behind() {
    return gateway.world.run_until([&] { return gateway.plain.state.talks == 0; }, Duration::seconds(10));
  }
  SimulatedGateway gateway{{.over_connection = !GetParam(),
                            .settings = {{"timeouts.request", "1s"}, {"quota.bytes_per_day", "290KiB"}}}};
};

INSTANTIATE_TEST_SUITE_P(Ways, Conversed, testing::Values(true, false));

TEST_P(Conversed, messages_pings_and_a_close_pass_and_it_lasts) {
  Guest guest = gateway.connect();
  open(guest);
  guest.send(client_frame(Opcode::text, "one"));
  ASSERT_TRUE(until(guest, 1));
  guest.run_for(Duration::seconds(10));
  guest.send(client_frame(Opcode::text, std::string(50'000, 'x')));
  ASSERT_TRUE(until(guest, 2));
  guest.send(client_frame(Opcode::ping, "p"));
  ASSERT_TRUE(until(guest, 3));
  EXPECT_THAT(frames(guest), ElementsAre(ServerFrame{Opcode::text, "one"},
                                         ServerFrame{Opcode::text, std::string(50'000, 'x')},
                                         ServerFrame{Opcode::pong, "p"}));
  guest.send(client_close(3000));
  ASSERT_TRUE(guest.until_ended(Duration::seconds(5)));
  EXPECT_FALSE(guest.broken());
  EXPECT_EQ(frames(guest).back().code(), 3000);
  guest.close();
  EXPECT_TRUE(is_gone_behind());
}

TEST_P(Conversed, a_client_that_leaves_is_gone_behind_too) {
  for (const bool reset : {false, true}) {
    Guest guest = gateway.connect();
    open(guest);
    guest.close(reset);
    EXPECT_TRUE(is_gone_behind());
  }
}

TEST_P(Conversed, what_the_client_is_told_is_counted_as_it_goes) {
  Guest guest = gateway.connect();
  open(guest);
  for (std::size_t i = 1; i <= 6; ++i) {
    guest.send(client_frame(Opcode::text, std::string(50'000, 'x')));
    ASSERT_TRUE(until(guest, i));
  }
  EXPECT_EQ(gateway.metric(R"(drr_served_units_total{tenant="other"})"), 4) << "beyond the first 64 KiB";
  Guest other = gateway.connect();
  EXPECT_EQ(other.ask(get("/o/object")).status, 429) << "the bytes of the day are used up";
  guest.close();
  EXPECT_TRUE(is_gone_behind());
}

TEST_P(Conversed, another_path_answers_as_usual) {
  Guest guest = gateway.connect();
  EXPECT_EQ(guest.ask(opening("/o/object")).body, gateway.plain.state.object);
  EXPECT_EQ(guest.ask(opening("/o/none-such")).status, 404);
  EXPECT_EQ(guest.ask(get("/o/object", asks)).status, 200) << "and does not miss the key";
  EXPECT_EQ(guest.ask(get("/o/object")).body, gateway.plain.state.object) << "the connection goes on";
  EXPECT_THAT(gateway.plain.state.fields, testing::Not(HasSubstr("Upgrade")));
}

TEST_P(Conversed, a_handshake_that_is_not_one_is_refused) {
  EXPECT_EQ(gateway.ask(get("/registry/stream", asks)).status, 400) << "no key";
  const Answer old = gateway.ask(
      get("/registry/stream", std::string(key).append("Connection: Upgrade\r\nUpgrade: websocket\r\n"
                                                      "Sec-WebSocket-Version: 8\r\n")));
  EXPECT_EQ(old.status, 426);
  EXPECT_EQ(old.field("Sec-WebSocket-Version"), "13");
  EXPECT_EQ(gateway.plain.state.talks, 0);
}

TEST_P(Conversed, draining_closes_it_with_1001) {
  Guest guest = gateway.connect();
  open(guest);
  gateway.drain(Duration::seconds(5));
  ASSERT_TRUE(until(guest, 1));
  EXPECT_EQ(frames(guest).back().code(), 1001);
  guest.send(client_close(1001));
  EXPECT_TRUE(guest.until_ended(Duration::seconds(5)));
  guest.close();
  EXPECT_TRUE(is_gone_behind());
}

// A gateway before a scripted upstream. The world's tasks use the upstream.
struct Scripted {
  explicit Scripted(ScriptedUpstream::Reply reply)
      : upstream(gateway.world, gateway.behind, SimulatedGateway::behind_port, at_head(std::move(reply))) {}
  ~Scripted() {
    gateway.drain(Duration::millis(1));
    gateway.world.run_until([this] { return gateway.ended; });
    gateway.world.crash(gateway.behind);
  }
  Scripted(const Scripted&) = delete;
  Scripted& operator=(const Scripted&) = delete;
  SimulatedGateway gateway{{.inside = false}};
  ScriptedUpstream upstream;
};

constexpr char agrees[] =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

TEST(ConversedOutside, the_handshake_reaches_the_service_whole) {
  Scripted world({.bytes = std::string(agrees) + "\x81\x02hi"});
  Guest guest = world.gateway.connect();
  guest.send(opening());
  EXPECT_EQ(guest.answer().status, 101);
  ASSERT_TRUE(until(guest, 1));
  EXPECT_THAT(frames(guest), ElementsAre(ServerFrame{Opcode::text, "hi"}));
  const std::string seen = world.upstream.last();
  for (const std::string_view line :
       {std::string_view("Upgrade: websocket\r\n"), std::string_view("Sec-WebSocket-Version: 13\r\n"), key})
    EXPECT_THAT(seen, HasSubstr(line));
  guest.close();
}

TEST(ConversedOutside, an_answer_that_does_not_switch_is_passed_as_one) {
  Scripted world({.bytes = "HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno"});
  EXPECT_EQ(world.gateway.ask(opening()).body, "no");
}

TEST(ConversedOutside, a_service_that_breaks_off_breaks_off_its_client) {
  for (const auto then : {ScriptedUpstream::Reply::Then::close, ScriptedUpstream::Reply::Then::reset}) {
    Scripted world(
        {.bytes = std::string(agrees) + "\x81\x02hi", .then = then, .pause = Duration::millis(10)});
    Guest guest = world.gateway.connect();
    guest.send(opening());
    EXPECT_EQ(guest.answer().status, 101);
    EXPECT_TRUE(guest.until([&] { return guest.ended() || guest.broken(); }, Duration::seconds(5)));
    guest.close();
  }
}

TEST(ConversedOutside, nobody_is_switched_who_has_not_asked) {
  Scripted world({.bytes = agrees});
  EXPECT_EQ(world.gateway.ask(get("/registry/stream")).status, 502);
}

}  // namespace
}  // namespace cairn::gateway
