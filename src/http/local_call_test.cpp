#include "http/local_call.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <vector>

#include "io/sim/world.h"
#include "runtime/wait.h"

namespace cairn::http {
namespace {

// Pieces of any kind, and where their blocks are.
class Pieces final : public io::BodySource {
 public:
  explicit Pieces(std::vector<io::Piece> pieces) : pieces_(std::move(pieces)) {}
  std::optional<io::Piece> try_next() override {
    if (at_ < pieces_.size()) return std::move(pieces_[at_++]);
    return waits ? std::nullopt : std::optional<io::Piece>(io::Piece());
  }
  Task<Result<io::Piece>> next(Call call) override {
    CO_TRY_VOID(co_await sleep_for(call, Duration::seconds(60)));
    co_return io::Piece();
  }
  bool waits = false;

 private:
  std::vector<io::Piece> pieces_;
  std::size_t at_ = 0;
};

io::Piece block(Slab& slab, std::string_view text) {
  Buffer buffer = slab.take(text.size());
  std::copy(as_bytes(text).begin(), as_bytes(text).end(), buffer.room().begin());
  buffer.fill(text.size());
  return buffer;
}

// An answer that reads the request's body only while it is sent.
class LateReader final : public io::BodySource {
 public:
  explicit LateReader(RequestBody& body) : body_(body) {}
  Task<Result<io::Piece>> next(Call call) override {
    CO_TRY(Buffer slice, co_await body_.next(call));
    co_return io::Piece(std::move(slice));
  }

 private:
  RequestBody& body_;
};

class Desk final : public Answerer {
 public:
  Next begin(Exchange& exchange) override {
    ++begun;
    answering = true;
    inside = exchange.inside;
    exchange.response.add_field("X-Corr-ID", "somebody");
    exchange.response.fields.keep();
    const std::string_view path = exchange.request().path();
    if (path == "/throw") throw std::runtime_error("begin");
    if (path == "/spoiled") exchange.response.add_field("X", "a\r\nb");
    trace = exchange.request().fields.get(FieldName::traceparent);
    corr = exchange.request().fields.get(FieldName::x_corr_id);
    if (path == "/echo" || path == "/wait") return Next::handle;
    if (path == "/file") {
      exchange.response.answer_file("text/plain", file, 0, 4);
      return Next::answered;
    }
    if (path == "/reads-late") {
      exchange.response.answer_stream("text/plain", std::make_unique<LateReader>(exchange.body));
      return Next::answered;
    }
    if (path == "/stream" || path == "/short") {
      auto source = std::make_unique<Pieces>(std::move(to_send));
      source->waits = stream_waits;
      exchange.response.answer_sized("text/plain", std::move(source), path == "/short" ? 1000 : sized);
      return Next::answered;
    }
    exchange.response.text = exchange.request().target();
    exchange.response.answer_text("text/plain");
    return Next::answered;
  }
  Task<> handle(Call call, Exchange& exchange) override {
    if (exchange.request().path() == "/wait") {
      auto slept = co_await sleep_for(call, Duration::seconds(60));
      stopped = slept ? StopReason::none : slept.error().stop;
      exchange.response.abandoned = stopped == StopReason::client_gone;
      exchange.response.status = slept ? 200 : 504;
      co_return;
    }
    for (;;) {
      auto slice = co_await exchange.body.next(call);
      if (!slice) {
        exchange.response.status = status_of(slice.error().code);
        co_return;
      }
      if (slice->empty()) break;
      blocks.push_back(slice->bytes().data());
      exchange.response.text += as_text(slice->bytes());
    }
    exchange.response.answer_text("text/plain");
  }
  HeadLimits head_limits() const noexcept override { return limits; }
  void refuse(Exchange& exchange, Error error) override {
    refused += answering ? 0 : 1;
    exchange.response.status = status_of(error.code);
    exchange.response.text = name_of(error.code);
    exchange.response.answer_text("text/plain");
  }
  void finished(Exchange&, bool complete) override {
    answering = false;
    finishes.push_back(complete);
  }

