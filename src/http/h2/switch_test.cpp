// Streams that go on with another protocol (RFC 8441): both directions, and every way in which they end.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "http/h2/simulated_desk.h"
#include "http/websocket/client_frames.h"
#include "http/websocket/handshake.h"

namespace cairn::http::h2 {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Switched : public H2Test {
 protected:
  static std::int32_t open(H2Guest& guest, std::string_view path) {
    guest.wait(guest.get("/x"));  // the settings are known
    const auto id =
        guest.ask("CONNECT", path, {}, false, {{":protocol", "websocket"}, {"sec-websocket-version", "13"}});
    EXPECT_TRUE(guest.until([&] { return guest.reply(id).status == 200; }));
    return id;
  }
  static bool hears(H2Guest& guest, std::int32_t id, std::string_view text) {
    return guest.until([&] { return guest.reply(id).body == text; }, Duration::seconds(10));
  }
};

TEST_F(Switched, what_the_peer_says_is_heard_beside_other_streams) {
  world.network().faults.split_write = world.network().faults.split_delivery = 900'000;
  H2Guest guest = connect();
  const auto first = open(guest, "/switch"), second = open(guest, "/switch");
  std::string all;
  for (int i = 0; i < 20; ++i) {
    const std::string more(5000, static_cast<char>('a' + i));
    guest.send_data(first, more, false);
    guest.send_data(second, "s", false);
    all += more;
    EXPECT_EQ(guest.wait(guest.get("/x")).body, "/x");
  }
  EXPECT_TRUE(hears(guest, first, all));
  guest.send_data(first, "end", true);
  EXPECT_EQ(guest.wait(first).body, all + "end");
  EXPECT_TRUE(guest.reply(first).ended);
  EXPECT_TRUE(hears(guest, second, std::string(20, 's')));
  guest.send_data(second, {}, true);
  EXPECT_TRUE(guest.wait(second).ended);
}

TEST_F(Switched, a_path_that_does_not_switch_answers_no_2xx) {
  desk.parts = {"event"};
  H2Guest guest = connect();
  guest.wait(guest.get("/x"));  // the settings are known
  for (const char* path : {"/x", "/open"}) {
    const auto id =
        guest.ask("CONNECT", path, {}, true, {{":protocol", "websocket"}, {"sec-websocket-version", "13"}});
    EXPECT_EQ(guest.wait(id).status, 501) << path;
  }
  EXPECT_EQ(guest.wait(guest.get("/x")).status, 200);
}

TEST_F(Switched, a_peer_that_resets_ends_the_listener_and_no_other_stream) {
  H2Guest guest = connect();
  const auto gone = open(guest, "/switch"), stays = open(guest, "/switch");
  guest.reset(gone);
  ASSERT_TRUE(guest.until([&] { return desk.finished_count(false) == 1; }, Duration::seconds(1)));
  guest.send_data(stays, "still", false);
  EXPECT_TRUE(hears(guest, stays, "still"));
  EXPECT_EQ(guest.goaway, std::nullopt);
}

// Nobody waits for what the conversation says, because the peer takes none of it.
TEST_F(Switched, a_reset_while_the_window_is_shut_ends_the_listener) {
  H2Guest guest = connect_with_window(1000);
  const auto id = open(guest, "/switch?floods");
  ASSERT_TRUE(guest.until([&] { return guest.reply(id).body.size() == 1000; }));
  guest.run_for(Duration::millis(10));
  guest.reset(id);
  EXPECT_TRUE(guest.until([&] { return desk.finished_count(false) == 1; }, Duration::seconds(1)));
  EXPECT_EQ(guest.wait(guest.get("/x")).body, "/x");
}

TEST_F(Switched, a_peer_that_never_reads_is_told_to_calm_down) {
  H2Guest guest = connect_with_window(1000);
  const auto id = open(guest, "/switch?floods");
  EXPECT_EQ(guest.wait(id, Duration::seconds(15)).reset, NGHTTP2_ENHANCE_YOUR_CALM);
  EXPECT_EQ(guest.reply(id).body.size(), 1000u);
  EXPECT_EQ(desk.slow_writes, 1);
  EXPECT_TRUE(guest.until([&] { return desk.finished_count(false) == 1; }, Duration::seconds(1)));
  EXPECT_EQ(guest.wait(guest.get("/x")).body, "/x");
}

TEST_F(Switched, a_peer_that_begins_no_more_streams_goes_on_with_this_one) {
  H2Guest guest = connect_raw();
  guest.send(preface() +
             frame(NGHTTP2_HEADERS, end_headers, 1,
                   field(":method", "CONNECT") + field(":protocol", "websocket") + field(":scheme", "https") +
                       field(":authority", "h") + field(":path", "/switch")) +
             frame(NGHTTP2_GOAWAY, 0, 0, word(0) + word(NGHTTP2_NO_ERROR)) +
             frame(NGHTTP2_DATA, 0, 1, "one "));
  ASSERT_TRUE(hears(guest, 1, "one "));
  guest.run_for(Duration::seconds(20));
  guest.send(frame(NGHTTP2_DATA, end_stream, 1, "two"));
  EXPECT_EQ(guest.wait(1).body, "one two");
  EXPECT_TRUE(guest.until_ended(Duration::seconds(5)));
  EXPECT_EQ(desk.finished_count(true), 1u);
}

TEST_F(Switched, a_client_that_vanishes_at_any_byte_leaves_no_listener) {
  const auto connect_to = [](std::string_view path) {
    return field(":method", "CONNECT") + field(":protocol", "websocket") + field(":scheme", "https") +
           field(":authority", "h") + field(":path", path);
  };
  const std::string all = preface() + frame(NGHTTP2_HEADERS, end_headers, 1, connect_to("/switch")) +
                          frame(NGHTTP2_DATA, 0, 1, "said") +
                          frame(NGHTTP2_HEADERS, end_headers, 3, connect_to("/switch?floods")) +
                          frame(NGHTTP2_DATA, 0, 3, "said");
  for (std::size_t cut = 30; cut <= all.size(); ++cut) {
    H2Guest guest = connect_raw();
    guest.send(all.substr(0, cut));
    guest.run_for(Duration::millis(10));
    guest.guest.close(cut % 2 == 0);
    world.run_until([&] { return server.connections() == 0; }, Duration::seconds(30));
    ASSERT_EQ(server.connections(), 0u) << cut;
    ASSERT_EQ(machine.slab.outstanding(), 0u) << cut;
    ASSERT_EQ(desk.begun, static_cast<int>(desk.complete.size())) << cut;
  }
  EXPECT_GT(desk.begun, 50);
}

TEST_F(Switched, draining_lets_it_say_goodbye_and_cuts_off_what_does_not) {
  H2Guest guest = connect();
  const auto polite = open(guest, "/switch"), deaf = open(guest, "/switch?deaf"),
             floods = open(guest, "/switch?floods");
  on_host([&] { server.drain(); });
  EXPECT_EQ(guest.wait(polite, Duration::millis(100)).body, Echo::goodbye);
  EXPECT_TRUE(guest.reply(polite).ended);
  EXPECT_FALSE(guest.reply(deaf).ended || guest.reply(deaf).reset);
  EXPECT_EQ(guest.wait(deaf, Duration::seconds(3)).reset, NGHTTP2_INTERNAL_ERROR);
  guest.reset(floods);
  EXPECT_TRUE(guest.until_ended(Duration::seconds(5)));
  EXPECT_FALSE(guest.guest.broken());
}

TEST_F(Switched, a_listener_that_throws_costs_its_stream_and_no_other) {
  problems_expected = true;
  H2Guest guest = connect();
  const auto bad = open(guest, "/switch?throws"), good = open(guest, "/switch");
  guest.send_data(bad, "x", false);
  guest.run_for(Duration::seconds(1));
  guest.send_data(good, "y", false);
  EXPECT_TRUE(hears(guest, good, "y"));
  EXPECT_TRUE(guest.wait(bad, Duration::seconds(65)).reset.has_value()) << "it had nothing more to say";
  EXPECT_THAT(desk.problems, ElementsAre(HasSubstr("listen")));
  EXPECT_EQ(guest.wait(guest.get("/x")).body, "/x");
  EXPECT_EQ(guest.goaway, std::nullopt);
}

// So that it does not hold a handler's place, or one of those who get the pieces of answers.
TEST_F(Switched, conversations_do_not_use_up_what_answers_need) {
  desk.parts = {"part"};
  H2Guest guest = connect();
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 40; ++i) ids.push_back(open(guest, "/switch"));
  EXPECT_EQ(guest.wait(guest.get("/stream"), Duration::seconds(1)).body, "part");
  for (const auto id : ids) guest.send_data(id, {}, true);
  for (const auto id : ids) EXPECT_TRUE(guest.wait(id).ended);
  EXPECT_EQ(desk.places, 1000);
}

