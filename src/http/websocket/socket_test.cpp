// A WebSocket over a simulated HTTP/1.1 connection: what is said and heard, and every way in which it ends.
#include "http/websocket/socket.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "http/h1/server.h"
#include "http/websocket/client_frames.h"
#include "http/websocket/handshake.h"
#include "io/sim/guest.h"
#include "runtime/broadcast.h"
#include "runtime/wait.h"

namespace cairn::http::websocket {
namespace {

using io::sim::Answer;
using io::sim::Guest;
using testing::ElementsAre;

constexpr std::uint16_t port = 80;

// What the talks say and do, and what the tests see of them.
struct Script {
  explicit Script(Shard& shard) : words(shard, 4) {}
  ~Script() { EXPECT_EQ(alive, 0) << "none outlives its connection"; }
  Broadcast<std::string> words;
  bool floods = false, fails = false, throws_on_hearing = false;
  bool echoes = false;
  bool holds = false;  // hearing waits until this is taken back
  WaitList holding;
  std::size_t said = 0, lagged = 0;
  std::vector<std::string> heard;
  int alive = 0;
};

class Speaker final : public Talk {
 public:
  explicit Speaker(Script& script) : script_(script), words_(script.words.subscribe()) { ++script_.alive; }
  ~Speaker() override { --script_.alive; }
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the socket keeps it
  Task<Result<More>> next(Call call, std::string& out) override {
    if (script_.fails) co_return fail(ErrorCode::integrity, "talk");
    if (script_.floods) {
      append_text(out, std::string(1000, 'f'));
      ++script_.said;
      co_return More::yes;
    }
    auto word = co_await words_.recv(call);
    if (!word && word.error().code == ErrorCode::closed) co_return More::no;
    if (!word && word.error().code == ErrorCode::lagged) {
      script_.lagged += words_.missed();
      append_text(out, "lagged");
      co_return More::yes;
    }
    if (!word) co_return fail(word.error());
    append_text(out, *word);
    ++script_.said;
    co_return More::yes;
  }
  Task<Result<>> hear(Call call, Opcode kind, std::string_view message) override {
    if (script_.throws_on_hearing) throw std::runtime_error("hear");
    while (script_.holds) CO_TRY_VOID(co_await ListWait(call, script_.holding, "held"));
    script_.heard.push_back((kind == Opcode::text ? "t:" : "b:") + std::string(message));
    if (message == "refuse") co_return fail(ErrorCode::malformed, "refused");
    if (script_.echoes) CO_TRY_VOID(script_.words.send(std::string(message)));
    co_return Result<>{};
  }

 private:
  Script& script_;
  Broadcast<std::string>::Receiver words_;
};

class Desk final : public Gate, public Answerer {
 public:
  explicit Desk(Script& script) : script_(script) {}
  Next begin(Exchange& exchange) override {
    exchange.stays_open = true;
    if (!is_asked_for(exchange)) {
      exchange.response.answer_view("text/plain", "plain");
      return Next::answered;
    }
    if (auto agreed = answer(exchange, std::make_unique<Speaker>(script_), options); !agreed) {
      exchange.response.status = status_of(agreed.error().code);
      exchange.response.answer_view("text/plain", "refused");
    }
    return Next::answered;
  }
  Task<> handle(Call, Exchange&) override { co_return; }
  void refuse(Exchange& exchange, Error error) override { exchange.response.status = status_of(error.code); }
  void finished(Exchange&, bool whole) override { complete.push_back(whole); }
  Admission admit(const io::PeerAddress&, bool) override { return Admission::welcome; }
  void left(const io::PeerAddress&, Admission) override {}
  void timed_out(Slow what) override { slow_writes += what == Slow::write ? 1 : 0; }
  void broke(const char* what) noexcept override { problems.emplace_back(what); }

  Options options;
  std::vector<bool> complete;
  std::vector<std::string> problems;
  int slow_writes = 0;

