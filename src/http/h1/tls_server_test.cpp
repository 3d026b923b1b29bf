// What TLS changes for a server: handshakes before the first head, and the end of encrypted connections.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "http/client.h"
#include "http/h1/server.h"
#include "io/sim/guest.h"
#include "io/tls_sample.h"

namespace cairn::http {
namespace {

using io::sim::Answer;
using io::sim::Guest;

constexpr std::uint16_t port = 443;

// Answers every request at once, and says whether it came encrypted.
class Desk final : public Gate, public Answerer {
 public:
  Next begin(Exchange& exchange) override {
    exchange.response.text = exchange.encrypted ? "encrypted" : "plain";
    if (exchange.request().path() == "/file")
      exchange.response.answer_file("text/plain", file, 0, file_bytes.size());
    else
      exchange.response.answer_text("text/plain");
    return Next::answered;
  }
  Task<> handle(Call, Exchange&) override { co_return; }
  void refuse(Exchange&, Error) override {}
  void finished(Exchange&, bool) override {}
  Admission admit(const io::PeerAddress&, bool) override {
    ++inside;
    return verdict;
  }
  void left(const io::PeerAddress&, Admission admission) override {
    if (admission != Admission::refused) --inside;
  }
  void timed_out(Slow) override {}
  void shook_hands(Hands how) override { hands.push_back(how); }
  void broke(const char*) noexcept override { ++broken; }

  Admission verdict = Admission::welcome;
  int inside = 0, broken = 0;
  std::vector<Hands> hands;
  std::string file_bytes = std::string(100'000, 'f');
  io::ArenaFile file{as_bytes(std::string_view(file_bytes)), -1};
};

using Hands = Gate::Hands;

class TlsServerTest : public testing::Test {
 protected:
  TlsServerTest() {
    ShardScope here(host.shard());
    server.set_tls(authority.server({.identities = {authority.identity({"host"})}}));
    EXPECT_TRUE(server.listen({"host", port, {}}).has_value());
    server.start(host.scope());
  }
  void TearDown() override {
    world.stop();
    EXPECT_EQ(desk.inside, 0);
  }
  Guest connect() { return Guest(world, away, {"host", port, {}}, authority.client()); }
  // A peer that has connected and says nothing.
  Guest stranger() { return Guest(world, away, {"host", port, {}}); }
  static std::string get(std::string_view path, std::string_view more = "") {
    return "GET " + std::string(path) + " HTTP/1.1\r\nHost: h\r\n" + std::string(more) + "\r\n";
  }
  void drain() {
    ShardScope here(host.shard());
    server.drain();
  }
  void set_options(const ServerOptions& options) { server.set_options(options); }