  HeadLimits limits;
  int begun = 0, refused = 0;
  bool answering = false;  // begun, so that a refusal is not the request's only word
  bool inside = false;
  std::string trace, corr;  // as they came
  std::shared_ptr<io::File> file;
  bool stream_waits = false;
  std::uint64_t sized = 0;
  std::vector<io::Piece> to_send;
  std::vector<const std::byte*> blocks;
  std::vector<bool> finishes;
  StopReason stopped = StopReason::none;
};

class LocalCallTest : public testing::Test {
 public:
  void TearDown() override {
    EXPECT_EQ(desk.begun + desk.refused, static_cast<int>(desk.finishes.size())) << "LC-4";
    desk.to_send.clear();
    EXPECT_EQ(machine.slab.outstanding(), 0u);
    world.stop();
  }
  // Runs to its end, or for an hour.
  using Body = Task<> (*)(Call call, LocalCallTest* self);
  void run(Body body) {
    bool done = false;
    ShardScope here(host.shard());
    host.scope().spawn("caller", run_body(host.scope().call().within(Duration::seconds(3600)), body, &done));
    world.run_until([&] { return done; });
    ASSERT_TRUE(done);
  }
  Task<> run_body(Call call, Body body, bool* done) {
    co_await body(call, this);
    *done = true;
  }
  // What becomes of a GET with one field.
  static Task<ErrorCode> code(Call call, LocalCall* local, std::string target, std::string name,
                              std::string value) {
    local->start(Method::get, target, {});
    if (!name.empty()) local->add_field(name, value);
    const Result<> asked = co_await local->ask(call);
    co_return asked ? ErrorCode::ok : asked.error().code;
  }
  static Task<Result<std::string>> read(Call call, LocalCall* from) {
    std::string text;
    for (;;) {
      CO_TRY(const io::Piece piece, co_await from->next(call));
      if (piece.empty()) co_return text;
      text += as_text(piece.bytes);
    }
  }