TEST_F(Switched, without_a_place_it_is_not_begun) {
  desk.places = 0;
  H2Guest guest = connect();
  const auto first = open(guest, "/switch");
  const auto second = guest.ask("CONNECT", "/switch", {}, false, {{":protocol", "websocket"}});
  EXPECT_EQ(guest.wait(second).status, 429);
  guest.send_data(first, "x", false);
  EXPECT_TRUE(hears(guest, first, "x"));
}

// --- a WebSocket on a stream

// Says back what it hears.
class Parrot final : public websocket::Talk {
 public:
  Task<Result<More>> next(Call call, std::string& out) override {
    while (words_.empty()) CO_TRY_VOID(co_await ListWait(call, waiting_, "word"));
    for (const std::string& word : words_) websocket::append_text(out, word);
    words_.clear();
    co_return More::yes;
  }
  Task<Result<>> hear(Call, websocket::Opcode, std::string_view message) override {
    words_.emplace_back(message);
    while (!waiting_.empty()) wake(waiting_.front());
    co_return Result<>{};
  }

 private:
  std::vector<std::string> words_;
  WaitList waiting_;
};

class Spoken : public Switched {
 protected:
  Spoken() {
    desk.talk = [] { return std::make_unique<websocket::WebSocket>(std::make_unique<Parrot>()); };
  }
  static bool until(H2Guest& guest, std::int32_t id, std::size_t count) {
    return guest.until([&] { return frames(guest, id).size() >= count; }, Duration::seconds(10));
  }
  static std::vector<websocket::ServerFrame> frames(H2Guest& guest, std::int32_t id) {
    return websocket::read_server_frames(guest.reply(id).body).value();
  }
};