 private:
  Script& script_;
};

std::string opening(std::string_view more =
                        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                        "Sec-WebSocket-Version: 13\r\n") {
  return fmt::format("GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n{}\r\n",
                     more);
}

class WebSocketTest : public testing::Test {
 protected:
  WebSocketTest() {
    ShardScope here(host.shard());
    EXPECT_TRUE(server.listen({"host", port, {}}).has_value());
    server.start(host.scope());
  }
  void TearDown() override { world.stop(); }
  std::unique_ptr<Guest> connect(std::string_view with = "") {
    auto guest = std::make_unique<Guest>(world, away, Endpoint{"host", port, {}});
    guest->send(opening() + std::string(with));
    EXPECT_EQ(guest->answer().status, 101);
    return guest;
  }
  void say(std::string text) {
    ShardScope here(host.shard());
    EXPECT_TRUE(script.words.send(std::move(text)).has_value());
  }
  void drain() {
    ShardScope here(host.shard());
    server.drain();
  }
  static std::vector<ServerFrame> frames(const Guest& guest) {
    const auto read = read_server_frames(guest.got());
    EXPECT_TRUE(read.has_value());
    return read.value_or(std::vector<ServerFrame>());
  }
  static bool until(Guest& guest, std::size_t count) {
    return guest.until([&] { return frames(guest).size() >= count; }, Duration::seconds(5));
  }
  // The code of the close that the guest gets as its last frame, before the connection ends.
  static std::uint16_t close_of(Guest& guest) {
    EXPECT_TRUE(guest.until_ended(Duration::seconds(10)));
    EXPECT_FALSE(guest.broken());
    const auto all = frames(guest);
    if (all.empty() || all.back().opcode != Opcode::close) return 0;
    EXPECT_EQ(std::ranges::count(all, Opcode::close, &ServerFrame::opcode), 1);
    return all.back().code();
  }
  bool gone(Duration within = Duration::seconds(10)) {
    return world.run_until([&] { return server.connections() == 0; }, within);
  }

