#include "http/sse.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "http/h1/parser.h"
#include "http/h1/server.h"
#include "http/sse_parser.h"
#include "io/sim/guest.h"
#include "runtime/broadcast.h"
#include "runtime/wait.h"

namespace cairn::http {
namespace {

using io::sim::Answer;
using io::sim::Guest;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

constexpr std::uint16_t port = 80;

std::string event_text(std::string_view event, std::string_view id, std::string_view data) {
  std::string out;
  append_event(out, event, id, data);
  return out;
}

TEST(Sse, an_event_is_exactly_these_lines) {
  EXPECT_EQ(event_text("commit", "7", "{}"), "event: commit\nid: 7\ndata: {}\n\n");
  EXPECT_EQ(event_text("", "", "x"), "data: x\n\n");
  EXPECT_EQ(event_text("", "", ""), "data: \n\n");
}

TEST(Sse, every_kind_of_line_end_in_the_data_is_a_line_of_its_own) {
  EXPECT_EQ(event_text("", "", "a\nb\r\nc\rd\n"), "data: a\ndata: b\ndata: c\ndata: d\ndata: \n\n");
  EXPECT_EQ(event_text("", "", "a\n\nevent: forged"), "data: a\ndata: \ndata: event: forged\n\n");
}

TEST(Sse, a_name_or_an_id_stays_one_line) {
  using namespace std::string_view_literals;
  EXPECT_EQ(event_text("a\r\ndata: forged\n", "1\n\n2\0"sv, "x"),
            "event: adata: forged\nid: 12\ndata: x\n\n");
}

TEST(Sse, a_comment_is_one_line_that_readers_skip) {
  std::string out;
  append_comment(out);
  append_comment(out, "a\nb");
  EXPECT_EQ(out, ": \n\n: ab\n\n");
  SseParser parser;
  std::string_view bytes = out;
  EXPECT_FALSE(*parser.next(bytes));
}

Result<std::optional<std::uint64_t>> last_id(std::string_view lines) {
  const std::string head = fmt::format("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", lines);
  RequestParser parser{HeadLimits{}};
  EXPECT_EQ(parser.parse(head).progress, Progress::complete);
  parser.head.rebase(head.data());
  return read_last_event_id(parser.head.fields);
}

TEST(Sse, the_last_id_is_one_plain_number_or_malformed) {
  EXPECT_EQ(*last_id(""), std::optional<std::uint64_t>());
  EXPECT_EQ(*last_id("Last-Event-ID: 0\r\n"), std::optional<std::uint64_t>(0));
  EXPECT_EQ(*last_id("Last-Event-ID: 18446744073709551615\r\n"), std::optional<std::uint64_t>(UINT64_MAX));
  for (const char* bad : {"", "x", "1x", "-1", "+1", "01", "1 2", "0x1", "18446744073709551616", "1.0"})
    EXPECT_EQ(last_id(fmt::format("Last-Event-ID: {}\r\n", bad)).error().code, ErrorCode::malformed) << bad;
  EXPECT_EQ(last_id("Last-Event-ID: 1\r\nLast-Event-ID: 1\r\n").error().code, ErrorCode::malformed);
}

// --- a stream over a connection

// What the feeds do, and what the tests look at.
struct Source {
  explicit Source(Shard& shard) : events(shard, 4) {}
  ~Source() { EXPECT_EQ(feeds, 0) << "none outlives its connection"; }
  Broadcast<std::string> events;
  bool flood = false;        // there is always another event
  std::size_t rendered = 0;  // bytes
  std::size_t asked = 0;
  int feeds = 0;
  std::vector<StopReason> stops;
};

class Feed final : public EventFeed {
 public:
  explicit Feed(Source& source) : source_(source), receiver_(source.events.subscribe()) { ++source_.feeds; }
  ~Feed() override { --source_.feeds; }
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the stream keeps it
  Task<Result<More>> next(Call call, std::string& out) override {
    ++source_.asked;
    std::string data(1000, 'x');
    if (!source_.flood) {
      auto event = co_await receiver_.recv(call);
      if (!event && event.error().code == ErrorCode::closed) co_return More::no;
      if (!event) {
        source_.stops.push_back(event.error().stop);
        co_return fail(event.error());
      }
      data = std::move(*event);
    }
    append_event(out, "", "", data);
    source_.rendered += out.size();
    co_return More::yes;
  }

