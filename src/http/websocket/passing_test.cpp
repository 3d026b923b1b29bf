// A WebSocket that one server passes on to another: inside the process and over a connection.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "http/h1/server.h"
#include "http/local_call.h"
#include "http/remote_call.h"
#include "http/websocket/client_frames.h"
#include "http/websocket/handshake.h"
#include "io/sim/guest.h"
#include "runtime/wait.h"

namespace cairn::http::websocket {
namespace {

using io::sim::Answer;
using io::sim::Guest;

constexpr std::uint16_t port = 80;
const std::string key_field = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

// Says back what it hears, in capitals; `end` ends it.
class Shout final : public Talk {
 public:
  explicit Shout(int& alive) : alive_(alive) { ++alive_; }
  ~Shout() override { --alive_; }
  Task<Result<More>> next(Call call, std::string& out) override {
    while (words_.empty() && !over_) CO_TRY_VOID(co_await ListWait(call, waiting_, "word"));
    if (words_.empty()) co_return More::no;
    append_text(out, words_.front());
    words_.erase(words_.begin());
    co_return More::yes;
  }
  Task<Result<>> hear(Call, Opcode, std::string_view message) override {
    std::string word(message);
    for (char& c : word) c = static_cast<char>(c >= 'a' && c <= 'z' ? c - 32 : c);
    over_ = message == "end";
    if (!over_) words_.push_back(std::move(word));
    while (!waiting_.empty()) wake(waiting_.front());
    co_return Result<>{};
  }

 private:
  int& alive_;
  bool over_ = false;
  std::vector<std::string> words_;
  WaitList waiting_;
};

struct Counts {
  ~Counts() { EXPECT_EQ(alive, 0); }
  int alive = 0;
  std::vector<bool> complete;
};

class Hall : public Gate, public Answerer {
 public:
  void refuse(Exchange& exchange, Error error) override {
    exchange.response.status = status_of(error.code);
    exchange.response.answer_view("text/plain", name_of(error.code));
  }
  Task<> handle(Call, Exchange&) override { co_return; }
  void finished(Exchange&, bool whole) override { counts.complete.push_back(whole); }
  Admission admit(const io::PeerAddress&, bool) override { return Admission::welcome; }
  void left(const io::PeerAddress&, Admission) override {}
  void timed_out(Slow) override {}
  explicit Hall(Counts& of) : counts(of) {}
  Counts& counts;
};

// The server behind: a WebSocket at /shout, a plain answer elsewhere, and at /lie an answer to another key.
class Behind final : public Hall {
 public:
  using Hall::Hall;
  Next begin(Exchange& exchange) override {
    exchange.stays_open = true;
    const std::string_view path = exchange.request().path();
    if (!is_asked_for(exchange) || path == "/plain") {
      exchange.response.answer_view("text/plain", "plain");
    } else {
      auto agreed = answer(exchange, std::make_unique<Shout>(counts.alive));
      if (!agreed) refuse(exchange, agreed.error());
      if (agreed && path == "/lie") exchange.response.fields.clear();
    }
    return Next::answered;
  }
};

// The call and the conversation that it carries.
class PassedOn final : public Conversation {
 public:
  explicit PassedOn(std::unique_ptr<PeerCall> call) : call_(std::move(call)) {}
  Task<Result<io::Piece>> next(Call call) override { return call_->conversation()->next(call); }
  Task<> listen(Call call, RequestBody& arriving) override {
    return call_->conversation()->listen(call, arriving);
  }
  void drain() noexcept override { call_->conversation()->drain(); }

 private:
  std::unique_ptr<PeerCall> call_;
};

class Front final : public Hall {
 public:
  Front(Counts& of, io::Machine& machine, Answerer& behind, Client& client, bool inside, bool keyless)
      : Hall(of), machine_(machine), behind_(behind), client_(client), inside_(inside), keyless_(keyless) {}
  Next begin(Exchange& exchange) override {
    exchange.stays_open = true;
    return Next::handle;
  }
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): outlives its handler
  Task<> handle(Call call, Exchange& exchange) override {
    std::unique_ptr<PeerCall> passed;
    if (inside_)
      passed = std::make_unique<LocalCall>(machine_, behind_);
    else
      passed = std::make_unique<RemoteCall>(client_, io::Endpoint{"behind", port, {}});
    passed->start(Method::get, exchange.request().path(), {});
    const Fields& fields = exchange.request().fields;
    for (const FieldName name : {FieldName::sec_websocket_key, FieldName::sec_websocket_version})
      if (fields.has(name) && !(keyless_ && name == FieldName::sec_websocket_key))
        passed->add_field(name_of(name), fields.get(name));
    passed->ask_to_switch(exchange.upgrade);
    const auto answered = co_await passed->ask(call.within(Duration::seconds(5)));
    if (!answered) {
      refuse(exchange, answered.error());
      co_return;
    }
    exchange.response.status = passed->status();
    passed->each_field(
        [&](std::string_view name, std::string_view value) { exchange.response.add_field(name, value); });
    if (passed->conversation() != nullptr)
      exchange.response.switch_to(std::make_unique<PassedOn>(std::move(passed)));
    else
      exchange.response.answer_view("text/plain", "not a conversation");
  }