  io::sim::World world{1};
  io::sim::Node& host = world.add_node("host");
  io::sim::Node& away = world.add_node("away");
  io::Machine machine = host.machine();
  Script& script = host.make<Script>(host.shard());
  Desk desk{script};
  Server& server = host.make<Server>(machine, desk, desk, ServerOptions{});
};

TEST_F(WebSocketTest, the_handshake_is_answered_as_the_protocol_says) {
  Guest guest(world, away, {"host", port, {}});
  const Answer answer = guest.ask(opening());
  EXPECT_EQ(answer.status, 101);
  EXPECT_EQ(answer.field("Sec-WebSocket-Accept"), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");  // RFC 6455, 1.3
  EXPECT_EQ(answer.field("Sec-WebSocket-Extensions"), std::nullopt);
  EXPECT_EQ(answer.field("Sec-WebSocket-Protocol"), std::nullopt);
}

TEST_F(WebSocketTest, a_handshake_that_is_not_one_is_refused) {
  const std::string version = "Sec-WebSocket-Version: 13\r\n";
  const std::string key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
  const std::pair<std::string, int> forms[] = {
      {key, 426},
      {key + "Sec-WebSocket-Version: 8\r\n", 426},
      {key + "Sec-WebSocket-Version: 13, 8\r\n", 426},
      {key + version + version, 426},
      {version, 400},
      {version + key + key, 400},
      {version + "Sec-WebSocket-Key: \r\n", 400},
      {version + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ\r\n", 400},
      {version + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25j\r\n", 400},
      {version + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZWE=\r\n", 400},
      {version + "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25j!Q==\r\n", 400},
  };
  for (const auto& [fields, status] : forms) {
    Guest guest(world, away, {"host", port, {}});
    EXPECT_EQ(guest.ask(opening(fields)).status, status) << fields;
  }
  EXPECT_EQ(script.alive, 0);
}

TEST_F(WebSocketTest, what_is_said_and_heard_are_whole_messages_byte_by_byte_too) {
  script.echoes = true;
  const std::string all = client_frame(Opcode::text, "one") + client_frame(Opcode::text, "tw", false) +
                          client_frame(Opcode::ping, "p") + client_frame(Opcode::more, "o") +
                          client_frame(Opcode::binary, std::string(300, 'b'));
  for (const std::size_t piece : {std::size_t{1}, std::size_t{3}, all.size()}) {
    script.heard.clear();
    auto guest = connect();
    for (std::size_t at = 0; at < all.size(); at += piece) {
      guest->send(all.substr(at, piece));
      guest->run_for(Duration::millis(2));
    }
    ASSERT_TRUE(until(*guest, 4));
    EXPECT_THAT(script.heard, ElementsAre("t:one", "t:two", "b:" + std::string(300, 'b')));
    auto got = frames(*guest);
    EXPECT_EQ(std::erase(got, ServerFrame{Opcode::pong, "p"}), 1u);
    EXPECT_THAT(got, ElementsAre(ServerFrame{Opcode::text, "one"}, ServerFrame{Opcode::text, "two"},
                                 ServerFrame{Opcode::text, std::string(300, 'b')}));
    guest->close(true);
    EXPECT_TRUE(gone());
  }
}

TEST_F(WebSocketTest, a_message_sent_with_the_handshake_is_heard) {
  auto guest = connect(client_frame(Opcode::text, "early"));
  EXPECT_TRUE(guest->until([&] { return script.heard.size() == 1; }, Duration::seconds(1)));
}

// WS-3
TEST_F(WebSocketTest, the_peers_close_is_answered_with_its_code) {
  constexpr std::uint16_t codes[] = {1000, 1001, 1003, 1007, 1011, 1012, 1014, 3000, 4999};
  for (const std::uint16_t code : codes) {
    auto guest = connect(client_close(code, "bye"));
    EXPECT_EQ(close_of(*guest), code);
  }
  auto guest = connect(client_frame(Opcode::close, ""));
  EXPECT_EQ(close_of(*guest), 1005);
  EXPECT_EQ(frames(*guest).back().payload, "");
}

// WS-5
TEST_F(WebSocketTest, what_is_wrong_is_told_by_the_code_and_nothing_behind_it_is_heard) {
  const std::string late = client_frame(Opcode::text, "late");
  const std::pair<std::string, std::uint16_t> wrong[] = {
      {std::string("\x81\x02hi", 4), 1002},
      {std::string("\xc1\x80\0\0\0\0", 6), 1002},
      {client_close(1005), 1002},
      {client_frame(Opcode::text, "\xff"), 1007},
      {client_frame(Opcode::text, std::string((64 << 10) + 1, 'a')), 1009},
      {client_frame(Opcode::text, "refuse"), 1008},
  };
  for (const auto& [bytes, code] : wrong) {
    script.heard.clear();
    auto guest = connect(bytes + (code == 1008 ? "" : late));
    if (code == 1008) {  // the service said no: the peer answers the close
      ASSERT_TRUE(until(*guest, 1));
      guest->send(late + client_close(1008));
    }
    EXPECT_EQ(close_of(*guest), code);
    EXPECT_EQ(script.heard.size(), code == 1008 ? 1u : 0u);
    guest->close();
    EXPECT_TRUE(gone());
  }
}

TEST_F(WebSocketTest, a_message_as_large_as_allowed_is_heard) {
  const std::string most(64 << 10, 'a');
  auto guest = connect(client_frame(Opcode::text, most));
  ASSERT_TRUE(guest->until([&] { return !script.heard.empty(); }, Duration::seconds(5)));
  EXPECT_EQ(script.heard[0], "t:" + most);
}

// WS-2, WS-3
TEST_F(WebSocketTest, when_the_talk_is_over_the_close_is_1000_and_waits_for_the_peers) {
  auto guest = connect();
  guest->run_for(Duration::millis(10));
  {
    ShardScope here(host.shard());
    script.words.close();
  }
  ASSERT_TRUE(until(*guest, 1));
  guest->run_for(Duration::seconds(1));
  EXPECT_FALSE(guest->ended());
  guest->send(client_frame(Opcode::ping, "late") + client_frame(Opcode::text, "late") + client_close(1000));
  EXPECT_EQ(close_of(*guest), 1000);
  EXPECT_EQ(frames(*guest).size(), 1u) << "nothing behind a close";
  EXPECT_TRUE(script.heard.empty());
  guest->close();
  EXPECT_TRUE(gone());
  EXPECT_EQ(desk.complete, std::vector{true});
}

TEST_F(WebSocketTest, a_peer_that_never_answers_the_close_is_left_after_five_seconds) {
  auto guest = connect();
  guest->run_for(Duration::millis(10));
  const Instant begun = world.now();
  {
    ShardScope here(host.shard());
    script.words.close();
  }
  EXPECT_EQ(close_of(*guest), 1000);
  EXPECT_GE(world.now() - begun, Duration::millis(4900));
  EXPECT_TRUE(gone());
}

TEST_F(WebSocketTest, a_talk_that_fails_closes_with_1011) {
  script.fails = true;
  auto guest = connect();
  ASSERT_TRUE(until(*guest, 1));
  guest->send(client_close(1011));
  EXPECT_EQ(close_of(*guest), 1011);
}

TEST_F(WebSocketTest, a_handler_that_throws_closes_with_1011_and_is_told_as_a_bug) {
  script.throws_on_hearing = true;
  auto guest = connect(client_frame(Opcode::text, "x"));
  ASSERT_TRUE(until(*guest, 1));
  EXPECT_EQ(frames(*guest).back().code(), 1011);
  EXPECT_TRUE(gone());
  EXPECT_THAT(desk.problems, ElementsAre("hear"));
}

// WS-1
TEST_F(WebSocketTest, of_many_pings_the_newest_is_answered_and_messages_are_not_held_up) {
  auto guest = connect();
  guest->reading = false;
  script.floods = true;
  say("go");
  guest->run_for(Duration::seconds(1));  // the sender stands still
  script.floods = false;
  std::string pings;
  for (int i = 0; i < 5000; ++i) pings += client_frame(Opcode::ping, std::to_string(i));
  guest->send(pings);
  guest->run_for(Duration::seconds(1));
  guest->reading = true;
  say("after");
  ASSERT_TRUE(guest->until([&] { return guest->got().ends_with("after"); }, Duration::seconds(5)));
  std::vector<std::string> pongs;
  for (const ServerFrame& one : frames(*guest))
    if (one.opcode == Opcode::pong) pongs.push_back(one.payload);
  EXPECT_LE(pongs.size(), 5u);
  EXPECT_EQ(pongs.back(), "4999");
}

TEST_F(WebSocketTest, while_pings_never_end_messages_are_said_all_the_same) {
  auto guest = connect();
  for (int i = 0; i < 200; ++i) {
    guest->send(client_frame(Opcode::ping, "p") + client_frame(Opcode::ping, "q"));
    if (i == 100) say("between");
    world.run_until(world.now() + Duration::micros(50));
  }
  ASSERT_TRUE(guest->until(
      [&] {
        const auto all = frames(*guest);
        return std::ranges::count(all, ServerFrame{Opcode::text, "between"}) == 1;
      },
      Duration::seconds(1)));
}

// WS-4
TEST_F(WebSocketTest, a_quiet_socket_is_pinged_and_lives_as_long_as_it_answers) {
  auto guest = connect();
  for (int i = 1; i <= 10; ++i) {
    guest->run_for(Duration::millis(15'010));
    ASSERT_EQ(frames(*guest).size(), static_cast<std::size_t>(i));
    EXPECT_EQ(frames(*guest).back().opcode, Opcode::ping);
    guest->send(client_frame(Opcode::pong, ""));
  }
  EXPECT_EQ(server.connections(), 1u);
}

TEST_F(WebSocketTest, a_peer_that_is_silent_for_45_seconds_is_gone) {
  auto guest = connect();
  guest->run_for(Duration::seconds(44));
  EXPECT_EQ(server.connections(), 1u);
  guest->run_for(Duration::seconds(2));
  EXPECT_EQ(server.connections(), 0u);
  EXPECT_EQ(desk.complete, std::vector{false});
}

TEST_F(WebSocketTest, a_peer_that_is_not_read_is_not_called_silent) {
  script.holds = true;
  auto guest = connect(client_frame(Opcode::text, "a") + client_frame(Opcode::text, "b"));
  guest->run_for(Duration::seconds(200));
  EXPECT_EQ(server.connections(), 1u);
  EXPECT_TRUE(script.heard.empty());
  {
    ShardScope here(host.shard());
    script.holds = false;
    while (!script.holding.empty()) wake(script.holding.front());
  }
  guest->run_for(Duration::seconds(1));
  EXPECT_THAT(script.heard, ElementsAre("t:a", "t:b"));
  EXPECT_EQ(server.connections(), 1u);
}

TEST_F(WebSocketTest, a_service_that_does_not_hear_stops_the_peer_from_sending) {
  script.holds = true;
  auto guest = connect();
  std::string much;
  for (int i = 0; i < 100; ++i) much += client_frame(Opcode::binary, std::string(60'000, 'm'));
  guest->send(much);
  guest->run_for(Duration::seconds(5));
  EXPECT_GT(guest->unsent(), 5'000'000u);
  EXPECT_LE(machine.slab.bytes_in_use(), 32u << 10);
}

TEST_F(WebSocketTest, a_peer_that_never_reads_costs_one_piece_and_is_cut) {
  script.floods = true;
  auto guest = connect();
  guest->reading = false;
  guest->run_for(Duration::seconds(2));
  const std::size_t said = script.said;
  guest->run_for(Duration::seconds(2));
  EXPECT_EQ(script.said, said);
  EXPECT_TRUE(gone(Duration::seconds(60)));
  EXPECT_EQ(desk.slow_writes, 1);
}

TEST_F(WebSocketTest, a_slow_reader_misses_messages_and_is_told) {
  auto guest = connect();
  guest->reading = false;
  const std::string large(100'000, 'w');
  for (int i = 0; i < 50; ++i) {
    say(large);
    guest->run_for(Duration::millis(10));
  }
  EXPECT_GT(script.words.waiting(), 4u);
  guest->reading = true;
  ASSERT_TRUE(guest->until([&] { return script.lagged > 0; }, Duration::seconds(5)));
  say("newest");
  EXPECT_TRUE(guest->until([&] { return guest->got().ends_with("newest"); }, Duration::seconds(5)));
}

TEST_F(WebSocketTest, a_peer_that_leaves_without_a_close_ends_everything) {
  for (const bool reset : {false, true}) {
    auto guest = connect();
    guest->run_for(Duration::millis(10));
    guest->close(reset);
    EXPECT_TRUE(gone(Duration::seconds(3))) << reset;
    EXPECT_EQ(script.alive, 0);
  }
}

TEST_F(WebSocketTest, a_peer_that_vanished_is_found_by_its_silence) {
  auto guest = connect();
  guest->run_for(Duration::seconds(1));
  world.network().vanish_all(away.index());
  EXPECT_TRUE(gone(Duration::seconds(60)));
}

TEST_F(WebSocketTest, draining_closes_with_1001_and_waits_for_the_answer) {
  for (const bool floods : {false, true}) {
    script.floods = floods;
    auto guest = connect();
    guest->run_for(Duration::millis(20));
    if (!floods) continue;
    drain();
    ASSERT_TRUE(guest->until(
        [&] {
          const auto all = frames(*guest);
          return !all.empty() && all.back().opcode == Opcode::close;
        },
        Duration::seconds(1)));
    guest->send(client_close(1001));
    EXPECT_EQ(close_of(*guest), 1001);
  }
}

TEST_F(WebSocketTest, a_socket_that_waits_is_closed_with_1001_by_draining_even_if_nobody_answers) {
  auto guest = connect();
  guest->run_for(Duration::millis(20));
  const Instant begun = world.now();
  drain();
  EXPECT_EQ(close_of(*guest), 1001);
  EXPECT_LE(world.now() - begun, Duration::millis(2500));
  guest->close();
  EXPECT_TRUE(gone());
  EXPECT_EQ(desk.complete, std::vector{true});
}

TEST_F(WebSocketTest, an_idle_socket_holds_no_buffer) {
  auto guest = connect(client_frame(Opcode::text, "x"));
  guest->run_for(Duration::seconds(1));
  EXPECT_EQ(machine.slab.outstanding(), 0u);
}

}  // namespace
}  // namespace cairn::http::websocket