 private:
  Source& source_;
  Broadcast<std::string>::Receiver receiver_;
};

// Every path is an open stream but /wait, which waits before it answers.
class Desk final : public Gate, public Answerer {
 public:
  explicit Desk(Source& source) : source_(source) {}
  Next begin(Exchange& exchange) override {
    exchange.stays_open = true;
    if (exchange.request().path() == "/wait") return Next::handle;
    answer_events(exchange.response, std::make_unique<Feed>(source_));
    return Next::answered;
  }
  Task<> handle(Call call, Exchange& exchange) override {
    call = call.by(exchange.started + Duration::seconds(65));
    if (auto waited = co_await sleep_for(call, Duration::seconds(60)); !waited) stop = waited.error().stop;
    exchange.response.text = "waited";
    exchange.response.answer_text("text/plain");
    exchange.response.abandoned = stop == StopReason::client_gone;
  }
  void refuse(Exchange&, Error) override { FAIL(); }
  void finished(Exchange&, bool whole) override { complete.push_back(whole); }
  Admission admit(const io::PeerAddress&, bool) override { return Admission::welcome; }
  void left(const io::PeerAddress&, Admission) override {}
  void timed_out(Slow what) override { slow_writes += what == Slow::write ? 1 : 0; }

  std::vector<bool> complete;
  int slow_writes = 0;
  StopReason stop = StopReason::none;

 private:
  Source& source_;
};

class EventStreamTest : public testing::Test {
 protected:
  EventStreamTest() {
    ShardScope here(host.shard());
    EXPECT_TRUE(server.listen({"host", port, {}}).has_value());
    server.start(host.scope());
  }
  void TearDown() override { world.stop(); }
  Guest connect() { return Guest(world, away, {"host", port, {}}); }
  void send(std::string text) {
    ShardScope here(host.shard());
    EXPECT_TRUE(source.events.send(std::move(text)).has_value());
  }
  void drain() {
    ShardScope here(host.shard());
    server.drain();
  }
  static std::string get(std::string_view path) {
    return fmt::format("GET {} HTTP/1.1\r\nHost: h\r\n\r\n", path);
  }

