// A connection that goes on with another protocol: both directions, and every way in which it ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "http/conversation.h"
#include "http/h1/server.h"
#include "io/sim/guest.h"
#include "runtime/wait.h"

namespace cairn::http {
namespace {

using io::sim::Answer;
using io::sim::Guest;
using testing::HasSubstr;
using testing::Not;

constexpr std::uint16_t port = 80;

// What the conversations do, and what the tests see of them.
struct Script {
  ~Script() {
    EXPECT_EQ(alive, 0);
    EXPECT_EQ(listening, 0);
  }
  bool floods = false;  // there is always more to say
  bool speaks_when_told = true;
  bool ignores_draining = false;
  bool listener_throws = false, source_throws = false, source_fails = false;
  std::string said;  // to be sent once, and then nothing more until `over`
  std::string goodbye;
  bool over = false;
  WaitList waiting;  // the sources

  std::string heard;
  int drained = 0, alive = 0, listening = 0;
  std::vector<StopReason> stops;  // of the listeners
  std::vector<ErrorCode> broken;
  bool heard_end = false;

  void wake_all() {
    while (!waiting.empty()) wake(waiting.front());
  }
};

class Echo final : public Conversation {
 public:
  explicit Echo(Script& script) : script_(script) { ++script_.alive; }
  ~Echo() override { --script_.alive; }

  Task<Result<io::Piece>> next(Call call) override {
    for (;;) {
      if (script_.source_throws) throw std::runtime_error("next");
      if (script_.source_fails) co_return fail(ErrorCode::integrity, "source");
      if (script_.floods) co_return io::Piece::memory(as_bytes(flood_));
      if (!script_.said.empty()) {
        now_ = std::exchange(script_.said, {});
        co_return io::Piece::memory(as_bytes(now_));
      }
      if (script_.over) co_return io::Piece();
      CO_TRY_VOID(co_await ListWait(call, script_.waiting, "word"));
    }
  }
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): outlives the listener
  Task<> listen(Call call, RequestBody& arriving) override {
    ++script_.listening;
    for (;;) {
      const auto slice = co_await arriving.next(call);
      if (!slice && call.stopped()) script_.stops.push_back(slice.error().stop);
      if (!slice && !call.stopped()) script_.broken.push_back(slice.error().code);
      script_.heard_end = slice && slice->empty();
      if (!slice || slice->empty()) break;
      script_.heard += as_text(slice->bytes());
      if (script_.listener_throws) throw std::runtime_error("listen");
    }
    --script_.listening;
  }
  void drain() noexcept override {
    ++script_.drained;
    if (script_.ignores_draining) return;
    script_.floods = false;
    script_.said = script_.goodbye;
    script_.over = true;
  }

 private:
  Script& script_;
  std::string now_;
  const std::string flood_ = std::string(1000, 'f');
};

// Switches wherever it is asked to at /switch, and at /always even if it is not.
class Desk final : public Gate, public Answerer {
 public:
  explicit Desk(Script& script) : script_(script) {}
  Next begin(Exchange& exchange) override {
    Response& response = exchange.response;
    const std::string_view path = exchange.request().path();
    exchange.stays_open = true;
    asked.emplace_back(exchange.upgrade);
    if (path == "/always" || (path == "/switch" && !exchange.upgrade.empty())) {
      response.add_field("X-Word", "yes");
      response.switch_to(std::make_unique<Echo>(script_));
    } else {
      response.text = path;
      response.answer_text("text/plain");
    }
    return Next::answered;
  }
  Task<> handle(Call, Exchange&) override { co_return; }
  void refuse(Exchange& exchange, Error error) override {
    exchange.response.status = status_of(error.code);
    exchange.response.answer_view("text/plain", "refused");
  }
  void finished(Exchange&, bool whole) override { complete.push_back(whole); }
  Admission admit(const io::PeerAddress&, bool) override { return Admission::welcome; }
  void left(const io::PeerAddress&, Admission) override {}
  void timed_out(Slow) override { ++slow; }
  void broke(const char* what) noexcept override { problems.emplace_back(what); }

  std::vector<std::string> asked;
  std::vector<bool> complete;
  std::vector<std::string> problems;
  int slow = 0;