  io::sim::World world{1};
  io::sim::Node& host = world.add_node("host");
  io::Machine machine = host.machine();
  Desk desk;
};

TEST_F(LocalCallTest, a_request_is_answered_without_a_connection) {
  run([](Call call, LocalCallTest* self) -> Task<> {
    LocalCall local(self->machine, self->desk);
    for (int i = 0; i < 3; ++i) {
      local.start(Method::get, "/a/b?c=d", {});
      local.add_field("Accept", "*/*");
      EXPECT_TRUE(co_await local.ask(call));
      EXPECT_EQ(local.status(), 200);
      EXPECT_EQ(local.content_type(), "text/plain");
      EXPECT_EQ(local.find_field("x-corr-id"), "somebody");
      EXPECT_EQ(local.length(), 8u);
      EXPECT_EQ(co_await read(call, &local), "/a/b?c=d");
      EXPECT_TRUE(local.done());
      EXPECT_EQ(local.status(), 200);  // still there
    }
    EXPECT_TRUE(self->desk.inside);
    EXPECT_EQ(self->desk.finishes, (std::vector<bool>{true, true, true}));
  });
}

// LC-2
TEST_F(LocalCallTest, blocks_of_a_body_arrive_as_they_were_sent_and_nothing_is_copied) {
  run([](Call call, LocalCallTest* self) -> Task<> {
    std::vector<io::Piece> pieces;
    pieces.push_back(block(self->machine.slab, "first "));
    pieces.push_back(block(self->machine.slab, "second"));
    const std::vector<const std::byte*> sent{pieces[0].bytes.data(), pieces[1].bytes.data()};
    Pieces source(std::move(pieces));
    LocalCall local(self->machine, self->desk);
    local.start(Method::post, "/echo", {});
    local.set_body(source, std::nullopt);
    EXPECT_TRUE(co_await local.ask(call));
    EXPECT_EQ(co_await read(call, &local), "first second");
    EXPECT_EQ(self->desk.blocks, sent);
    EXPECT_EQ(local.copied(), 0u);
  });
}

// LC-2
TEST_F(LocalCallTest, pieces_of_an_answer_are_the_answerers_own) {
  run([](Call call, LocalCallTest* self) -> Task<> {
    const std::string owned = "not ours";
    self->desk.to_send.push_back(block(self->machine.slab, "a block, "));
    self->desk.to_send.push_back(io::Piece::memory(as_bytes(owned)));
    const std::byte* first = self->desk.to_send[0].bytes.data();
    self->desk.sized = 17;
    LocalCall local(self->machine, self->desk);
    local.start(Method::get, "/stream", {});
    EXPECT_TRUE(co_await local.ask(call));
    EXPECT_EQ(local.length(), 17u);
    auto piece = co_await local.next(call);
    EXPECT_TRUE(piece && piece->bytes.data() == first);
    piece = co_await local.next(call);
    EXPECT_TRUE(piece && piece->bytes.data() == as_bytes(owned).data());
    piece = co_await local.next(call);
    EXPECT_TRUE(piece && piece->empty());
    EXPECT_TRUE(local.done());
  });
}

// LC-2
TEST_F(LocalCallTest, what_is_not_in_a_block_is_copied_and_counted) {
  run([](Call call, LocalCallTest* self) -> Task<> {
    const std::string large(200'000, 'x');
    std::vector<io::Piece> pieces;
    pieces.push_back(io::Piece::memory(as_bytes(large)));
    Pieces source(std::move(pieces));
    LocalCall local(self->machine, self->desk);
    local.start(Method::put, "/echo", {});
    local.set_body(source, large.size());
    EXPECT_TRUE(co_await local.ask(call));
    EXPECT_EQ(local.copied(), large.size());
    EXPECT_EQ(co_await read(call, &local), large);
  });
}

TEST_F(LocalCallTest, a_body_that_is_not_as_long_as_it_says_is_malformed) {
  run([](Call call, LocalCallTest* self) -> Task<> {
    for (const std::uint64_t length : {3u, 5u}) {
      std::vector<io::Piece> pieces;
      pieces.push_back(block(self->machine.slab, "four"));
      Pieces source(std::move(pieces));
      LocalCall local(self->machine, self->desk);
      local.start(Method::post, "/echo", {});
      local.set_body(source, length);
      EXPECT_TRUE(co_await local.ask(call));
      EXPECT_EQ(local.status(), 400);
    }
  });
}

// LC-1
TEST_F(LocalCallTest, what_a_stranger_could_not_send_is_invalid) {
  run([](Call call, LocalCallTest* self) -> Task<> {
    LocalCall local(self->machine, self->desk);
    EXPECT_EQ(co_await code(call, &local, "/a b", "", ""), ErrorCode::invalid);
    EXPECT_EQ(co_await code(call, &local, "a", "", ""), ErrorCode::invalid);
    EXPECT_EQ(co_await code(call, &local, "/a HTTP/1.1\r\nX:", "", ""), ErrorCode::invalid);
    EXPECT_EQ(co_await code(call, &local, "/a", "X", "a\r\nY: b"), ErrorCode::invalid);
    EXPECT_EQ(co_await code(call, &local, "/a", "Content-Length", "3"), ErrorCode::invalid);
    EXPECT_EQ(co_await code(call, &local, "/a", "transfer-encoding", "chunked"), ErrorCode::invalid);
    EXPECT_EQ(co_await code(call, &local, "/a", "Host", "a b"), ErrorCode::invalid);
    EXPECT_EQ(self->desk.begun, 0);
    EXPECT_EQ(co_await code(call, &local, "/a", "Host", "example.org"), ErrorCode::ok);
  });
}

// LC-1
TEST_F(LocalCallTest, a_head_over_the_answerers_limits_is_its_to_refuse) {
  run([](Call call, LocalCallTest* self) -> Task<> {
    LocalCall local(self->machine, self->desk);
    EXPECT_EQ(co_await code(call, &local, "/" + std::string(9000, 'a'), "", ""), ErrorCode::ok);
    EXPECT_EQ(local.status(), 414);
    self->desk.limits.head_bytes = 1024;
    EXPECT_EQ(co_await code(call, &local, "/a", "X", std::string(1100, 'a')), ErrorCode::ok);
    EXPECT_EQ(local.status(), 431);
    EXPECT_EQ(self->desk.begun, 0);
    EXPECT_EQ(co_await code(call, &local, "/a", "X", std::string(900, 'a')), ErrorCode::ok);
    EXPECT_EQ(self->desk.begun, 1);
  });
}

// LC-3
TEST_F(LocalCallTest, the_callers_deadline_and_stop_travel_to_the_handler) {
  run([](Call call, LocalCallTest* self) -> Task<> {
    LocalCall local(self->machine, self->desk);
    local.start(Method::get, "/wait", {});
    // As over a connection, the caller gets its own deadline's error, and not the answer that comes too late.
    const Result<> late = co_await local.ask(call.within(Duration::seconds(1)));
    EXPECT_TRUE(!late && late.error().code == ErrorCode::timeout && late.error().side == Side::self);
    EXPECT_EQ(self->desk.stopped, StopReason::deadline);
    EXPECT_EQ(self->desk.finishes, (std::vector<bool>{false}));
    EXPECT_TRUE(local.done());
    CancelSource stop(self->machine.shard, &call.cancel());
    stop.cancel(StopReason::client_gone);
    local.start(Method::get, "/wait", {});
    const Result<> asked = co_await local.ask(call.under(stop));
    EXPECT_FALSE(asked);
    EXPECT_EQ(self->desk.stopped, StopReason::client_gone);
    EXPECT_EQ(self->desk.finishes.back(), false);
  });
}

// LC-3, LC-4
TEST_F(LocalCallTest, a_stop_ends_the_wait_for_a_streamed_answer_and_the_answerer_is_told) {
  run([](Call call, LocalCallTest* self) -> Task<> {
    LocalCall local(self->machine, self->desk);
    self->desk.to_send.push_back(block(self->machine.slab, "first"));
    self->desk.stream_waits = true;
    self->desk.sized = 10;
    local.start(Method::get, "/stream", {});
    EXPECT_TRUE(co_await local.ask(call));
    const auto first = co_await local.next(call);
    EXPECT_TRUE(first && first->size() == 5);
    const auto second = co_await local.next(call.within(Duration::seconds(1)));
    EXPECT_EQ(second.error().code, ErrorCode::timeout);
    EXPECT_EQ(self->desk.finishes, (std::vector<bool>{false}));
  });
}

TEST_F(LocalCallTest, an_answer_that_is_shorter_than_it_says_is_an_error) {
  run([](Call call, LocalCallTest* self) -> Task<> {
    LocalCall local(self->machine, self->desk);
    self->desk.to_send.push_back(block(self->machine.slab, "first"));
    local.start(Method::get, "/short", {});
    EXPECT_TRUE(co_await local.ask(call));
    EXPECT_TRUE(co_await local.next(call));
    EXPECT_EQ((co_await local.next(call)).error().code, ErrorCode::upstream);
    EXPECT_EQ(self->desk.finishes, (std::vector<bool>{false}));
  });
}

TEST_F(LocalCallTest, a_head_request_has_a_length_and_no_body) {
  run([](Call call, LocalCallTest* self) -> Task<> {
    LocalCall local(self->machine, self->desk);
    local.start(Method::head, "/four", {});
    EXPECT_TRUE(co_await local.ask(call));
    EXPECT_EQ(local.length(), 5u);
    EXPECT_EQ(co_await read(call, &local), "");
    EXPECT_EQ(self->desk.finishes, (std::vector<bool>{true}));
  });
}

TEST_F(LocalCallTest, a_handler_that_throws_or_spoils_its_answer_is_500) {
  run([](Call call, LocalCallTest* self) -> Task<> {
    LocalCall local(self->machine, self->desk);
    for (const char* path : {"/throw", "/spoiled"}) {
      local.start(Method::get, path, {});
      EXPECT_TRUE(co_await local.ask(call));
      EXPECT_EQ(local.status(), 500) << path;
      EXPECT_EQ(co_await read(call, &local), "internal") << path;
      EXPECT_EQ(local.find_field("X-Corr-ID"), "somebody") << path;
    }
  });
}

// LC-4
TEST_F(LocalCallTest, who_is_dropped_unread_is_told_as_incomplete) {
  run([](Call call, LocalCallTest* self) -> Task<> {
    {
      LocalCall local(self->machine, self->desk);
      local.start(Method::get, "/one", {});
      EXPECT_TRUE(co_await local.ask(call));
      local.start(Method::get, "/two", {});
      EXPECT_TRUE(co_await local.ask(call));
    }
    EXPECT_EQ(self->desk.finishes, (std::vector<bool>{false, false}));
  });
}

// LC-4: a caller that was told the length need not look for the end behind it.
TEST_F(LocalCallTest, who_has_read_every_byte_was_answered_completely) {
  run([](Call call, LocalCallTest* self) -> Task<> {
    LocalCall local(self->machine, self->desk);
    self->desk.to_send.push_back(block(self->machine.slab, "all of it"));
    self->desk.sized = 9;
    for (const char* target : {"/text", "/stream"}) {
      local.start(Method::get, target, {});
      EXPECT_TRUE(co_await local.ask(call));
      EXPECT_FALSE(local.done()) << target;
      EXPECT_TRUE(co_await local.next(call));
      EXPECT_TRUE(local.done()) << target;
      local.drop();
    }
    local.start(Method::head, "/text", {});
    EXPECT_TRUE(co_await local.ask(call));
    EXPECT_TRUE(local.done());
    local.drop();
    EXPECT_EQ(self->desk.finishes, (std::vector<bool>{true, true, true}));
  });
}

TEST_F(LocalCallTest, what_needs_no_wait_is_answered_without_a_task) {
  LocalCall local(machine, desk);
  for (int i = 0; i < 2; ++i) {
    ShardScope here(host.shard());
    local.start(Method::get, "/a/b?c=d", {});
    CallContext context;
    context.corr_id = "my-own-id";
    const auto answered = local.try_ask(context);
    ASSERT_TRUE(answered && *answered);
    EXPECT_EQ(local.status(), 200);
    EXPECT_EQ(desk.corr, "my-own-id");
    const auto piece = local.take_whole();
    ASSERT_TRUE(piece);
    EXPECT_EQ(as_text(piece->bytes), "/a/b?c=d");
    EXPECT_EQ(desk.finishes.size(), static_cast<std::size_t>(i) + 1) << "the call is done with that";
    EXPECT_FALSE(local.take_whole());
    const auto end = local.try_next();
    EXPECT_TRUE(end && end->empty());
  }
  EXPECT_EQ(desk.finishes, (std::vector<bool>{true, true}));
}

TEST_F(LocalCallTest, what_has_to_wait_has_begun_once_and_goes_on) {
  run([](Call call, LocalCallTest* self) -> Task<> {
    LocalCall local(self->machine, self->desk);
    local.start(Method::get, "/wait", {});
    const auto answered = local.try_ask({});
    EXPECT_TRUE(answered && !*answered);
    EXPECT_EQ(self->desk.begun, 1);
    EXPECT_TRUE(co_await local.ask(call));
    EXPECT_EQ(self->desk.begun, 1);
    EXPECT_EQ(local.status(), 200);
    local.drop();
    local.start(Method::get, "/wait", {});
    EXPECT_TRUE(local.try_ask({}));
    local.drop();
    EXPECT_EQ(self->desk.finishes, (std::vector<bool>{true, false})) << "LC-4: dropped before its answer";
  });
}

TEST_F(LocalCallTest, a_request_that_cannot_be_made_is_refused_without_a_wait_too) {
  ShardScope here(host.shard());
  LocalCall local(machine, desk);
  local.start(Method::get, "/a", {});
  local.add_field("X", "a\r\nb");
  const auto answered = local.try_ask({});
  EXPECT_TRUE(!answered && answered.error().code == ErrorCode::invalid);
  local.start(Method::get, "/throw", {});
  EXPECT_TRUE(local.try_ask({}).value_or(false));
  EXPECT_EQ(local.status(), 500);
  local.drop();
  EXPECT_EQ(desk.finishes.size(), 1u);
}

TEST_F(LocalCallTest, only_what_is_kept_in_one_piece_is_taken_as_one) {
  run([](Call call, LocalCallTest* self) -> Task<> {
    auto opened = co_await self->machine.disk.open(call, "file", io::OpenMode::create_new);
    EXPECT_TRUE(opened);
    if (!opened) co_return;
    self->desk.file = std::move(*opened);
    LocalCall local(self->machine, self->desk);
    local.start(Method::get, "/file", {});
    EXPECT_TRUE(co_await local.ask(call));
    const auto piece = local.take_whole();
    EXPECT_TRUE(piece && piece->is_file() && piece->count == 4);
    EXPECT_TRUE(local.done());
    local.drop();
    self->desk.file.reset();

    local.start(Method::head, "/text", {});
    EXPECT_TRUE(co_await local.ask(call));
    EXPECT_FALSE(local.take_whole()) << "its length is that of GET, and no byte comes";
    EXPECT_EQ(local.length(), 5u);

    self->desk.to_send.push_back(block(self->machine.slab, "all of it"));
    self->desk.sized = 9;
    local.start(Method::get, "/stream", {});
    EXPECT_TRUE(co_await local.ask(call));
    EXPECT_FALSE(local.take_whole());
    const auto first = local.try_next();
    EXPECT_TRUE(first && as_text(first->bytes) == "all of it");
    EXPECT_TRUE(local.done());
  });
}

TEST_F(LocalCallTest, an_error_stays_one_and_is_no_end) {
  run([](Call call, LocalCallTest* self) -> Task<> {
    LocalCall local(self->machine, self->desk);
    self->desk.to_send.push_back(block(self->machine.slab, "first"));
    local.start(Method::get, "/short", {});
    EXPECT_TRUE(co_await local.ask(call));
    EXPECT_TRUE(co_await local.next(call));
    for (int i = 0; i < 2; ++i) {
      const auto piece = co_await local.next(call);
      EXPECT_FALSE(piece) << "half of an answer would be taken for all of it";
      EXPECT_TRUE(piece || piece.error().code == ErrorCode::upstream);
    }
    EXPECT_FALSE(local.done());
    local.start(Method::get, "/one", {});
    EXPECT_TRUE(co_await local.ask(call));
    EXPECT_EQ(co_await read(call, &local), "/one");
  });
}

TEST_F(LocalCallTest, the_callers_body_is_not_touched_once_it_is_answered) {
  run([](Call call, LocalCallTest* self) -> Task<> {
    LocalCall local(self->machine, self->desk);
    {
      std::vector<io::Piece> pieces;
      pieces.push_back(block(self->machine.slab, "unread"));
      Pieces source(std::move(pieces));
      local.start(Method::post, "/reads-late", {});
      local.set_body(source, std::nullopt);
      EXPECT_TRUE(co_await local.ask(call));
    }
    const auto piece = co_await local.next(call);
    EXPECT_FALSE(piece) << "a body that is gone is no end of one";
  });
}

TEST_F(LocalCallTest, a_call_that_was_dropped_holds_no_file) {
  run([](Call call, LocalCallTest* self) -> Task<> {
    auto opened = co_await self->machine.disk.open(call, "file", io::OpenMode::create_new);
    EXPECT_TRUE(opened);
    if (!opened) co_return;
    self->desk.file = std::move(*opened);
    LocalCall local(self->machine, self->desk);
    local.start(Method::get, "/file", {});
    EXPECT_TRUE(co_await local.ask(call));
    EXPECT_EQ(self->desk.file.use_count(), 2);
    local.drop();
    EXPECT_EQ(self->desk.file.use_count(), 1);
    self->desk.file.reset();
  });
}

TEST_F(LocalCallTest, the_correlation_id_and_the_trace_travel_on) {
  run([](Call call, LocalCallTest* self) -> Task<> {
    LocalCall local(self->machine, self->desk);
    local.start(Method::get, "/one", {});
    EXPECT_TRUE(co_await local.ask(call));
    EXPECT_EQ(self->desk.trace + self->desk.corr, "") << "nobody asks";
    const CallContext context{.corr_id = "somebody-1", .span = {{1, 2}, 3, 1}, .tenant = {}};
    for (int i = 0; i < 2; ++i) {
      local.start(Method::get, "/one", {});
      EXPECT_TRUE(co_await local.ask(call.with_context(context)));
      EXPECT_EQ(self->desk.trace, "00-00000000000000010000000000000002-0000000000000003-01");
      EXPECT_EQ(self->desk.corr, "somebody-1");
    }
  });
}

}  // namespace
}  // namespace cairn::http
