// Answers made of pieces: what arrives, and when what they were made of is let go.
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "http/h1/server.h"
#include "io/sim/guest.h"
#include "runtime/wait.h"

namespace cairn::http {
namespace {

using io::sim::Answer;
using io::sim::Guest;

constexpr std::uint16_t port = 80;

std::string letters(std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + i % 23 + (i >> 12) % 3);
  return text;
}

// Counts what is held of it.
struct Kept {
  int held = 0;
  int released = 0;
  io::Hold hold() {
    ++held;
    return {this, [](void* self) noexcept {
              --static_cast<Kept*>(self)->held;
              ++static_cast<Kept*>(self)->released;
            }};
  }
};

// How a source gives one part of the text.
enum class How : std::uint8_t { buffer, memory, file, stuck, late, error, exception, sync_exception };
struct Part {
  How how;
  std::size_t size;
  bool waits = false;
};

class Parts final : public io::BodySource {
 public:
  Parts(io::Machine& machine, io::Arena& arena, Kept& kept, std::vector<Part> parts)
      : machine_(machine), arena_(arena), kept_(kept), parts_(std::move(parts)) {}

  std::optional<io::Piece> try_next() override {
    if (at_ == parts_.size()) return io::Piece();
    if (parts_[at_].how == How::sync_exception) throw std::runtime_error("try_next");
    const bool at_hand = parts_[at_].how <= How::file && !parts_[at_].waits;
    return at_hand ? std::optional(take()) : std::nullopt;
  }
  Task<Result<io::Piece>> next(Call call) override {
    co_await yield(call);
    if (parts_[at_].how == How::stuck) CO_TRY_VOID(co_await sleep_for(call, Duration::seconds(3600)));
    if (parts_[at_].how == How::late) CO_TRY_VOID(co_await sleep_for(call, Duration::seconds(50)));
    if (parts_[at_].how == How::error) co_return fail(ErrorCode::integrity, "part");
    if (parts_[at_].how == How::exception) throw std::runtime_error("next");
    co_return take();
  }

 private:
  io::Piece take() {
    const Part& part = parts_[at_++];
    const std::size_t from = std::exchange(offset_, offset_ + part.size);
    const ByteView bytes(arena_.data() + from, part.size);
    if (part.how == How::file) return io::Piece::range(arena_.file(), from, part.size, kept_.hold());
    if (part.how == How::memory) return io::Piece::memory(bytes, kept_.hold());
    Buffer buffer = machine_.slab.take(part.size);
    std::copy(bytes.begin(), bytes.end(), buffer.room().begin());
    buffer.fill(part.size);
    return buffer;
  }

  io::Machine& machine_;
  io::Arena& arena_;
  Kept& kept_;
  std::vector<Part> parts_;
  std::size_t at_ = 0;
  std::size_t offset_ = 0;
};

// Answers /sized, /chunked, /held and /file from the arena's text, and any other path with itself.
class Desk final : public Gate, public Answerer {
 public:
  explicit Desk(io::Machine& machine) : machine_(machine) {}

  Next begin(Exchange& exchange) override {
    Response& response = exchange.response;
    const std::string_view path = exchange.request().path();
    if (path == "/sized") {
      response.answer_sized("text/plain", source(), count);
    } else if (path == "/chunked") {
      response.answer_stream("text/plain", source());
    } else if (path == "/held") {
      response.answer_held("text/plain", as_text({arena->data(), count}), kept.hold());
    } else if (path == "/file") {
      response.answer_file("text/plain", arena->file(), 0, count, kept.hold());
    } else {
      response.text = path;
      response.answer_text("text/plain");
    }
    response.status = status;
    return Next::answered;
  }
  Task<> handle(Call, Exchange&) override { co_return; }
  void refuse(Exchange&, Error) override { FAIL(); }
  void finished(Exchange&, bool whole) override { complete.push_back(whole); }
  Admission admit(const io::PeerAddress&, bool) override { return Admission::welcome; }
  void left(const io::PeerAddress&, Admission) override {}
  void timed_out(Slow) override { ++slow; }

  std::unique_ptr<Parts> source() { return std::make_unique<Parts>(machine_, *arena, kept, parts); }

  std::unique_ptr<io::Arena> arena;
  std::vector<Part> parts;
  std::size_t count = 0;
  int status = 200;
  Kept kept;
  std::vector<bool> complete;
  int slow = 0;

