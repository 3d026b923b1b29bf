#include "http/h1/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "io/sim/guest.h"
#include "runtime/wait.h"

namespace cairn::http {
namespace {

using io::sim::Answer;
using io::sim::Guest;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::uint16_t port = 80;

// Gives its parts one after another, then what `end` says.
class Parts final : public io::BodySource {
 public:
  enum class End : std::uint8_t { normal, error, exception };
  Parts(Slab& slab, std::vector<std::string> parts, End end)
      : slab_(slab), parts_(std::move(parts)), end_(end) {}
  Task<Result<io::Piece>> next(Call call) override {
    co_await yield(call);
    if (at_ == parts_.size()) {
      if (end_ == End::exception) throw std::runtime_error("no more parts");
      if (end_ == End::error) co_return fail(ErrorCode::integrity, "bad part");
      co_return Buffer();
    }
    const std::string& text = parts_[at_++];
    Buffer part = slab_.take(text.size());
    std::copy_n(as_bytes(text).begin(), text.size(), part.room().begin());
    part.fill(text.size());
    co_return part;
  }

 private:
  Slab& slab_;
  std::vector<std::string> parts_;
  End end_;
  std::size_t at_ = 0;
};

// Answers by path: /wait waits for open(), /read echoes the body, /refuse says 413 without reading it; any
// other path is answered at once with itself.
class Desk final : public Gate, public Answerer {
 public:
  explicit Desk(Slab& slab) : slab_(slab) {}

  Next begin(Exchange& exchange) override {
    ++begun;
    sign(exchange);
    const std::string_view path = exchange.request().path();
    Response& response = exchange.response;
    if (path == "/throw-at-once") throw std::runtime_error("begin");
    if (path == "/throw-twice") throw std::runtime_error("begin, and refuse");
    if (path == "/wait" || path == "/throw" || path.starts_with("/read")) return Next::handle;
    if (path == "/refuse") {
      response.status = 413;
      response.text = "too much";
      response.answer_text("text/plain");
    } else if (path == "/big") {
      response.answer_view("text/plain", big);
    } else if (path == "/file") {
      response.answer_file("text/plain", file, file_offset, file_count);
    } else if (path == "/spoiled") {
      response.add_field("Location", "/a\r\nX-Injected: yes");
      response.answer_view("text/plain", "never sent");
    } else if (path == "/spoiled-type") {
      response.answer_stream("text/plain\r\nX-Injected: yes",
                             std::make_unique<Parts>(slab_, parts, parts_end));
    } else if (path == "/overlong") {
      response.add_field("X-Long", std::string(FieldList::size_max, 'x'));
      response.answer_view("text/plain", "never sent");
    } else if (path == "/long-head") {
      for (int i = 0; i < 20; ++i)
        response.add_field("X-Long", std::string(1000, static_cast<char>('a' + i)));
      response.answer_view("text/plain", "sent");
    } else if (path == "/stream") {
      response.answer_stream("text/plain", std::make_unique<Parts>(slab_, parts, parts_end));
    } else {
      response.text = path;
      response.answer_text("text/plain");
    }
    return Next::answered;
  }
  Task<> handle(Call call, Exchange& exchange) override {
    call = call.by(exchange.started + deadline);
    const std::string path(exchange.request().path());
    if (path == "/throw") {
      co_await yield(call);
      throw std::runtime_error("handle");
    }
    if (path == "/wait" || path == "/read-late") co_await wait_for_gate(call);
    Response& response = exchange.response;
    response.text = path;
    if (path.starts_with("/read")) {
      response.text.clear();
      const Duration nap = path == "/read-sleepy" ? Duration::seconds(6) : Duration{0};
      if (auto read = co_await read_body(call, exchange, response.text, nap); !read) {
        body_error = read.error();
        response.status = status_of(read.error().code) != 0 ? status_of(read.error().code) : 500;
      }
    }
    response.answer_text("text/plain");
  }
  void refuse(Exchange& exchange, Error error) override {
    // Neither a connection that is turned away nor a failing handler is one more request.
    if (error.code != ErrorCode::internal && error.code != ErrorCode::busy) ++begun;
    refused.push_back(error.code);
    refused_corr = exchange.request().fields.get(FieldName::x_corr_id);
    if (exchange.request().path() == "/throw-twice") throw std::runtime_error("refuse");
    sign(exchange);
    exchange.response.status = status_of(error.code);
    exchange.response.text = name_of(error.code);
    exchange.response.answer_text("text/plain");
  }
  void finished(Exchange& exchange, bool whole) override {
    finished_at = turns;
    complete.push_back(whole);
    if (exchange.request().path() == "/throw-at-the-end") throw std::runtime_error("finished");
  }
  void broke(const char* what) noexcept override { problems.emplace_back(what); }
  Admission admit(const io::PeerAddress&, bool) override {
    admitted_at.push_back(turns);
    if (verdict != Admission::refused) ++inside;
    return verdict;
  }
  void left(const io::PeerAddress&, Admission admission) override {
    left_at = turns;
    if (admission != Admission::refused) --inside;
  }
  void doors_closed() override { ++doors; }
  void timed_out(Slow what) override { ++(what == Slow::read ? slow_reads : slow_writes); }

  void open() {
    gate_open_ = true;
    while (!gate_.empty()) wake(gate_.front());
  }
  bool waiting() const noexcept { return !gate_.empty(); }

  Duration deadline = Duration::seconds(3600);
  Admission verdict = Admission::welcome;
  std::string big;
  std::shared_ptr<io::File> file;
  std::uint64_t file_offset = 0, file_count = 0;
  std::vector<std::string> parts;
  Parts::End parts_end = Parts::End::normal;

  int begun = 0;
  std::vector<bool> complete;
  std::vector<ErrorCode> refused;
  std::string refused_corr;
  std::optional<Error> body_error;
  StopReason stopped = StopReason::none;
  std::vector<std::string> problems;
  int turns = 0;
  std::vector<int> admitted_at;
  int finished_at = 0, left_at = 0;  // in turns: the last answer was sent, the last connection ended
  int inside = 0, doors = 0, slow_reads = 0, slow_writes = 0;