  io::sim::World world{1};
  io::sim::Node& host = world.add_node("host");
  io::sim::Node& away = world.add_node("away");
  io::Machine machine = host.machine();
  io::SampleAuthority authority{host.shard().wall()};
  Desk desk;
  Server& server = host.make<Server>(machine, desk, desk, ServerOptions{});
};

TEST_F(TlsServerTest, requests_over_tls_are_answered_and_marked) {
  Guest guest = connect();
  ASSERT_TRUE(guest.connected());
  for (int i = 0; i < 5; ++i) EXPECT_EQ(guest.ask(get("/")).body, "encrypted");
  EXPECT_EQ(desk.hands, std::vector{Hands::full});
}

TEST_F(TlsServerTest, a_file_goes_whole_through_tls) {
  Guest guest = connect();
  EXPECT_EQ(guest.ask(get("/file")).body, desk.file_bytes);
  EXPECT_EQ(guest.ask(get("/")).body, "encrypted");
}

TEST_F(TlsServerTest, an_idle_encrypted_connection_holds_no_buffer) {
  Guest guest = connect();
  EXPECT_EQ(guest.ask(get("/")).status, 200);
  guest.run_for(Duration::millis(1));
  EXPECT_EQ(server.connections(), 1u);
  EXPECT_EQ(machine.slab.outstanding(), 0u);
}

TEST_F(TlsServerTest, a_silent_peer_is_cut_after_five_seconds) {
  Guest silent = stranger();
  const Instant began = world.now();
  ASSERT_TRUE(silent.until_ended());
  EXPECT_NEAR((world.now() - began).to_seconds(), 5.0, 0.1);
  EXPECT_EQ(desk.hands, std::vector{Hands::timed_out});
  EXPECT_EQ(server.connections(), 0u);
}

TEST_F(TlsServerTest, a_peer_that_sends_single_bytes_is_cut_at_the_same_time) {
  Guest slow = stranger();
  const Instant began = world.now();
  const std::string record =
      std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) + std::string(500, 'x');
  for (std::size_t i = 0; i < 30 && !slow.ended() && !slow.broken(); ++i) {
    slow.send(record.substr(i, 1));
    slow.run_for(Duration::millis(400));
  }
  EXPECT_TRUE(slow.ended() || slow.broken());
  EXPECT_EQ(desk.hands, std::vector{Hands::timed_out});
  EXPECT_LE((world.now() - began).to_seconds(), 12.1);
}

TEST_F(TlsServerTest, text_that_is_no_tls_ends_the_connection) {
  Guest plain = stranger();
  plain.send(get("/"));
  ASSERT_TRUE(plain.until_ended());
  EXPECT_EQ(plain.got().find("HTTP/1.1"), std::string::npos);
  EXPECT_EQ(desk.hands, std::vector{Hands::failed});
}

TEST_F(TlsServerTest, silent_peers_cannot_keep_others_from_shaking_hands) {
  ServerOptions few;
  few.handshakes_max = 4;
  set_options(few);
  std::vector<std::unique_ptr<Guest>> silent;
  for (int i = 0; i < 12; ++i) {
    silent.push_back(std::make_unique<Guest>(world, away, Endpoint{"host", port, {}}));
    silent.back()->run_for(Duration::millis(10));
  }
  EXPECT_EQ(server.connections(), 4u);
  EXPECT_TRUE(silent.front()->until_ended(Duration::millis(10)));
  EXPECT_FALSE(silent.back()->ended());
  Guest guest = connect();
  EXPECT_EQ(guest.ask(get("/")).status, 200);
  EXPECT_EQ(std::ranges::count(desk.hands, Hands::gave_way), 9);
}

TEST_F(TlsServerTest, a_connection_that_gives_way_may_be_one_that_shakes_hands) {
  Guest silent = stranger();
  silent.run_for(Duration::seconds(2));
  const Server::Among everybody{[](const void*, const io::PeerAddress&) noexcept { return true; }, nullptr};
  EXPECT_TRUE(server.longest_idle(everybody).has_value());
  {
    ShardScope here(host.shard());
    EXPECT_TRUE(server.let_one_give_way(everybody));
  }
  EXPECT_EQ(desk.inside, 0);  // its place is free at once
  ASSERT_TRUE(silent.until_ended(Duration::millis(100)));
  EXPECT_EQ(desk.hands, std::vector{Hands::gave_way});
}

TEST_F(TlsServerTest, new_certificates_are_for_new_handshakes_and_live_connections_stay) {
  Guest before = connect();
  EXPECT_EQ(before.ask(get("/")).status, 200);
  const io::SampleAuthority other(authority.now);
  {
    ShardScope here(host.shard());
    server.set_tls(other.server({.identities = {other.identity({"host"})}}));
  }
  EXPECT_FALSE(connect().connected());
  Guest after(world, away, {"host", port, {}}, other.client());
  EXPECT_EQ(after.ask(get("/")).status, 200);
  EXPECT_EQ(before.ask(get("/")).status, 200);
}

TEST_F(TlsServerTest, draining_ends_connections_with_close_notify) {
  Guest guest = connect();
  EXPECT_EQ(guest.ask(get("/")).status, 200);
  drain();
  ASSERT_TRUE(guest.until_ended(Duration::seconds(1)));
  EXPECT_TRUE(guest.ended());
  EXPECT_FALSE(guest.broken());
}

TEST_F(TlsServerTest, draining_does_not_wait_for_silent_handshakes) {
  Guest silent = stranger();
  silent.run_for(Duration::millis(10));
  drain();
  EXPECT_TRUE(silent.until_ended(Duration::millis(400)));
}

TEST_F(TlsServerTest, a_handshake_that_began_before_draining_may_still_ask) {
  Guest guest = connect();
  drain();
  EXPECT_EQ(guest.ask(get("/")).status, 200);
}

TEST_F(TlsServerTest, the_end_of_an_answer_that_closes_is_said) {
  Guest guest = connect();
  const Answer answer = guest.ask(get("/", "Connection: close\r\n"));
  EXPECT_EQ(answer.status, 200);
  ASSERT_TRUE(guest.until_ended());
  EXPECT_TRUE(guest.ended());
}

TEST_F(TlsServerTest, the_end_is_said_even_if_there_is_no_room_for_it_yet) {
  world.network().faults.send_buffer = 200;
  world.network().faults.window = 200;
  Guest guest = connect();
  const Answer answer = guest.ask(get("/file", "Connection: close\r\n"));
  EXPECT_EQ(answer.body, desk.file_bytes);
  ASSERT_TRUE(guest.until_ended());
  EXPECT_TRUE(guest.ended());
}

TEST_F(TlsServerTest, browsers_are_told_to_stay_with_tls_only_if_asked_for) {
  EXPECT_EQ(connect().ask(get("/")).field("Strict-Transport-Security"), std::nullopt);
  ServerOptions strict;
  strict.strict_transport = "Strict-Transport-Security: max-age=60\r\n";
  set_options(strict);
  EXPECT_EQ(connect().ask(get("/")).field("Strict-Transport-Security"), "max-age=60");
}

TEST_F(TlsServerTest, a_door_for_health_only_stays_plain) {
  ShardScope here(host.shard());
  Server& other = host.make<Server>(machine, desk, desk, ServerOptions{});
  other.set_tls(authority.server({.identities = {authority.identity({"host"})}}));
  ASSERT_TRUE(other.listen({"host", 81, {}}, true).has_value());
  other.start(host.scope());
  Guest plain(world, away, {"host", 81, {}});
  EXPECT_EQ(plain.ask(get("/")).body, "plain");
}

// A client of bare OpenSSL, whose bytes a stranger carries.
struct BareGuest {
  BareGuest(io::sim::World& world, io::sim::Node& from) : carrier(world, from, {"host", port, {}}) {
    for (int i = 0; i < 10 && !client.shake(); ++i) carry();
    carry();
    EXPECT_TRUE(client.shake());
  }
  // What has to be sent, and what has come.
  void carry(Duration within = Duration::millis(200)) {
    carrier.send(client.give());
    carrier.run_for(within);
    client.take(carrier.take_all());
  }
  bool is_over() const { return carrier.ended() || carrier.broken(); }