 private:
  Script& script_;
};

std::string request(std::string_view path, std::string_view fields, std::string_view start = "GET",
                    std::string_view version = "HTTP/1.1") {
  return std::string(start).append(" ").append(path).append(" ").append(version) + "\r\nHost: h\r\n" +
         std::string(fields) + "\r\n";
}
constexpr std::string_view asks = "Connection: Upgrade\r\nUpgrade: websocket\r\n";

class SwitchTest : public testing::Test {
 protected:
  SwitchTest() {
    ShardScope here(host.shard());
    EXPECT_TRUE(server.listen({"host", port, {}}).has_value());
    server.start(host.scope());
  }
  void TearDown() override { world.stop(); }
  Guest connect() { return Guest(world, away, {"host", port, {}}); }
  void say(std::string text) {
    ShardScope here(host.shard());
    script.said = std::move(text);
    script.wake_all();
  }
  void drain() {
    ShardScope here(host.shard());
    server.drain();
  }
  bool gone(Duration within = Duration::seconds(10)) {
    return world.run_until([&] { return server.connections() == 0; }, within);
  }

  io::sim::World world{1};
  io::sim::Node& host = world.add_node("host");
  io::sim::Node& away = world.add_node("away");
  io::Machine machine = host.machine();
  Script& script = host.make<Script>();
  Desk desk{script};
  Server& server = host.make<Server>(machine, desk, desk, ServerOptions{});
};

TEST_F(SwitchTest, the_answer_is_101_and_what_follows_is_carried_as_it_is) {
  script.said = "hello";
  Guest guest = connect();
  guest.send(request("/switch", asks) + "first");
  const Answer answer = guest.answer();
  EXPECT_EQ(answer.status, 101);
  EXPECT_EQ(answer.field("Connection"), "Upgrade");
  EXPECT_EQ(answer.field("Upgrade"), "websocket");
  EXPECT_EQ(answer.field("X-Word"), "yes");
  for (const char* none : {"Content-Length", "Transfer-Encoding", "Content-Type"})
    EXPECT_EQ(answer.field(none), std::nullopt) << none;
  EXPECT_TRUE(guest.until([&] { return guest.got() == "hello" && script.heard == "first"; }));
  guest.send("GET / HTTP/1.1\r\n\r\n");
  EXPECT_TRUE(guest.until([&] { return script.heard == "firstGET / HTTP/1.1\r\n\r\n"; }));
  say("more");
  EXPECT_TRUE(guest.until([&] { return guest.got() == "hellomore"; }));
  EXPECT_EQ(desk.asked.size(), 1u);
}

TEST_F(SwitchTest, bytes_are_heard_in_their_order_however_they_arrive) {
  const std::string all = request("/switch", asks) + "abcdefghijklmnopqrstuvwxyz";
  for (std::size_t piece = 1; piece < all.size(); piece += 7) {
    script.heard.clear();
    Guest guest = connect();
    for (std::size_t at = 0; at < all.size(); at += piece) {
      guest.send(all.substr(at, piece));
      guest.run_for(Duration::millis(5));
    }
    EXPECT_EQ(script.heard, "abcdefghijklmnopqrstuvwxyz") << piece;
    guest.close();
    guest.run_for(Duration::millis(5));
  }
}

TEST_F(SwitchTest, only_a_request_that_asks_in_every_way_it_must_may_be_switched) {
  const std::pair<std::string, bool> forms[] = {
      {request("/x", asks), true},
      {request("/x", "Connection: keep-alive, upgrade\r\nUpgrade: h2c , WebSocket\r\n"), true},
      {request("/x", "Connection: keep-alive\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"), true},
      {request("/x", ""), false},
      {request("/x", "Upgrade: websocket\r\n"), false},
      {request("/x", "Connection: Upgrade\r\n"), false},
      {request("/x", "Connection: upgraded\r\nUpgrade: websocket\r\n"), false},
      {request("/x", "Connection: Upgrade\r\nUpgrade: websockets\r\n"), false},
      {request("/x", "Connection: Upgrade\r\nUpgrade: websocket/13\r\n"), false},
      {request("/x", "Connection: Upgrade\r\nUpgrade: h2c\r\n"), false},
      {request("/x", "Connection: Upgrade, close\r\nUpgrade: websocket\r\n"), false},
      {request("/x", std::string(asks) + "Content-Length: 2\r\n") + "hi", false},
      {request("/x", std::string(asks) + "Transfer-Encoding: chunked\r\n") + "0\r\n\r\n", false},
      {request("/x", asks, "POST"), false},
      {request("/x", asks, "HEAD"), false},
      {request("/x", asks, "GET", "HTTP/1.0"), false},
  };
  for (const auto& [text, asked] : forms) {
    EXPECT_EQ(connect().ask(text).status, 200) << text;
    EXPECT_EQ(desk.asked.back(), asked ? "websocket" : "") << text;
  }
}

TEST_F(SwitchTest, a_request_that_nobody_agrees_to_is_answered_as_if_it_had_not_asked) {
  Guest guest = connect();
  guest.send(request("/no", asks) + request("/after", ""));
  const Answer answer = guest.answer();
  EXPECT_EQ(answer.body, "/no");
  EXPECT_EQ(answer.field("Connection"), std::nullopt);
  EXPECT_EQ(answer.field("Upgrade"), std::nullopt);
  EXPECT_EQ(guest.answer().body, "/after");
}

TEST_F(SwitchTest, an_answer_that_switches_unasked_is_a_failed_one) {
  Guest guest = connect();
  EXPECT_EQ(guest.ask(request("/always", "")).status, 500);
  EXPECT_EQ(script.listening, 0);
}

TEST_F(SwitchTest, answers_gathered_before_are_sent_before) {
  Guest guest = connect();
  guest.send(request("/a", "") + request("/b", "") + request("/switch", asks) + "x");
  EXPECT_EQ(guest.answer().body, "/a");
  EXPECT_EQ(guest.answer().body, "/b");
  EXPECT_EQ(guest.answer().status, 101);
  EXPECT_TRUE(guest.until([&] { return script.heard == "x"; }));
}

// CV-1
TEST_F(SwitchTest, a_peer_that_does_not_read_is_still_heard_and_one_that_says_nothing_is_told) {
  script.floods = true;
  Guest guest = connect();
  guest.reading = false;
  guest.send(request("/switch", asks));
  guest.run_for(Duration::seconds(1));
  guest.send("heard");
  guest.run_for(Duration::seconds(1));
  EXPECT_EQ(script.heard, "heard");
  const std::string much(3'000'000, 'm');
  guest.reading = true;
  guest.send(much);
  EXPECT_TRUE(guest.until([&] { return script.heard.size() == 5 + much.size(); }));
  EXPECT_GT(guest.got().size(), 100'000u);
}

TEST_F(SwitchTest, one_that_waits_holds_no_buffer) {
  Guest guest = connect();
  guest.send(request("/switch", asks) + "x");
  guest.run_for(Duration::millis(10));
  EXPECT_EQ(machine.slab.outstanding(), 0u);
}

// CV-2
TEST_F(SwitchTest, the_end_of_what_is_said_ends_the_connection_properly) {
  script.said = "bye";
  script.over = true;
  Guest guest = connect();
  guest.send(request("/switch", asks) + "unheard or not");
  EXPECT_EQ(guest.answer().status, 101);
  ASSERT_TRUE(guest.until_ended());
  EXPECT_FALSE(guest.broken());
  EXPECT_EQ(guest.got(), "bye");
  guest.close();
  EXPECT_TRUE(gone());
  EXPECT_EQ(script.stops, std::vector{StopReason::superseded});
  EXPECT_EQ(desk.complete, std::vector{true});
}

TEST_F(SwitchTest, the_peers_end_is_heard_and_ends_nothing_by_itself) {
  Guest guest = connect();
  guest.send(request("/switch", asks) + "last");
  guest.shutdown_send();
  guest.run_for(Duration::seconds(1));
  EXPECT_EQ(script.heard, "last");
  EXPECT_TRUE(script.heard_end);
  say("still");
  EXPECT_EQ(guest.answer().status, 101);
  EXPECT_TRUE(guest.until([&] { return guest.got() == "still"; }));
  script.over = true;
  say("");
  EXPECT_TRUE(guest.until_ended());
  EXPECT_TRUE(gone());
}

TEST_F(SwitchTest, a_broken_connection_is_heard_and_ends_the_sending) {
  Guest guest = connect();
  guest.send(request("/switch", asks));
  guest.run_for(Duration::millis(10));
  guest.close(true);
  world.run_until([&] { return !script.broken.empty(); }, Duration::seconds(1));
  EXPECT_EQ(script.broken, std::vector{ErrorCode::connection_lost});
  say("into nothing");
  EXPECT_TRUE(gone());
  EXPECT_EQ(desk.complete, std::vector{false});
}

// HS-4: the wait for the source is bounded.
TEST_F(SwitchTest, one_that_says_nothing_for_a_long_time_ends) {
  Guest guest = connect();
  guest.send(request("/switch", asks));
  guest.run_for(Duration::seconds(59));
  EXPECT_EQ(server.connections(), 1u);
  guest.run_for(Duration::seconds(2));
  EXPECT_EQ(server.connections(), 0u);
  EXPECT_EQ(desk.complete, std::vector{false});
}

TEST_F(SwitchTest, a_peer_that_never_reads_is_cut) {
  script.floods = true;
  Guest guest = connect();
  guest.reading = false;
  guest.send(request("/switch", asks));
  EXPECT_TRUE(gone(Duration::seconds(60)));
  EXPECT_EQ(desk.slow, 1);
}

// CV-4
TEST_F(SwitchTest, draining_is_told_once_and_a_goodbye_is_heard) {
  script.goodbye = "goodbye";
  Guest guest = connect();
  guest.send(request("/switch", asks));
  guest.run_for(Duration::millis(20));
  drain();
  ASSERT_TRUE(guest.until_ended(Duration::seconds(1)));
  EXPECT_FALSE(guest.broken());
  EXPECT_TRUE(guest.got().ends_with("goodbye"));
  EXPECT_EQ(script.drained, 1);
  guest.close();
  EXPECT_TRUE(gone());
}

TEST_F(SwitchTest, one_that_has_always_more_to_say_is_told_of_the_draining) {
  script.floods = true;
  script.goodbye = "goodbye";
  Guest guest = connect();
  guest.send(request("/switch", asks));
  guest.run_for(Duration::millis(20));
  drain();
  ASSERT_TRUE(guest.until_ended(Duration::seconds(1)));
  EXPECT_TRUE(guest.got().ends_with("goodbye"));
  EXPECT_EQ(script.drained, 1);
}

TEST_F(SwitchTest, one_that_does_not_end_when_told_is_broken_after_a_short_time) {
  script.ignores_draining = true;
  Guest guest = connect();
  guest.send(request("/switch", asks));
  guest.run_for(Duration::millis(10));
  drain();
  const Instant begun = world.now();
  EXPECT_TRUE(gone());
  EXPECT_GE(world.now() - begun, Duration::millis(1900));
  EXPECT_LE(world.now() - begun, Duration::millis(2200));
  EXPECT_EQ(script.drained, 1);
}

TEST_F(SwitchTest, a_conversation_that_begins_while_draining_says_its_goodbye_at_once) {
  script.goodbye = "goodbye";
  Guest guest = connect();
  drain();
  guest.send(request("/switch", asks));
  EXPECT_EQ(guest.answer().status, 101);
  EXPECT_TRUE(guest.until_ended(Duration::seconds(1)));
  EXPECT_EQ(guest.got(), "goodbye");
}

// CV-3
TEST_F(SwitchTest, whatever_fails_both_directions_end_and_the_connection_with_them) {
  for (const int which : {0, 1, 2}) {
    script.source_throws = which == 0;
    script.source_fails = which == 1;
    script.listener_throws = which == 2;
    Guest guest = connect();
    guest.send(request("/switch", asks) + "x");
    if (which == 2) {
      guest.run_for(Duration::millis(10));
      script.listening = 0;  // it threw
      script.over = true;
      say("");
    }
    EXPECT_TRUE(gone(Duration::seconds(3))) << which;
    EXPECT_EQ(script.alive, 0) << which;
    if (which != 2) EXPECT_EQ(desk.complete.back(), false) << which;
  }
  EXPECT_EQ(desk.problems, std::vector<std::string>{"listen"});
}

TEST_F(SwitchTest, a_stop_of_the_server_ends_both_directions) {
  Guest guest = connect();
  guest.send(request("/switch", asks));
  guest.run_for(Duration::millis(10));
  ASSERT_EQ(script.listening, 1);
  {
    ShardScope here(host.shard());
    host.scope().cancel(StopReason::aborted);
  }
  EXPECT_TRUE(gone(Duration::seconds(1)));
}

}  // namespace
}  // namespace cairn::http