  io::sim::World world{1};
  io::sim::Node& host = world.add_node("host");
  io::sim::Node& away = world.add_node("away");
  io::Machine machine = host.machine();
  Source& source = host.make<Source>(host.shard());
  Desk desk{source};
  Server& server = host.make<Server>(machine, desk, desk, ServerOptions{});
};

TEST_F(EventStreamTest, the_head_comes_at_once_and_each_event_when_it_happens) {
  Guest guest = connect();
  guest.send(get("/"));
  ASSERT_TRUE(guest.until([&] { return guest.got().find("\r\n\r\n") != std::string::npos; }));
  const std::string head = guest.got();
  EXPECT_THAT(head, HasSubstr("Content-Type: text/event-stream\r\n"));
  EXPECT_THAT(head, HasSubstr("Cache-Control: no-store\r\n"));
  EXPECT_THAT(head, HasSubstr("X-Accel-Buffering: no\r\n"));
  EXPECT_EQ(machine.slab.outstanding(), 0u) << "one that waits holds no buffer";
  send("one");
  ASSERT_TRUE(guest.until([&] { return guest.got().size() > head.size(); }, Duration::seconds(1)));
  EXPECT_EQ(guest.got().substr(head.size()), "b\r\ndata: one\n\n\r\n");
  {
    ShardScope here(host.shard());
    source.events.close();
  }
  EXPECT_EQ(guest.answer().body, "data: one\n\n");
  EXPECT_EQ(desk.complete, std::vector{true});
}

TEST_F(EventStreamTest, a_heartbeat_comes_when_nothing_was_sent_for_fifteen_seconds) {
  Guest guest = connect();
  guest.send(get("/"));
  guest.run_for(Duration::millis(14'900));
  EXPECT_THAT(guest.got(), Not(HasSubstr(": \n\n")));
  send("x");
  guest.run_for(Duration::millis(14'900));
  EXPECT_THAT(guest.got(), EndsWith("data: x\n\n\r\n"));
  guest.run_for(Duration::millis(200));
  EXPECT_THAT(guest.got(), EndsWith("4\r\n: \n\n\r\n"));
  guest.run_for(Duration::seconds(15));
  EXPECT_THAT(guest.got(), EndsWith("4\r\n: \n\n\r\n4\r\n: \n\n\r\n"));
}

TEST_F(EventStreamTest, draining_ends_a_stream_that_waits_as_if_it_were_complete) {
  Guest guest = connect();
  guest.send(get("/"));
  guest.run_for(Duration::millis(10));
  const Instant begun = world.now();
  drain();
  EXPECT_TRUE(guest.answer().whole);
  EXPECT_TRUE(guest.until_ended());
  EXPECT_FALSE(guest.broken());
  EXPECT_LT(world.now() - begun, Duration::millis(100));
  EXPECT_EQ(source.stops, std::vector{StopReason::draining});
  EXPECT_EQ(server.connections(), 0u);
}

TEST_F(EventStreamTest, draining_ends_a_stream_that_has_always_more_to_say) {
  source.flood = true;
  Guest guest = connect();
  guest.send(get("/"));
  guest.run_for(Duration::millis(50));
  drain();
  const Answer answer = guest.answer(false, Duration::seconds(1));
  EXPECT_TRUE(answer.whole);
  EXPECT_EQ(answer.body.size(), source.rendered);
}

TEST_F(EventStreamTest, a_stream_that_begins_while_draining_is_empty) {
  Guest guest = connect();
  drain();
  guest.send(get("/"));
  const Answer answer = guest.answer();
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.whole);
  EXPECT_EQ(answer.body, "");
}

TEST_F(EventStreamTest, draining_ends_a_wait_that_stays_open_and_its_answer_is_sent) {
  Guest guest = connect();
  guest.send(get("/wait"));
  guest.run_for(Duration::millis(10));
  drain();
  const Answer answer = guest.answer(false, Duration::millis(100));
  EXPECT_EQ(answer.body, "waited");
  EXPECT_EQ(answer.field("Connection"), "close");
  EXPECT_EQ(desk.stop, StopReason::draining);
}

TEST_F(EventStreamTest, a_client_that_leaves_ends_what_waits_for_it) {
  for (const char* path : {"/", "/wait"}) {
    for (const bool reset : {false, true}) {
      Guest guest = connect();
      guest.send(get(path));
      guest.run_for(Duration::millis(10));
      ASSERT_EQ(server.connections(), 1u);
      guest.close(reset);
      EXPECT_TRUE(world.run_until([&] { return server.connections() == 0; }, Duration::millis(100))) << path;
    }
  }
  EXPECT_EQ(source.stops, (std::vector{StopReason::client_gone, StopReason::client_gone}));
  EXPECT_EQ(desk.stop, StopReason::client_gone);
  EXPECT_EQ(desk.complete, (std::vector{false, false, false, false}));
}

TEST_F(EventStreamTest, a_subscriber_that_never_reads_costs_one_chunk_and_is_cut) {
  source.flood = true;
  Guest guest = connect();
  guest.reading = false;
  guest.send(get("/"));
  guest.run_for(Duration::seconds(4));
  const std::size_t window = world.network().faults.window + world.network().faults.send_buffer;
  const std::size_t rendered = source.rendered, asked = source.asked;
  EXPECT_GE(rendered + 1000, window);
  EXPECT_LE(rendered, window + event_text("", "", std::string(1000, 'x')).size());
  EXPECT_EQ(source.feeds, 1);
  guest.run_for(Duration::seconds(40));
  EXPECT_EQ(source.asked, asked) << "nothing is asked for before the chunk in hand is gone";
  EXPECT_EQ(desk.slow_writes, 1);
  EXPECT_EQ(desk.complete, std::vector{false});
  EXPECT_EQ(source.feeds, 0);
  EXPECT_EQ(server.connections(), 0u);
}

TEST_F(EventStreamTest, a_subscriber_that_vanished_is_noticed_and_one_that_only_listens_is_not) {
  Guest quiet = connect();
  quiet.send(get("/"));
  quiet.run_for(Duration::seconds(400));
  EXPECT_EQ(server.connections(), 1u);
  world.network().vanish_all(away.index());
  quiet.run_for(Duration::seconds(100));
  EXPECT_EQ(server.connections(), 0u);
  EXPECT_EQ(desk.slow_writes, 1);
}

// It misses what the broadcast no longer keeps; the sender never waits for it.
TEST_F(EventStreamTest, a_subscriber_that_reads_slowly_does_not_hold_up_the_sender) {
  Guest slow = connect();
  slow.reading = false;
  slow.send(get("/"));
  slow.run_for(Duration::millis(10));
  for (int i = 0; i < 1000; ++i) send(std::string(1000, 'y'));
  EXPECT_EQ(source.events.depth(), source.events.capacity());
  slow.run_for(Duration::seconds(1));
  EXPECT_EQ(source.events.lagged_total(), 996u);
}

}  // namespace
}  // namespace cairn::http