 private:
  io::Machine& machine_;
  Answerer& behind_;
  Client& client_;
  bool inside_, keyless_;
};

// How it is passed on: inside or over a connection, with the client's key or without.
struct Way {
  bool inside, keyless;
};

class PassingTest : public testing::TestWithParam<Way> {
 protected:
  PassingTest() {
    {
      ShardScope here(host.shard());
      EXPECT_TRUE(server.listen({"front", port, {}}).has_value());
      server.start(host.scope());
    }
    ShardScope here(back.shard());
    EXPECT_TRUE(behind_server.listen({"behind", port, {}}).has_value());
    behind_server.start(back.scope());
  }
  void TearDown() override {
    EXPECT_TRUE(world.run_until([&] { return server.connections() == 0; }, Duration::seconds(100)));
    world.stop();
  }
  static std::string opening(std::string_view path = "/shout") {
    return "GET " + std::string(path) +
           " HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: "
           "13\r\n" +
           key_field + "\r\n";
  }
  static bool until(Guest& guest, std::size_t count) {
    return guest.until([&] { return read_server_frames(guest.got())->size() >= count; },
                       Duration::seconds(5));
  }

  io::sim::World world{1};
  io::sim::Node& host = world.add_node("front");
  io::sim::Node& back = world.add_node("behind");
  io::sim::Node& away = world.add_node("away");
  io::Machine machine = host.machine();
  io::Machine back_machine = back.machine();
  Counts counts, behind_counts;
  Behind behind{behind_counts};
  Client& client = host.make<Client>(machine, ClientOptions{});
  Front front{counts, machine, behind, client, GetParam().inside, GetParam().keyless};
  Server& server = host.make<Server>(machine, front, front, ServerOptions{});
  Server& behind_server = back.make<Server>(back_machine, behind, behind, ServerOptions{});
};

INSTANTIATE_TEST_SUITE_P(Ways, PassingTest,
                         testing::Values(Way{true, false}, Way{false, false}, Way{true, true},
                                         Way{false, true}));

TEST_P(PassingTest, what_is_said_on_both_sides_arrives) {
  Guest guest(world, away, {"front", port, {}});
  guest.send(opening() + client_frame(Opcode::text, "early"));
  const Answer answer = guest.answer();
  EXPECT_EQ(answer.status, 101);
  const bool shown = answer.field("Sec-WebSocket-Accept") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
  EXPECT_EQ(shown, !GetParam().keyless);
  ASSERT_TRUE(until(guest, 1));
  for (int i = 0; i < 20; ++i) guest.send(client_frame(Opcode::text, "word" + std::to_string(i)));
  guest.send(client_frame(Opcode::text, std::string(50'000, 'x')) + client_frame(Opcode::ping, "p"));
  ASSERT_TRUE(until(guest, 23));
  const auto frames = *read_server_frames(guest.got());
  EXPECT_EQ(frames[0].payload, "EARLY");
  EXPECT_EQ(std::ranges::count(frames, ServerFrame{Opcode::pong, "p"}), 1);
  EXPECT_EQ(std::ranges::count(frames, ServerFrame{Opcode::text, std::string(50'000, 'X')}), 1);
  guest.send(client_frame(Opcode::text, "end"));
  ASSERT_TRUE(until(guest, 24));
  guest.send(client_close(1000));
  EXPECT_TRUE(guest.until_ended(Duration::seconds(5)));
  EXPECT_FALSE(guest.broken());
  EXPECT_EQ(read_server_frames(guest.got())->back().code(), 1000);
  guest.close();
}

TEST_P(PassingTest, a_client_that_leaves_is_gone_behind_too) {
  for (const bool reset : {false, true}) {
    Guest guest(world, away, {"front", port, {}});
    guest.send(opening());
    EXPECT_EQ(guest.answer().status, 101);
    EXPECT_EQ(behind_counts.alive, 1);
    guest.close(reset);
    EXPECT_TRUE(world.run_until([&] { return behind_counts.alive == 0 && server.connections() == 0; },
                                Duration::seconds(30)));
  }
}

TEST_P(PassingTest, an_answer_that_does_not_switch_is_passed_as_one) {
  Guest guest(world, away, {"front", port, {}});
  EXPECT_EQ(guest.ask(opening("/plain")).body, "not a conversation");
  guest.close();
}

TEST_P(PassingTest, draining_ends_it) {
  Guest guest(world, away, {"front", port, {}});
  guest.send(opening());
  EXPECT_EQ(guest.answer().status, 101);
  {
    ShardScope here(host.shard());
    server.drain();
  }
  ASSERT_TRUE(guest.until_ended(Duration::seconds(3)));
  if (GetParam().inside) EXPECT_EQ(read_server_frames(guest.got())->back().code(), 1001);
  guest.close();
  EXPECT_TRUE(world.run_until([&] { return behind_counts.alive == 0; }, Duration::seconds(5)));
}

TEST_P(PassingTest, a_server_behind_that_goes_away_closes_with_1001) {
  if (GetParam().inside) return;
  Guest guest(world, away, {"front", port, {}});
  guest.send(opening());
  EXPECT_EQ(guest.answer().status, 101);
  {
    ShardScope here(back.shard());
    behind_server.drain();
  }
  ASSERT_TRUE(until(guest, 1));
  guest.send(client_close(1001));
  ASSERT_TRUE(guest.until_ended(Duration::seconds(3)));
  EXPECT_EQ(read_server_frames(guest.got())->back().code(), 1001);
  guest.close();
}

TEST_P(PassingTest, an_answer_to_another_key_is_refused) {
  if (GetParam().inside || !GetParam().keyless) return;
  Guest guest(world, away, {"front", port, {}});
  EXPECT_EQ(guest.ask(opening("/lie")).status, 502);
  guest.close();
}

}  // namespace
}  // namespace cairn::http::websocket