 private:
  static void sign(Exchange& exchange) {
    constexpr std::string_view corr = "corr-0001";
    exchange.response.fields.reset();
    exchange.response.add_field("X-Corr-ID", corr);
    exchange.response.fields.keep();
  }
  Task<> wait_for_gate(Call call) {
    if (gate_open_) co_return;
    if (auto waited = co_await ListWait(call, gate_, "gate"); !waited) stopped = waited.error().stop;
  }
  static Task<Result<>> read_body(Call call, Exchange& exchange, std::string& text, Duration nap) {
    for (;;) {
      CO_TRY(const Buffer slice, co_await exchange.body.next(call));
      if (slice.empty()) co_return Result<>{};
      text += as_text(slice.bytes());
      if (nap.ns > 0) CO_TRY_VOID(co_await sleep_for(call, nap));
    }
  }

  Slab& slab_;
  bool gate_open_ = false;
  WaitList gate_;
};

class ServerTest : public testing::Test {
 protected:
  ServerTest() {
    ShardScope here(host.shard());
    EXPECT_TRUE(server.listen({"host", port, {}}).has_value());
    server.start(host.scope());
  }
  void TearDown() override {
    world.stop();
    EXPECT_EQ(desk.begun, static_cast<int>(desk.complete.size())) << "every request that began is finished";
    EXPECT_EQ(desk.inside, 0);
  }
  Guest connect() { return Guest(world, away, {"host", port, {}}); }
  static std::string get(std::string_view path, std::string_view more = "") {
    return "GET " + std::string(path) + " HTTP/1.1\r\nHost: h\r\n" + std::string(more) + "\r\n";
  }
  static std::string post(std::string_view path, std::string_view body, std::string_view more = "") {
    return "POST " + std::string(path) +
           " HTTP/1.1\r\nHost: h\r\nContent-Length: " + std::to_string(body.size()) + "\r\n" +
           std::string(more) + "\r\n" + std::string(body);
  }
  std::shared_ptr<io::File> open_file(std::string path) {
    std::shared_ptr<io::File> opened;
    ShardScope here(host.shard());
    host.scope().spawn("open", open_into(host.scope().call(), std::move(path), &opened));
    world.run_until([&] { return opened != nullptr; });
    return opened;
  }
  Task<> open_into(Call call, std::string path, std::shared_ptr<io::File>* out) {
    auto opened = co_await machine.disk.open(call, std::move(path), io::OpenMode::read);
    if (opened) *out = std::move(*opened);
  }
  void drain() {
    ShardScope here(host.shard());
    server.drain();
  }
  // Another task of the host that is always ready: its turns, while `counting`.
  void count_turns() {
    struct Other {
      static Task<> run(Call call, const bool* counting, int* turns) {
        for (; *counting; ++*turns) co_await yield(call);
      }
    };
    counting = true;
    ShardScope here(host.shard());
    host.scope().spawn("other", Other::run(host.scope().call(), &counting, &desk.turns));
  }