TEST_F(Spoken, messages_pings_and_a_close_pass_both_ways) {
  using websocket::Opcode;
  H2Guest guest = connect();
  const auto id = open(guest, "/talk");
  const std::string large(50'000, 'x');
  for (const char letter : websocket::client_frame(Opcode::text, "split"))
    guest.send_data(id, {&letter, 1}, false);
  ASSERT_TRUE(until(guest, id, 1));
  guest.send_data(id, websocket::client_frame(Opcode::text, large), false);
  ASSERT_TRUE(until(guest, id, 2));
  guest.send_data(id, websocket::client_frame(Opcode::ping, "p"), false);
  ASSERT_TRUE(until(guest, id, 3));
  EXPECT_THAT(frames(guest, id), ElementsAre(websocket::ServerFrame{Opcode::text, "split"},
                                             websocket::ServerFrame{Opcode::text, large},
                                             websocket::ServerFrame{Opcode::pong, "p"}));
  guest.send_data(id, websocket::client_close(3000), false);
  EXPECT_TRUE(guest.wait(id, Duration::seconds(1)).ended);
  EXPECT_EQ(frames(guest, id).back().code(), 3000);
  EXPECT_EQ(desk.finished_count(true), 2u);
}

TEST_F(Spoken, draining_says_1001) {
  H2Guest guest = connect();
  const auto id = open(guest, "/talk"), silent = open(guest, "/talk");
  on_host([&] { server.drain(); });
  ASSERT_TRUE(until(guest, id, 1));
  EXPECT_EQ(frames(guest, id).back().code(), 1001);
  guest.send_data(id, websocket::client_close(1001), false);
  EXPECT_TRUE(guest.wait(id, Duration::seconds(1)).ended);
  EXPECT_TRUE(guest.until_ended(Duration::seconds(5))) << "the other never answers its close";
  EXPECT_EQ(frames(guest, silent).back().code(), 1001);
}

}  // namespace
}  // namespace cairn::http::h2