 private:
  io::Machine& machine_;
};

class SendTest : public testing::Test {
 protected:
  static constexpr std::size_t size = 3 << 20;

  SendTest() {
    desk.arena = std::move(*machine.memory.make_arena(size));
    std::copy(text.begin(), text.end(), reinterpret_cast<char*>(desk.arena->data()));
    ShardScope here(host.shard());
    EXPECT_TRUE(server.listen({"host", port, {}}).has_value());
    server.start(host.scope());
  }
  void TearDown() override {
    world.stop();
    EXPECT_EQ(desk.kept.held, 0);
  }
  Guest connect() { return Guest(world, away, {"host", port, {}}); }
  static std::string get(std::string_view path) { return "GET " + std::string(path) + rest; }
  static std::string head(std::string_view path) { return "HEAD " + std::string(path) + rest; }

  inline static const std::string rest = " HTTP/1.1\r\nHost: h\r\n\r\n";
  const std::string text = letters(size);
  io::sim::World world{1};
  io::sim::Node& host = world.add_node("host");
  io::sim::Node& away = world.add_node("away");
  io::Machine machine = host.machine();
  Desk desk{machine};
  Server& server = host.make<Server>(machine, desk, desk, ServerOptions{});
};

// Every kind of piece, at hand and waited for, and a short one of each.
std::vector<Part> many_parts() {
  std::vector<Part> parts;
  for (const std::size_t size : {1u, 300u, 60'000u})
    for (const How how : {How::file, How::memory, How::buffer})
      for (const bool waits : {false, true}) parts.push_back({how, size, waits});
  parts.push_back({How::file, 200'000, false});
  return parts;
}
std::size_t total(const std::vector<Part>& parts) {
  std::size_t sum = 0;
  for (const Part& part : parts) sum += part.size;
  return sum;
}

TEST_F(SendTest, pieces_of_every_kind_arrive_as_one_body) {
  desk.parts = many_parts();
  desk.count = total(desk.parts);
  Guest guest = connect();
  guest.send(get("/sized") + get("/chunked") + get("/next"));
  const Answer sized = guest.answer();
  EXPECT_EQ(sized.field("Content-Length"), std::to_string(desk.count));
  EXPECT_EQ(sized.field("Transfer-Encoding"), std::nullopt);
  EXPECT_EQ(sized.body, text.substr(0, desk.count));
  const Answer chunked = guest.answer();
  EXPECT_EQ(chunked.field("Content-Length"), std::nullopt);
  EXPECT_EQ(chunked.body, text.substr(0, desk.count));
  EXPECT_EQ(guest.answer().body, "/next");
  EXPECT_EQ(desk.complete, (std::vector{true, true, true}));
  EXPECT_EQ(desk.kept.released, 26);
}

TEST_F(SendTest, any_first_piece_shares_the_way_with_its_head) {
  for (const How how : {How::file, How::memory, How::buffer}) {
    for (const bool waits : {false, true}) {
      desk.parts = {{how, 500, waits}};
      desk.count = 500;
      Guest guest = connect();
      EXPECT_EQ(guest.ask(get("/sized")).body, text.substr(0, 500));
      EXPECT_EQ(guest.pieces(), 1u);
    }
  }
}

TEST_F(SendTest, a_sized_stream_needs_no_end_piece) {
  desk.parts = {{How::memory, 100}, {How::error, 0}};
  desk.count = 100;
  Guest guest = connect();
  EXPECT_EQ(guest.ask(get("/sized")).body, text.substr(0, 100));
  EXPECT_EQ(guest.ask(get("/next")).body, "/next");
}

TEST_F(SendTest, a_sized_stream_of_nothing_is_an_empty_body) {
  desk.parts = {{How::error, 0}};
  Guest guest = connect();
  const Answer answer = guest.ask(get("/sized"));
  EXPECT_TRUE(answer.whole);
  EXPECT_EQ(answer.field("Content-Length"), "0");
  EXPECT_EQ(guest.ask(get("/next")).body, "/next");
}

TEST_F(SendTest, an_empty_chunked_stream_ends_at_once) {
  for (const How how : {How::file, How::memory}) {
    desk.parts = {{how, 0}};
    Guest guest = connect();
    guest.send(get("/chunked") + get("/next"));
    const Answer answer = guest.answer();
    EXPECT_TRUE(answer.whole);
    EXPECT_EQ(answer.body, "");
    EXPECT_EQ(guest.answer().body, "/next");
  }
}

TEST_F(SendTest, an_http_1_0_client_keeps_the_connection_over_a_sized_stream) {
  desk.parts = {{How::memory, 1000}};
  desk.count = 1000;
  Guest guest = connect();
  const std::string request = "GET /sized HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\n\r\n";
  for (int i = 0; i < 2; ++i) {
    const Answer answer = guest.ask(request);
    EXPECT_EQ(answer.field("Connection"), "keep-alive");
    EXPECT_EQ(answer.body, text.substr(0, 1000));
  }
}

TEST_F(SendTest, a_sized_stream_that_ends_early_or_fails_is_never_taken_for_the_whole) {
  const std::vector<std::vector<Part>> cases{
      {},
      {{How::memory, 999}},
      {{How::file, 999}},
      {{How::memory, 500}, {How::error, 0}},
      {{How::file, 500}, {How::exception, 0}},
      {{How::file, 500}, {How::sync_exception, 0}},
      {{How::error, 0}},
  };
  desk.count = 1000;
  for (const auto& parts : cases) {
    desk.parts = parts;
    desk.complete.clear();
    Guest guest = connect();
    EXPECT_FALSE(guest.ask(get("/sized")).whole);
    EXPECT_TRUE(guest.broken());
    EXPECT_EQ(desk.complete, std::vector{false});
    EXPECT_EQ(desk.kept.held, 0);
  }
}

TEST_F(SendTest, not_one_byte_beyond_the_promised_size_is_sent) {
  desk.count = 1000;
  for (const How how : {How::buffer, How::memory, How::file}) {
    desk.parts = {{How::memory, 600}, {how, 401}};
    Guest guest = connect();
    const Answer answer = guest.ask(get("/sized"));
    EXPECT_FALSE(answer.whole);
    EXPECT_LE(answer.body.size(), 600u);  // the reset may overtake them
    EXPECT_EQ(guest.got(), "");
    EXPECT_TRUE(guest.broken());
  }
}

TEST_F(SendTest, answers_gathered_before_a_stream_do_not_wait_for_it) {
  desk.parts = {{How::stuck, 0}};
  desk.count = 1000;
  Guest guest = connect();
  guest.send(get("/before") + get("/sized"));
  EXPECT_EQ(guest.answer().body, "/before");
  guest.close(true);
}

TEST_F(SendTest, held_memory_is_sent_and_then_let_go) {
  Guest guest = connect();
  for (const std::size_t count : {0u, 10u, 1500u, 3000u, 64'000u, 1'000'000u}) {
    desk.count = count;
    EXPECT_EQ(guest.ask(get("/held")).body, text.substr(0, count));
    EXPECT_EQ(desk.kept.held, 0) << count;
  }
}

TEST_F(SendTest, a_held_file_is_sent_and_then_let_go) {
  Guest guest = connect();
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{70'000}, size}) {
    desk.count = count;
    EXPECT_EQ(guest.ask(get("/file")).body, text.substr(0, count));
    EXPECT_EQ(desk.kept.held, 0) << count;
  }
}

TEST_F(SendTest, a_slow_reader_holds_few_pieces) {
  desk.count = size;
  for (const How how : {How::file, How::memory}) {
    desk.parts.assign(size / 65'536, {how, 65'536});
    Guest guest = connect();
    guest.reading = false;
    guest.send(get("/sized"));
    guest.run_for(Duration::millis(100));
    EXPECT_GE(desk.kept.held, 1);
    EXPECT_LE(desk.kept.held, 5);
    guest.close(true);
    guest.run_for(Duration::seconds(1));
  }
}

TEST_F(SendTest, what_a_slow_reader_has_not_taken_stays_held) {
  desk.count = size;
  desk.parts = {{How::file, size / 2}, {How::memory, size / 2}};
  for (const char* path : {"/held", "/file", "/sized"}) {
    desk.kept.released = 0;
    Guest guest = connect();
    guest.reading = false;
    guest.send(get(path));
    guest.run_for(Duration::millis(100));
    EXPECT_GE(desk.kept.held, 1) << path;
    guest.reading = true;
    EXPECT_EQ(guest.answer().body, text) << path;
    EXPECT_EQ(desk.kept.held, 0) << path;
  }
}

TEST_F(SendTest, a_reader_that_stalls_or_leaves_lets_go_of_everything) {
  desk.count = size;
  desk.parts = {{How::file, size / 2}, {How::memory, size / 2}};
  for (const char* path : {"/held", "/file", "/sized", "/chunked"}) {
    for (const bool leaves : {false, true}) {
      desk.slow = 0;
      desk.complete.clear();
      Guest guest = connect();
      guest.reading = false;
      guest.send(get(path));
      guest.run_for(Duration::millis(100));
      EXPECT_GE(desk.kept.held, 1) << path;
      if (leaves) guest.close(true);
      guest.run_for(Duration::seconds(120));
      EXPECT_EQ(desk.kept.held, 0) << path;
      EXPECT_EQ(desk.slow, leaves ? 0 : 1);
      EXPECT_EQ(desk.complete, std::vector{false});
    }
  }
}

TEST_F(SendTest, a_client_that_leaves_ends_the_wait_for_its_answers_next_piece) {
  desk.count = 200'000;
  for (const How first : {How::file, How::memory})
    for (const char* path : {"/sized", "/chunked"})
      for (const bool reset : {false, true}) {
        desk.parts = {{first, 100'000}, {How::stuck, 100'000}};
        desk.complete.clear();
        Guest guest = connect();
        guest.send(get(path));
        ASSERT_TRUE(guest.until([&] { return guest.got().size() > 100'000; }, Duration::seconds(1)));
        guest.run_for(Duration::seconds(1));
        EXPECT_EQ(desk.complete, std::vector<bool>{}) << "it waits for its source";
        guest.close(reset);
        guest.run_for(Duration::millis(10));
        EXPECT_EQ(desk.complete, std::vector{false}) << path;
        EXPECT_EQ(desk.kept.held, 0);
        EXPECT_EQ(server.connections(), 0u);
      }
}

TEST_F(SendTest, a_client_that_left_before_its_source_was_asked_is_not_waited_for) {
  // The client has gone while nothing was waited for: the pull that follows ends before it begins.
  desk.count = 200'000;
  desk.parts = {{How::memory, 100'000}, {How::stuck, 100'000}};
  Guest guest = connect();
  guest.send(get("/sized"));
  guest.shutdown_send();
  guest.run_for(Duration::seconds(1));
  EXPECT_EQ(desk.complete, std::vector{false});
}

TEST_F(SendTest, a_source_that_says_nothing_for_a_minute_breaks_the_connection) {
  desk.count = 200'000;
  desk.parts = {{How::memory, 100'000}, {How::stuck, 100'000}};
  Guest guest = connect();
  guest.send(get("/sized"));
  guest.run_for(Duration::seconds(59));
  EXPECT_EQ(desk.complete, std::vector<bool>{});
  guest.run_for(Duration::seconds(2));
  EXPECT_EQ(desk.complete, std::vector{false});
  EXPECT_TRUE(guest.broken());
}

TEST_F(SendTest, the_time_of_a_source_begins_anew_with_each_piece) {
  desk.parts.assign(5, {How::late, 1000});
  desk.count = 5000;
  Guest guest = connect();
  EXPECT_EQ(guest.ask(get("/sized")).body, text.substr(0, 5000));
  EXPECT_GT(world.now(), Instant{} + Duration::seconds(200));
}

// A client that leaves at every moment of an answer: whatever it waited for, all is let go and told once.
TEST_F(SendTest, a_client_may_leave_at_any_moment_of_an_answer) {
  desk.parts = {{How::file, 30'000, true},
                {How::memory, 40'000, false},
                {How::buffer, 5000, true},
                {How::file, 60'000, false},
                {How::memory, 20'000, true}};
  desk.count = total(desk.parts);
  world.network().faults.window = 8 * 1024;
  for (const char* path : {"/sized", "/chunked"})
    for (const bool reset : {false, true})
      for (int steps = 1; steps < 400; steps += 3) {
        desk.complete.clear();
        Guest guest = connect();
        guest.reading = steps % 2 == 0;
        guest.send(get(path));
        int step = 0;
        guest.until([&] { return ++step > steps; }, Duration::seconds(1));
        guest.close(reset);
        guest.run_for(Duration::seconds(61));
        ASSERT_LE(desk.complete.size(), 1u)
            << path << ", after " << steps;  // a reset may overtake the request
        ASSERT_EQ(desk.kept.held, 0) << path << ", after " << steps;
        ASSERT_EQ(server.connections(), 0u) << path << ", after " << steps;
      }
}

TEST_F(SendTest, head_sends_the_length_of_every_kind_and_no_body) {
  desk.parts = {{How::file, 5000}};
  desk.count = 5000;
  Guest guest = connect();
  for (const char* path : {"/sized", "/held", "/file", "/chunked"}) {
    guest.send(head(path) + get("/next"));
    const Answer answer = guest.answer(true);
    EXPECT_EQ(answer.field("Content-Length"),
              path == std::string_view("/chunked") ? std::nullopt : std::optional<std::string>("5000"));
    EXPECT_EQ(guest.answer().body, "/next") << path;
    EXPECT_EQ(desk.kept.held, 0) << path;
  }
}

TEST_F(SendTest, a_status_without_a_body_has_none_whatever_was_answered) {
  desk.parts = {{How::file, 5000}};
  desk.count = 5000;
  Guest guest = connect();
  for (const int status : {204, 304}) {
    for (const char* path : {"/sized", "/held", "/file", "/chunked"}) {
      desk.status = status;
      const Answer answer = guest.ask(get(path));
      EXPECT_EQ(answer.status, status);
      EXPECT_EQ(answer.field("Content-Length"), std::nullopt);
      EXPECT_EQ(answer.field("Transfer-Encoding"), std::nullopt);
      desk.status = 200;
      EXPECT_EQ(guest.ask(get("/next")).body, "/next") << path;
    }
  }
}

TEST_F(SendTest, a_fast_reader_does_not_keep_the_turn) {
  // A window that takes everything: nothing but the sender's own restraint lets the other task run.
  world.network().faults.window = world.network().faults.send_buffer = 4 * size;
  desk.count = size;
  desk.parts.assign(size / 65'536, {How::file, 65'536});
  int turns = 0;
  bool stop = false;
  struct Other {
    static Task<> run(Call call, const bool* stop, int* turns) {
      for (; !*stop; ++*turns) co_await yield(call);
    }
  };
  Guest guest = connect();
  guest.reading = false;
  {
    ShardScope here(host.shard());
    host.scope().spawn("other", Other::run(host.scope().call(), &stop, &turns));
  }
  guest.send(get("/sized"));
  ASSERT_TRUE(guest.until([&] { return desk.kept.released > 0; }, Duration::seconds(1)));
  EXPECT_LE(desk.kept.released, 17);
  const int before = turns;
  ASSERT_TRUE(guest.until([&] { return !desk.complete.empty(); }, Duration::seconds(1)));
  EXPECT_GT(turns, before);
  stop = true;
  guest.reading = true;
  EXPECT_EQ(guest.answer().body, text);
}

TEST(Hold, is_released_once_wherever_it_was_moved) {
  Kept kept;
  {
    io::Hold first = kept.hold();
    io::Hold second = std::move(first);
    EXPECT_TRUE(second);
    io::Hold third = kept.hold();
    third = std::move(second);
    EXPECT_EQ(kept.held, 1);
    io::Piece piece = io::Piece::memory({}, std::move(third));
    const io::Piece moved = std::move(piece);
    EXPECT_EQ(kept.released, 1);
  }
  EXPECT_EQ(kept.held, 0);
  EXPECT_EQ(kept.released, 2);
}

TEST(Piece, a_moved_buffer_keeps_its_bytes) {
  Slab slab;
  Buffer buffer = slab.take(10);
  std::copy_n(as_bytes("hello").begin(), 5, buffer.room().begin());
  buffer.fill(5);
  io::Piece piece = std::move(buffer);
  io::Piece moved = std::move(piece);
  EXPECT_EQ(as_text(moved.bytes), "hello");
  EXPECT_EQ(moved.size(), 5u);
  EXPECT_TRUE(io::Piece().empty());
}

TEST(Response, clear_lets_go_of_what_is_held) {
  Kept kept;
  Response response;
  response.answer_held("text/plain", "view", kept.hold());
  EXPECT_EQ(response.size(), 4u);
  response.clear();
  EXPECT_EQ(kept.held, 0);
  response.answer_file("text/plain", nullptr, 0, 9, kept.hold());
  response.clear();
  EXPECT_EQ(kept.held, 0);
}

}  // namespace
}  // namespace cairn::http