  bool counting = false;
  io::sim::World world{1};
  io::sim::Node& host = world.add_node("host");
  io::sim::Node& away = world.add_node("away");
  io::Machine machine = host.machine();
  Desk desk{machine.slab};
  Server& server = host.make<Server>(machine, desk, desk, ServerOptions{});
};

// --- idle, keep-alive, pipelining

TEST_F(ServerTest, an_idle_connection_holds_no_buffer) {
  Guest guest = connect();
  guest.run_for(Duration::seconds(1));
  EXPECT_EQ(server.connections(), 1u);
  EXPECT_EQ(machine.slab.outstanding(), 0u);
  EXPECT_EQ(guest.ask(get("/a") + get("/b")).body, "/a");
  EXPECT_EQ(guest.answer().body, "/b");
  EXPECT_EQ(guest.ask(post("/read", std::string(3000, 'x'))).body.size(), 3000u);
  guest.run_for(Duration::millis(1));
  EXPECT_EQ(server.connections(), 1u);
  EXPECT_EQ(machine.slab.outstanding(), 0u);
}

TEST_F(ServerTest, a_connection_serves_many_requests) {
  Guest guest = connect();
  for (int i = 0; i < 20; ++i) {
    const std::string path = "/n" + std::to_string(i);
    const Answer answer = guest.ask(get(path));
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, path);
    EXPECT_EQ(answer.field("Connection"), std::nullopt);
  }
  EXPECT_EQ(server.connections(), 1u);
}

TEST_F(ServerTest, every_answer_carries_date_corr_id_and_nosniff) {
  const Answer answer = connect().ask(get("/x"));
  EXPECT_EQ(answer.field("Date"), "Thu, 01 Jan 2026 00:00:00 GMT");
  EXPECT_EQ(answer.field("X-Corr-ID"), "corr-0001");
  EXPECT_EQ(answer.field("X-Content-Type-Options"), "nosniff");
  EXPECT_EQ(answer.field("Content-Type"), "text/plain");
  EXPECT_EQ(answer.field("Content-Length"), "2");
}

TEST_F(ServerTest, pipelined_requests_are_answered_in_order_and_in_one_write) {
  Guest guest = connect();
  std::string all;
  for (int i = 0; i < 8; ++i) all += get("/p" + std::to_string(i));
  guest.send(all);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(guest.answer().body, "/p" + std::to_string(i));
  EXPECT_EQ(guest.pieces(), 1u);
}

TEST_F(ServerTest, no_more_answers_are_gathered_than_the_options_say) {
  ServerOptions few;
  few.pipelined = 2;
  server.set_options(few);
  Guest guest = connect();
  std::string all;
  for (int i = 0; i < 8; ++i) all += get("/p" + std::to_string(i));
  guest.send(all);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(guest.answer().body, "/p" + std::to_string(i));
  EXPECT_GE(guest.pieces(), 2u);
}

TEST_F(ServerTest, pipelined_requests_are_not_read_ahead_of_the_one_that_waits) {
  Guest guest = connect();
  std::string all = get("/wait");
  while (all.size() < 300'000) all += get("/behind");
  guest.send(all);
  guest.run_for(Duration::seconds(1));
  EXPECT_EQ(desk.begun, 1);
  EXPECT_GE(guest.unsent(), all.size() - 64 * 1024 - Slab::small);
  guest.close(true);
}

TEST_F(ServerTest, answers_before_a_request_that_waits_are_not_held_back) {
  Guest guest = connect();
  guest.send(get("/a") + get("/wait") + get("/b"));
  EXPECT_EQ(guest.answer().body, "/a");
  ASSERT_TRUE(guest.until([&] { return desk.waiting(); }));
  desk.open();
  EXPECT_EQ(guest.answer().body, "/wait");
  EXPECT_EQ(guest.answer().body, "/b");
}

TEST_F(ServerTest, an_answer_before_half_a_head_is_not_held_back) {
  Guest guest = connect();
  guest.send(get("/a") + "GET /b HT");
  EXPECT_EQ(guest.answer().body, "/a");
  EXPECT_EQ(guest.ask("TP/1.1\r\nHost: h\r\n\r\n").body, "/b");
}

TEST_F(ServerTest, large_and_small_answers_keep_their_order) {
  desk.big.assign(100'000, 'b');
  Guest guest = connect();
  guest.send(get("/a") + get("/big") + get("/c") + get("/big") + get("/d"));
  EXPECT_EQ(guest.answer().body, "/a");
  EXPECT_EQ(guest.answer().body, desk.big);
  EXPECT_EQ(guest.answer().body, "/c");
  EXPECT_EQ(guest.answer().body, desk.big);
  EXPECT_EQ(guest.answer().body, "/d");
}

// --- heads

TEST_F(ServerTest, a_request_may_be_split_at_every_byte) {
  const std::string request = get("/split", "X-Field: value\r\n");
  for (std::size_t cut = 1; cut < request.size(); ++cut) {
    Guest guest = connect();
    guest.send(request.substr(0, cut));
    guest.run_for(Duration::millis(10));
    EXPECT_EQ(guest.ask(request.substr(cut)).body, "/split") << cut;
    guest.close();
  }
}

std::string head_of_size(std::size_t size) {
  std::string head = "GET /x HTTP/1.1\r\nHost: h\r\n";
  while (size - head.size() > 2000) head += "X-Fill: " + std::string(1000, 'f') + "\r\n";
  return head + "X-Last: " + std::string(size - head.size() - 12, 'l') + "\r\n\r\n";
}

TEST_F(ServerTest, a_head_grows_up_to_its_limit) {
  for (const std::size_t size : {4000u, 4063u, 4064u, 4065u, 16384u, 16385u, 32768u}) {
    Guest guest = connect();
    EXPECT_EQ(guest.ask(head_of_size(size)).status, 200) << size;
    EXPECT_EQ(guest.ask(head_of_size(size) + get("/y")).status, 200) << size;
    EXPECT_EQ(guest.answer().body, "/y") << size;
    guest.run_for(Duration::millis(1));
    EXPECT_EQ(machine.slab.outstanding(), 0u) << size;
    guest.close();
  }
}

TEST_F(ServerTest, a_head_over_its_limit_is_431_and_the_connection_ends) {
  Guest guest = connect();
  const Answer answer = guest.ask(head_of_size(32769));
  EXPECT_EQ(answer.status, 431);
  EXPECT_EQ(answer.field("Connection"), "close");
  EXPECT_TRUE(guest.until_ended());
  EXPECT_FALSE(guest.broken());
}

TEST_F(ServerTest, a_malformed_head_is_400_and_nothing_behind_it_is_read) {
  Guest guest = connect();
  guest.send(get("/a") + "GET /b HTTP/1.1\r\nHost: h\r\n broken\r\n\r\n" + get("/c"));
  EXPECT_EQ(guest.answer().body, "/a");
  const Answer answer = guest.answer();
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.field("Connection"), "close");
  EXPECT_TRUE(guest.until_ended());
  EXPECT_EQ(guest.got(), "");
}

TEST_F(ServerTest, fields_before_the_fault_can_be_read_by_whoever_refuses) {
  const std::string broken = "GET /b HTTP/1.1\r\nX-Corr-ID: client-chosen\r\nHost : h\r\n\r\n";
  EXPECT_EQ(connect().ask(broken).status, 400);
  EXPECT_EQ(desk.refused_corr, "client-chosen");
  // Also in an exchange that has served another request before.
  Guest guest = connect();
  EXPECT_EQ(guest.ask(get("/a", "X-Corr-ID: somebody-else\r\n")).status, 200);
  EXPECT_EQ(guest.ask(broken).status, 400);
  EXPECT_EQ(desk.refused_corr, "client-chosen");
}

TEST_F(ServerTest, fields_of_a_head_that_stalls_can_be_read_after_its_buffer_grew) {
  const std::string start = "GET /b HTTP/1.1\r\nX-Corr-ID: client-chosen\r\nX-Fill: ";
  Guest guest = connect();
  guest.send(start + std::string(4064 - start.size(), 'f'));  // exactly what fits
  guest.run_for(Duration::millis(10));
  guest.send("ffff");
  EXPECT_EQ(guest.answer().status, 408);
  EXPECT_EQ(desk.refused_corr, "client-chosen");
}

TEST_F(ServerTest, half_a_head_is_408_when_its_time_is_up) {
  Guest guest = connect();
  guest.send("GET /slow HT");
  guest.run_for(Duration::millis(4900));
  EXPECT_EQ(guest.got(), "");
  const Answer answer = guest.answer(false, Duration::millis(200));
  EXPECT_EQ(answer.status, 408);
  EXPECT_EQ(answer.field("Connection"), "close");
  EXPECT_EQ(desk.refused, std::vector{ErrorCode::timeout_read});
  EXPECT_EQ(desk.slow_reads, 1);
  EXPECT_TRUE(guest.until_ended());
}

TEST_F(ServerTest, dripping_bytes_do_not_extend_the_time_of_a_head) {
  Guest guest = connect();
  guest.send("GET /");
  for (int i = 0; i < 60 && guest.got().empty(); ++i) {
    guest.send("x");
    guest.run_for(Duration::millis(100));
  }
  EXPECT_THAT(guest.got(), StartsWith("HTTP/1.1 408 "));
}

TEST_F(ServerTest, an_idle_connection_is_closed_in_silence) {
  Guest fresh = connect();
  Guest used = connect();
  EXPECT_EQ(used.ask(get("/x")).status, 200);
  fresh.run_for(Duration::seconds(59));
  EXPECT_EQ(server.connections(), 2u);
  EXPECT_TRUE(fresh.until_ended(Duration::seconds(2)));
  EXPECT_TRUE(used.until_ended(Duration::seconds(2)));
  EXPECT_EQ(fresh.got() + used.got(), "");
  EXPECT_EQ(desk.slow_reads, 0);
}

TEST_F(ServerTest, half_a_head_and_then_the_end_is_no_request) {
  Guest guest = connect();
  guest.send("GET /half HT");
  guest.shutdown_send();
  EXPECT_TRUE(guest.until_ended(Duration::seconds(1)));
  EXPECT_EQ(guest.got(), "");
  EXPECT_EQ(desk.begun, 0);
}

TEST_F(ServerTest, a_request_that_comes_with_the_end_of_the_stream_is_answered) {
  Guest guest = connect();
  guest.send(get("/last"));
  guest.shutdown_send();
  EXPECT_EQ(guest.answer().body, "/last");
  EXPECT_TRUE(guest.until_ended(Duration::seconds(1)));
}

// --- bodies

TEST_F(ServerTest, nothing_is_read_that_was_not_pulled) {
  Guest guest = connect();
  const std::string body(300'000, 'b');
  guest.send(post("/read-late", body));
  guest.run_for(Duration::seconds(1));
  EXPECT_GE(guest.unsent(), body.size() - 64 * 1024 - Slab::small);
  desk.open();
  EXPECT_EQ(guest.answer().body, body);
}

TEST_F(ServerTest, a_body_that_stalls_holds_no_buffer_but_its_head) {
  Guest guest = connect();
  guest.send("POST /read HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nabc");
  guest.run_for(Duration::seconds(1));
  EXPECT_EQ(machine.slab.outstanding(), 1u);
  EXPECT_EQ(guest.ask("defghij").body, "abcdefghij");
}

TEST_F(ServerTest, a_body_may_be_split_at_every_byte_before_a_pipelined_request) {
  const std::string request = post("/read", "0123456789") + get("/next");
  for (std::size_t cut = 1; cut < request.size(); ++cut) {
    Guest guest = connect();
    guest.send(request.substr(0, cut));
    guest.run_for(Duration::millis(10));
    guest.send(request.substr(cut));
    EXPECT_EQ(guest.answer().body, "0123456789") << cut;
    EXPECT_EQ(guest.answer().body, "/next") << cut;
    guest.close();
  }
}

TEST_F(ServerTest, a_chunked_body_may_be_split_at_every_byte_before_a_pipelined_request) {
  const std::string request =
      "POST /read HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
      "4;ext\r\nWiki\r\n5\r\npedia\r\n0\r\nTrailer: t\r\n\r\n" +
      get("/next");
  for (std::size_t cut = 1; cut < request.size(); ++cut) {
    Guest guest = connect();
    guest.send(request.substr(0, cut));
    guest.run_for(Duration::millis(10));
    guest.send(request.substr(cut));
    EXPECT_EQ(guest.answer().body, "Wikipedia") << cut;
    EXPECT_EQ(guest.answer().body, "/next") << cut;
    guest.run_for(Duration::millis(1));
    EXPECT_EQ(machine.slab.outstanding(), 0u) << cut;
    guest.close();
  }
}

TEST_F(ServerTest, a_large_chunked_body_arrives_whole) {
  std::string body, wire = "POST /read HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 40; ++i) {
    const std::string chunk(10'000, static_cast<char>('a' + i % 26));
    body += chunk;
    wire += "2710\r\n" + chunk + "\r\n";
  }
  Guest guest = connect();
  guest.send(wire + "0\r\n\r\n" + get("/next"));
  EXPECT_EQ(guest.answer().body, body);
  EXPECT_EQ(guest.answer().body, "/next");
}

TEST_F(ServerTest, a_broken_chunk_is_malformed_and_ends_the_connection) {
  Guest guest = connect();
  const Answer answer =
      guest.ask("POST /read HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcX\r\n");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(answer.field("Connection"), "close");
  EXPECT_TRUE(guest.until_ended());
}

TEST_F(ServerTest, a_client_that_waits_for_100_gets_it_with_the_first_pull_only) {
  Guest guest = connect();
  guest.send("POST /read-late HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\nExpect: 100-continue\r\n\r\n");
  guest.run_for(Duration::seconds(1));
  EXPECT_EQ(guest.got(), "");
  desk.open();
  EXPECT_EQ(guest.answer().status, 100);
  guest.send("abc");
  guest.run_for(Duration::millis(10));
  guest.send("def");
  const Answer answer = guest.answer();
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "abcdef");
}

TEST_F(ServerTest, a_client_that_waits_for_100_and_is_refused_gets_no_100) {
  Guest guest = connect();
  const Answer answer =
      guest.ask("POST /refuse HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(answer.status, 413);
  EXPECT_EQ(answer.field("Connection"), "close");
  EXPECT_TRUE(guest.until_ended());
}

TEST_F(ServerTest, a_body_without_progress_is_timeout_read) {
  Guest guest = connect();
  guest.send("POST /read HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nab");
  guest.run_for(Duration::millis(4900));
  EXPECT_EQ(guest.got(), "");
  const Answer answer = guest.answer(false, Duration::millis(200));
  EXPECT_EQ(answer.status, 408);
  EXPECT_EQ(answer.field("Connection"), "close");
  EXPECT_EQ(desk.slow_reads, 1);
}

TEST_F(ServerTest, a_chunked_body_without_progress_is_timeout_read) {
  Guest guest = connect();
  guest.send("POST /read HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab");
  EXPECT_EQ(guest.answer(false, Duration::seconds(6)).status, 408);
  EXPECT_EQ(desk.slow_reads, 1);
}

TEST_F(ServerTest, a_body_below_the_lowest_rate_is_timeout_read) {
  Guest guest = connect();
  guest.send("POST /read HTTP/1.1\r\nHost: h\r\nContent-Length: 1000000\r\n\r\n");
  for (int i = 0; i < 100 && guest.got().empty(); ++i) {
    guest.send(std::string(100, 'x'));  // 1000 bytes a second
    guest.run_for(Duration::millis(100));
  }
  EXPECT_THAT(guest.got(), StartsWith("HTTP/1.1 408 "));
  EXPECT_EQ(desk.slow_reads, 1);
  EXPECT_LT(world.now(), Instant{} + Duration::seconds(7));
}

TEST_F(ServerTest, a_body_above_the_lowest_rate_may_take_its_time) {
  Guest guest = connect();
  guest.send("POST /read HTTP/1.1\r\nHost: h\r\nContent-Length: 36000\r\n\r\n");
  for (int i = 0; i < 30; ++i) {
    EXPECT_EQ(guest.got(), "") << i;
    guest.send(std::string(1200, 'x'));
    guest.run_for(Duration::seconds(1));
  }
  EXPECT_EQ(guest.answer().body.size(), 36000u);
  EXPECT_EQ(desk.slow_reads, 0);
}

TEST_F(ServerTest, a_slow_body_is_counted_also_when_the_handler_was_busy_meanwhile) {
  Guest guest = connect();
  guest.send("POST /read-sleepy HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n");
  guest.run_for(Duration::millis(10));
  guest.send("a");
  EXPECT_EQ(guest.answer(false, Duration::seconds(20)).status, 408);
  EXPECT_EQ(desk.slow_reads, 1);
}

TEST_F(ServerTest, the_deadline_of_the_call_ends_the_wait_for_a_body) {
  desk.deadline = Duration::millis(500);
  Guest guest = connect();
  guest.send("POST /read HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nab");
  EXPECT_EQ(guest.answer(false, Duration::seconds(3)).status, 504);
  EXPECT_EQ(desk.slow_reads, 0);
}

TEST_F(ServerTest, a_client_that_used_up_the_deadline_by_sending_slowly_is_told_so) {
  desk.deadline = Duration::seconds(2);
  Guest guest = connect();
  guest.send("POST /read HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nab");
  EXPECT_EQ(guest.answer(false, Duration::seconds(3)).status, 408);
  EXPECT_EQ(desk.slow_reads, 1);
}

TEST_F(ServerTest, a_body_that_is_cut_off_is_connection_lost) {
  Guest guest = connect();
  guest.send("POST /read-late HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\nab");
  ASSERT_TRUE(guest.until([&] { return desk.waiting(); }));
  guest.close();
  ASSERT_TRUE(guest.until([&] { return desk.stopped != StopReason::none; }));
  EXPECT_TRUE(world.run_until([&] { return server.connections() == 0; }));
  ASSERT_TRUE(desk.body_error.has_value());
}

TEST_F(ServerTest, a_body_that_is_here_and_was_not_pulled_is_skipped) {
  Guest guest = connect();
  guest.send(post("/unread", "some body") + get("/next"));
  EXPECT_EQ(guest.answer().body, "/unread");
  EXPECT_EQ(guest.answer().body, "/next");
}

// --- early answers

TEST_F(ServerTest, an_early_answer_arrives_although_the_client_goes_on_sending) {
  Guest guest = connect();
  guest.send(post("/refuse", std::string(1'000'000, 'x')));
  const Answer answer = guest.answer();
  EXPECT_EQ(answer.status, 413);
  EXPECT_EQ(answer.body, "too much");
  EXPECT_EQ(answer.field("Connection"), "close");
  EXPECT_TRUE(guest.until([&] { return guest.ended() && guest.unsent() == 0; }, Duration::millis(1900)));
  EXPECT_FALSE(guest.broken());
  EXPECT_EQ(server.connections(), 1u);
  guest.close();
  EXPECT_TRUE(world.run_until([&] { return server.connections() == 0; }, Duration::millis(100)));
}

TEST_F(ServerTest, what_follows_an_early_answer_is_discarded_for_two_seconds_at_most) {
  Guest guest = connect();
  guest.send("POST /refuse HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n");
  EXPECT_EQ(guest.answer().status, 413);
  guest.run_for(Duration::millis(1900));
  EXPECT_EQ(server.connections(), 1u);
  guest.run_for(Duration::millis(200));
  EXPECT_EQ(server.connections(), 0u);
}

TEST_F(ServerTest, what_follows_an_early_answer_is_discarded_up_to_two_mebibytes) {
  Guest guest = connect();
  guest.send(post("/refuse", std::string(8 << 20, 'x')));
  EXPECT_EQ(guest.answer().status, 413);
  EXPECT_TRUE(guest.until([&] { return server.connections() == 0; }, Duration::millis(1900)));
  const std::size_t taken = (std::size_t{8} << 20) - guest.unsent();
  EXPECT_GE(taken, std::size_t{2} << 20);
  EXPECT_LE(taken, (std::size_t{2} << 20) + 200'000);
}

// HS-10
TEST_F(ServerTest, what_follows_an_early_answer_leaves_a_turn_to_others_after_each_piece) {
  constexpr std::size_t piece = Slab::large, body = 3 << 20;
  world.network().faults.window = world.network().faults.send_buffer = 2 * body;
  Guest guest = connect();
  guest.send(post("/wait", std::string(body, 'x')));
  ASSERT_TRUE(guest.until([&] { return desk.waiting(); }));
  guest.run_for(Duration::seconds(1));  // all of it is here
  ASSERT_EQ(guest.unsent(), 0u);
  count_turns();
  desk.open();
  EXPECT_TRUE(world.run_until([&] { return server.connections() == 0; }, Duration::millis(1900)));
  counting = false;
  EXPECT_GE(desk.left_at - desk.finished_at, static_cast<int>(ServerOptions{}.linger_bytes / piece));
}

TEST_F(ServerTest, the_last_answer_arrives_although_more_requests_were_sent_behind_it) {
  Guest guest = connect();
  guest.send(get("/wait", "Connection: close\r\n"));
  ASSERT_TRUE(guest.until([&] { return desk.waiting(); }));
  guest.send(get("/never"));
  guest.run_for(Duration::millis(100));
  guest.reading = false;  // a reset would throw away what was not read yet
  desk.open();
  guest.run_for(Duration::millis(100));
  guest.reading = true;
  EXPECT_EQ(guest.answer().body, "/wait");
}

// --- handlers

TEST_F(ServerTest, a_handler_that_throws_is_500_and_ends_the_connection) {
  Guest guest = connect();
  const Answer answer = guest.ask(get("/throw") + get("/next"));
  EXPECT_EQ(answer.status, 500);
  EXPECT_EQ(answer.field("Connection"), "close");
  EXPECT_TRUE(guest.until_ended());
  EXPECT_EQ(guest.got(), "");
}

//
TEST_F(ServerTest, a_spoiled_answer_is_500_and_nothing_of_it_is_sent) {
  for (const char* path : {"/spoiled", "/spoiled-type", "/overlong"}) {
    Guest guest = connect();
    const Answer answer = guest.ask(get(path));
    EXPECT_EQ(answer.status, 500) << path;
    EXPECT_THAT(answer.head, Not(HasSubstr("X-Injected"))) << path;
    EXPECT_THAT(answer.head, HasSubstr("Connection: close")) << path;
    EXPECT_EQ(answer.body, "internal") << path;
  }
}

TEST_F(ServerTest, a_head_larger_than_usual_is_sent_whole_behind_others_too) {
  Guest guest = connect();
  guest.send(get("/a") + get("/long-head") + get("/b"));
  EXPECT_EQ(guest.answer().body, "/a");
  const Answer answer = guest.answer();
  EXPECT_EQ(answer.status, 200);
  for (int i = 0; i < 20; ++i)
    EXPECT_THAT(answer.head,
                HasSubstr("\r\nX-Long: " + std::string(1000, static_cast<char>('a' + i)) + "\r\n"));
  EXPECT_EQ(answer.body, "sent");
  EXPECT_EQ(guest.answer().body, "/b");
}

TEST_F(ServerTest, a_head_that_has_begun_keeps_the_limit_that_it_began_with) {
  for (const std::size_t first : {500u, 3000u, 4032u, 8000u, 16300u, 18000u}) {
    ServerOptions options;
    server.set_options(options);
    Guest guest = connect();
    const std::string head = get("/a", "X-Long: " + std::string(20'000, 'x') + "\r\n");
    guest.send(head.substr(0, first));
    guest.run_for(Duration::seconds(1));
    options.head.head_bytes = 1024;
    server.set_options(options);
    guest.send(head.substr(first));
    EXPECT_EQ(guest.answer().body, "/a") << first;
    EXPECT_EQ(guest.ask(head).status, 431) << first;
  }
}

TEST_F(ServerTest, a_handler_that_throws_at_once_is_500_and_ends_the_connection) {
  Guest guest = connect();
  const Answer answer = guest.ask(get("/throw-at-once"));
  EXPECT_EQ(answer.status, 500);
  EXPECT_EQ(answer.field("Connection"), "close");
  EXPECT_TRUE(guest.until_ended());
}

TEST_F(ServerTest, a_connection_whose_task_fails_is_closed_and_counted_and_draining_ends) {
  Guest other = connect();
  for (const char* path : {"/throw-at-the-end", "/throw-twice"}) {
    desk.problems.clear();
    Guest guest = connect();
    guest.send(get(path));
    EXPECT_TRUE(guest.until_ended(Duration::seconds(1))) << path;
    EXPECT_EQ(desk.problems.size(), 1u) << path;
    EXPECT_EQ(server.connections(), 1u) << path;
  }
  EXPECT_EQ(other.ask(get("/still-here")).body, "/still-here");
  bool joined = false;
  struct Join {
    static Task<> run(Call call, Scope* scope, bool* joined) {
      *joined = (co_await scope->join(call.within(Duration::seconds(5)))).has_value();
    }
  };
  Scope waiting(host.shard());
  drain();
  {
    ShardScope here(host.shard());
    waiting.spawn("join", Join::run(waiting.call(), &host.scope(), &joined));
  }
  EXPECT_TRUE(other.until([&] { return joined; }, Duration::seconds(2)));
  EXPECT_EQ(desk.complete.size(), 3u);
}

TEST_F(ServerTest, many_that_connect_at_once_leave_a_turn_to_others) {
  world.network().faults.backlog = 1000;
  count_turns();
  // All have knocked before the listener looks.
  std::vector<std::unique_ptr<io::Stream>> guests(300);
  struct Dial {
    static Task<> run(Call call, io::Machine machine, std::unique_ptr<io::Stream>* out) {
      auto made = co_await machine.network.connect(call, {"host", port, {}});
      if (made) *out = std::move(*made);
    }
  };
  world.network().faults.jitter = {};
  {
    ShardScope here(away.shard());
    for (auto& guest : guests)
      away.scope().spawn("dial", Dial::run(away.scope().call(), away.machine(), &guest));
  }
  EXPECT_TRUE(
      world.run_until([&] { return desk.admitted_at.size() == guests.size(); }, Duration::seconds(1)));
  counting = false;
  for (std::size_t i = 64; i < desk.admitted_at.size(); ++i)
    EXPECT_LT(desk.admitted_at[i - 64], desk.admitted_at[i]) << i;
  // The host may have admitted one whose connect has not returned yet.
  const auto is_there = [](const auto& guest) { return guest != nullptr; };
  ASSERT_TRUE(world.run_until([&] { return std::ranges::all_of(guests, is_there); }, Duration::seconds(1)));
  guests.clear();
  EXPECT_TRUE(world.run_until([&] { return server.connections() == 0; }, Duration::seconds(1)));
}

TEST_F(ServerTest, a_client_that_leaves_stops_its_handler) {
  for (const bool reset : {false, true}) {
    desk.stopped = StopReason::none;
    Guest guest = connect();
    guest.send(get("/wait"));
    ASSERT_TRUE(guest.until([&] { return desk.waiting(); }));
    guest.close(reset);
    EXPECT_TRUE(world.run_until([&] { return server.connections() == 0; }, Duration::millis(100)));
    EXPECT_EQ(desk.stopped, StopReason::client_gone);
  }
}

TEST_F(ServerTest, the_deadline_that_was_set_at_the_begin_ends_the_handler) {
  desk.deadline = Duration::seconds(3);
  Guest guest = connect();
  guest.send(get("/wait"));
  EXPECT_EQ(guest.answer(false, Duration::seconds(4)).body, "/wait");
  EXPECT_EQ(desk.stopped, StopReason::deadline);
}

// --- answers

TEST_F(ServerTest, an_answer_that_nobody_takes_breaks_the_connection) {
  world.network().faults.window = 2048;  // what the peer's kernel took for it earns it no time
  desk.big.assign(1 << 20, 'b');
  Guest guest = connect();
  guest.reading = false;
  guest.send(get("/big"));
  guest.run_for(Duration::millis(4900));
  EXPECT_EQ(server.connections(), 1u);
  guest.run_for(Duration::millis(200));
  EXPECT_EQ(server.connections(), 0u);
  EXPECT_EQ(desk.slow_writes, 1);
  EXPECT_EQ(desk.complete, std::vector{false});
  guest.reading = true;
  EXPECT_TRUE(guest.until_ended());
  EXPECT_TRUE(guest.broken());
}

TEST_F(ServerTest, an_answer_that_is_taken_slowly_arrives) {
  desk.big.assign(1 << 20, 'b');
  world.network().faults.slow_reader = io::sim::ChoiceSource::million;
  world.network().faults.slow_window = 16 * 1024;
  Guest guest = connect();
  EXPECT_EQ(guest.ask(get("/big")).body, desk.big);
  EXPECT_GT(world.now(), Instant{} + Duration::seconds(5));
  EXPECT_EQ(desk.slow_writes, 0);
}

TEST_F(ServerTest, a_request_whose_predecessors_answer_is_not_taken_is_finished_too) {
  Guest probe = connect();
  desk.big.assign(60'000, 'b');
  const Answer answer = probe.ask(get("/big"));
  // Fill the window up to a few bytes, so that the small answer behind it stalls.
  desk.big.assign(64 * 1024 - answer.head.size() - 2 - 50, 'b');
  Guest guest = connect();
  guest.reading = false;
  guest.send(get("/big") + get("/small") + get("/wait"));
  EXPECT_TRUE(guest.until([&] { return server.connections() == 1; }, Duration::seconds(45)));
  EXPECT_EQ(desk.slow_writes, 1);
  EXPECT_EQ(desk.begun, 4);
  EXPECT_EQ(desk.complete.size(), 4u);
}

TEST_F(ServerTest, head_sends_no_body) {
  desk.big.assign(10'000, 'b');
  desk.parts = {"part"};
  host.disk().put("/f", "file text");
  desk.file = open_file("/f");
  desk.file_count = 9;
  Guest guest = connect();
  for (const std::string path : {"/small", "/big", "/stream", "/file"}) {
    guest.send("HEAD " + path + " HTTP/1.1\r\nHost: h\r\n\r\n" + get("/next"));
    const Answer answer = guest.answer(true);
    EXPECT_EQ(answer.status, 200);
    if (path == "/big") EXPECT_EQ(answer.field("Content-Length"), "10000");
    if (path == "/file") EXPECT_EQ(answer.field("Content-Length"), "9");
    EXPECT_EQ(guest.answer().body, "/next") << path;
  }
  desk.file.reset();
}

TEST_F(ServerTest, an_http_1_0_connection_ends_with_its_answer) {
  Guest guest = connect();
  const Answer answer = guest.ask("GET /old HTTP/1.0\r\nHost: h\r\n\r\n");
  EXPECT_EQ(answer.body, "/old");
  EXPECT_EQ(answer.field("Connection"), "close");
  EXPECT_TRUE(guest.until_ended());
}

TEST_F(ServerTest, an_http_1_0_client_may_ask_to_keep_the_connection) {
  Guest guest = connect();
  const std::string request = "GET /old HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n\r\n";
  EXPECT_EQ(guest.ask(request).field("Connection"), "keep-alive");
  EXPECT_EQ(guest.ask(request).body, "/old");
}

TEST_F(ServerTest, connection_close_is_obeyed) {
  Guest guest = connect();
  guest.send(get("/a", "Connection: close\r\n") + get("/b"));
  const Answer answer = guest.answer();
  EXPECT_EQ(answer.body, "/a");
  EXPECT_EQ(answer.field("Connection"), "close");
  EXPECT_TRUE(guest.until_ended());
  EXPECT_EQ(desk.begun, 1);
}

TEST_F(ServerTest, a_stream_is_sent_chunked) {
  desk.parts = {"hello", " ", std::string(5000, 'w')};
  Guest guest = connect();
  guest.send(get("/stream") + get("/next"));
  const Answer answer = guest.answer();
  EXPECT_EQ(answer.field("Transfer-Encoding"), "chunked");
  EXPECT_EQ(answer.field("Content-Length"), std::nullopt);
  EXPECT_EQ(answer.body, "hello " + std::string(5000, 'w'));
  EXPECT_EQ(guest.answer().body, "/next");
}

TEST_F(ServerTest, a_stream_to_an_http_1_0_client_ends_with_the_connection) {
  desk.parts = {"one", "two"};
  Guest guest = connect();
  const Answer answer = guest.ask("GET /stream HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(answer.field("Transfer-Encoding"), std::nullopt);
  EXPECT_EQ(answer.field("Connection"), "close");
  EXPECT_EQ(answer.body, "onetwo");
  EXPECT_TRUE(guest.ended());
}

TEST_F(ServerTest, a_stream_that_fails_is_never_taken_for_the_whole) {
  desk.parts = {"part of it"};
  for (const Parts::End end : {Parts::End::error, Parts::End::exception}) {
    desk.parts_end = end;
    for (const char* version : {"1.1", "1.0"}) {
      desk.complete.clear();
      desk.begun = 0;
      Guest guest = connect();
      const Answer answer = guest.ask("GET /stream HTTP/" + std::string(version) + "\r\nHost: h\r\n\r\n");
      EXPECT_FALSE(answer.whole);
      EXPECT_TRUE(guest.broken());
      EXPECT_EQ(desk.complete, std::vector{false});
    }
  }
}

TEST_F(ServerTest, a_file_is_sent_from_its_range) {
  std::string text(300'000, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>('a' + i % 23);
  host.disk().put("/f", text);
  desk.file = open_file("/f");
  Guest guest = connect();
  for (const auto& [offset, count] : std::vector<std::pair<std::size_t, std::size_t>>{
           {0, text.size()}, {1000, 250'000}, {text.size() - 1, 1}, {5, 0}}) {
    desk.file_offset = offset;
    desk.file_count = count;
    guest.send(get("/file") + get("/next"));
    EXPECT_EQ(guest.answer().body, text.substr(offset, count));
    EXPECT_EQ(guest.answer().body, "/next");
  }
  desk.file.reset();
}

TEST_F(ServerTest, a_file_that_became_shorter_breaks_the_connection) {
  host.disk().put("/f", "short");
  desk.file = open_file("/f");
  desk.file_count = 50;
  Guest guest = connect();
  EXPECT_FALSE(guest.ask(get("/file")).whole);
  EXPECT_TRUE(guest.broken());
  EXPECT_EQ(desk.complete, std::vector{false});
  desk.file.reset();
}

// --- admission

TEST_F(ServerTest, a_refused_connection_is_told_why_and_closed) {
  desk.verdict = Gate::Admission::refused;
  Guest guest = connect();
  guest.send(get("/x"));  // which must not turn the answer into a reset
  const Answer answer = guest.answer();
  EXPECT_EQ(answer.status, 429);
  EXPECT_TRUE(answer.whole);
  EXPECT_EQ(answer.field("Connection"), "close");
  EXPECT_EQ(answer.field("Date"), "Thu, 01 Jan 2026 00:00:00 GMT");
  EXPECT_TRUE(guest.until_ended());
  EXPECT_FALSE(guest.broken());
  EXPECT_EQ(desk.begun, 0);
  guest.close();
  EXPECT_TRUE(world.run_until([&] { return server.connections() == 0; }, Duration::millis(100)));
}

TEST_F(ServerTest, without_descriptors_accepting_pauses_and_goes_on) {
  world.network().faults.accept_error = io::sim::ChoiceSource::million;
  Guest guest = connect();
  guest.send(get("/x"));
  const std::uint64_t before = world.steps();
  guest.run_for(Duration::seconds(2));
  EXPECT_EQ(server.connections(), 0u);
  EXPECT_LE(world.steps() - before, 50u);  // one attempt in 100 ms, not a spin
  world.network().faults.accept_error = 0;
  EXPECT_EQ(guest.answer(false, Duration::millis(150)).body, "/x");
}

// --- draining

TEST_F(ServerTest, draining_closes_idle_connections_at_once) {
  Guest guest = connect();
  EXPECT_EQ(guest.ask(get("/x")).status, 200);
  drain();
  EXPECT_TRUE(guest.until_ended(Duration::millis(100)));
  EXPECT_EQ(guest.got(), "");
  EXPECT_EQ(desk.doors, 1);
  EXPECT_FALSE(connect().connected());
}

TEST_F(ServerTest, draining_serves_what_was_queued_on_the_listener) {
  world.pause(host);
  Guest first = connect();
  Guest second = connect();
  first.send(get("/first"));
  second.send(get("/second"));
  drain();
  world.resume(host);
  for (Guest* guest : {&first, &second}) {
    const Answer answer = guest->answer();
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.field("Connection"), "close");
    EXPECT_TRUE(guest->until_ended(Duration::millis(100)));
  }
  EXPECT_TRUE(world.run_until([&] { return host.scope().empty(); }, Duration::millis(100)));
  EXPECT_EQ(desk.doors, 1);
}

TEST_F(ServerTest, draining_lets_what_has_begun_finish) {
  Guest guest = connect();
  guest.send(get("/wait"));
  ASSERT_TRUE(guest.until([&] { return desk.waiting(); }));
  drain();
  guest.run_for(Duration::seconds(1));
  EXPECT_EQ(server.connections(), 1u);
  desk.open();
  const Answer answer = guest.answer();
  EXPECT_EQ(answer.body, "/wait");
  EXPECT_EQ(answer.field("Connection"), "close");
  EXPECT_TRUE(guest.until_ended(Duration::millis(100)));
  EXPECT_TRUE(world.run_until([&] { return host.scope().empty(); }, Duration::millis(100)));
}

TEST_F(ServerTest, draining_answers_a_head_that_had_begun_to_arrive) {
  Guest guest = connect();
  EXPECT_EQ(guest.ask(get("/x")).status, 200);
  guest.send("GET /late HTTP/1.1\r\n");
  guest.run_for(Duration::millis(10));
  drain();
  const Answer answer = guest.ask("Host: h\r\n\r\n");
  EXPECT_EQ(answer.body, "/late");
  EXPECT_EQ(answer.field("Connection"), "close");
}

TEST_F(ServerTest, a_connection_that_never_sent_anything_ends_when_draining_stops_its_scope) {
  Guest guest = connect();
  guest.run_for(Duration::millis(10));
  drain();
  guest.run_for(Duration::millis(10));
  host.scope().cancel(StopReason::draining);
  EXPECT_TRUE(guest.until_ended(Duration::millis(100)));
  EXPECT_EQ(server.connections(), 0u);
}

TEST_F(ServerTest, new_timeouts_hold_for_what_begins_after_them) {
  ServerOptions quick;
  quick.timeouts.head = Duration::millis(100);
  server.set_options(quick);
  Guest guest = connect();
  guest.send("GET /slow");
  EXPECT_EQ(guest.answer(false, Duration::millis(200)).status, 408);
}

// Whatever the network does with the pieces, every answer is whole and in its place.
TEST_F(ServerTest, any_split_and_any_delay_gives_the_same_answers) {
  auto& faults = world.network().faults;
  faults.split_write = faults.split_delivery = 300'000;
  faults.slow_reader = 200'000;
  faults.clog = 10'000;
  desk.big.assign(20'000, 'b');
  desk.parts = {"one", "two"};
  for (int round = 0; round < 30; ++round) {
    Guest guest = connect();
    guest.send(get("/a") + post("/read", std::string(5000, 'r')) + get("/big") + get("/stream") +
               "POST /read HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" +
               get("/z"));
    EXPECT_EQ(guest.answer().body, "/a");
    EXPECT_EQ(guest.answer().body, std::string(5000, 'r'));
    EXPECT_EQ(guest.answer().body, desk.big);
    EXPECT_EQ(guest.answer().body, "onetwo");
    EXPECT_EQ(guest.answer().body, "abc");
    EXPECT_EQ(guest.answer().body, "/z");
    guest.close();
  }
}

}  // namespace
}  // namespace cairn::http