  Guest carrier;
  io::BareTlsClient client;
};

TEST_F(TlsServerTest, a_flood_of_key_updates_ends_the_connection_and_is_counted) {
  BareGuest guest(world, away);
  for (int i = 0; i < 1000; ++i) guest.client.update_key();
  guest.carry();
  EXPECT_TRUE(guest.is_over());
  EXPECT_EQ(desk.hands, (std::vector{Hands::full, Hands::flooded}));
  EXPECT_EQ(server.connections(), 0u);
}

TEST_F(TlsServerTest, key_updates_between_requests_change_nothing) {
  BareGuest guest(world, away);
  for (int i = 0; i < 50; ++i) {
    for (int update = 0; update < 20; ++update) guest.client.update_key(true);
    guest.client.write(get("/"));
    guest.carry();
    EXPECT_THAT(guest.client.read(), testing::EndsWith("encrypted"));
  }
  EXPECT_EQ(desk.hands, std::vector{Hands::full});
}

TEST_F(TlsServerTest, records_without_data_do_not_make_an_idle_connection_busy) {
  BareGuest guest(world, away);
  const Instant began = world.now();
  while (!guest.is_over() && world.now() - began < Duration::seconds(200)) {
    guest.client.update_key();
    guest.carry(Duration::seconds(7));
  }
  EXPECT_TRUE(guest.is_over());
  EXPECT_LE((world.now() - began).to_seconds(), 70.0);
  EXPECT_EQ(desk.hands, std::vector{Hands::full});
}

TEST_F(TlsServerTest, records_without_data_do_not_keep_a_connection_from_giving_way) {
  BareGuest guest(world, away);
  for (int i = 0; i < 10; ++i) {
    guest.client.update_key();
    guest.carry(Duration::millis(300));
  }
  const Server::Among everybody{[](const void*, const io::PeerAddress&) noexcept { return true; }, nullptr};
  EXPECT_TRUE(server.longest_idle(everybody).has_value());
}

TEST_F(TlsServerTest, records_without_data_do_not_lengthen_the_wait_for_a_head) {
  BareGuest guest(world, away);
  const Instant began = world.now();
  guest.client.write("GET / HTTP/1.1\r\n");
  while (!guest.is_over() && world.now() - began < Duration::seconds(50)) {
    guest.client.update_key();
    guest.carry(Duration::seconds(2));
  }
  EXPECT_TRUE(guest.is_over());
  EXPECT_LE((world.now() - began).to_seconds(), 10.0);
}

// --- the other end: the pooled client

struct Asked {
  std::vector<Result<std::string>> answers;
  bool over = false;
};

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the test outlives it
Task<> ask_twice(Call call, Client& client, bool tls, Asked* into) {
  for (int i = 0; i < 2; ++i) {
    ClientRequest request;
    request.endpoint = {.host = "host", .port = port, .tls = tls};
    auto answer = co_await client.send(call, std::move(request));
    if (answer)
      into->answers.push_back(co_await answer->read_text(call, 100));
    else
      into->answers.emplace_back(fail(answer.error()));
  }
  co_await client.close(call);
  into->over = true;
}

class TlsClientTest : public TlsServerTest {
 protected:
  Asked ask(std::shared_ptr<const io::TlsClient> tls, bool encrypted = true) {
    Asked asked;
    away_machine.emplace(away.machine());
    ShardScope here(away.shard());
    Client client(*away_machine, {.tls = std::move(tls)});
    away.scope().spawn("ask", ask_twice(away.scope().call(), client, encrypted, &asked));
    EXPECT_TRUE(world.run_until([&] { return asked.over; }));
    return asked;
  }
  std::optional<io::Machine> away_machine;
};

TEST_F(TlsClientTest, requests_go_over_one_kept_connection) {
  const Asked asked = ask(authority.client());
  ASSERT_TRUE(asked.answers[0] && asked.answers[1]);
  EXPECT_EQ(*asked.answers[0], "encrypted");
  EXPECT_EQ(*asked.answers[1], "encrypted");
  EXPECT_EQ(desk.hands, std::vector{Hands::full});
}

TEST_F(TlsClientTest, a_server_that_nobody_vouches_for_is_not_asked) {
  const Asked asked = ask(io::SampleAuthority(authority.now).client());
  ASSERT_FALSE(asked.answers[0]);
  EXPECT_EQ(asked.answers[0].error().code, ErrorCode::integrity);
  EXPECT_EQ(asked.answers[0].error().side, Side::upstream);
  EXPECT_EQ(desk.hands.front(), Hands::failed);
}

TEST_F(TlsClientTest, without_authorities_there_is_no_request) {
  const Asked asked = ask(nullptr);
  ASSERT_FALSE(asked.answers[0]);
  EXPECT_EQ(asked.answers[0].error().code, ErrorCode::invalid);
}

TEST_F(TlsClientTest, plain_text_is_not_answered_by_a_door_for_tls) {
  const Asked asked = ask(authority.client(), false);
  ASSERT_FALSE(asked.answers[0]);
}

}  // namespace
}  // namespace cairn::http
