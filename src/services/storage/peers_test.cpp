#include "services/storage/peers.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>

#include "io/sim/world.h"
#include "runtime/wait.h"
#include "serve/metrics.h"

namespace cairn::storage {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

constexpr std::uint16_t port = 82;
constexpr std::string_view good = R"({"taken":2,"ignored":1,"epoch":"01ARZ3NDEKTSV4RRFFQ69G5FAV"})";

serve::KeySnapshotPtr sample_keys() {
  std::array<std::byte, 40> same{};
  same.fill(std::byte{7});
  return std::make_shared<const serve::KeySnapshot>(
      1, crypto::KeyRing(crypto::make_root_key(same, WallTime{1})));
}

// An index on another machine, which answers each request with the next of its answers.
class Elsewhere {
 public:
  struct Answer {
    int status = 200;
    std::string body = std::string(good);
  };
  explicit Elsewhere(std::string token_file = "", serve::KeySnapshotPtr keys = {})
      : here_(world_.add_node("here")), away_(world_.add_node("away")) {
    {
      ShardScope on(away_.shard());
      auto made = away_.machine().network.listen({"away", port, {}});
      CHECK(made.has_value());
      listener_ = std::move(*made);
      away_.scope().spawn("accept", accept(away_.scope().call()));
    }
    ShardScope on(here_.shard());
    machine_.emplace(here_.machine());
    peer_.emplace(*machine_, serve::PeerTarget{"index", nullptr, {"away", port, {}}});
    const observe::Label op{"op", {"a", "b", "c", "d", "e"}};
    counters_ = {0, registry_.counters({"timeouts_total", "t", {op}}),
                 registry_.counters({"retries_total", "r", {op}})};
    index_.emplace(*machine_, *peer_, std::move(token_file), counters_);
    if (keys) index_->take_keys(std::move(keys));
  }
  ~Elsewhere() {
    bool closed = false;
    here_.scope().spawn("close", close(here_.scope().call(), &closed));
    CHECK(world_.run_until([&] { return closed; }));
    {
      ShardScope on(here_.shard());
      index_.reset();
      peer_.reset();
    }
    world_.stop();
  }
  Elsewhere(const Elsewhere&) = delete;
  Elsewhere& operator=(const Elsewhere&) = delete;

  Result<IndexPort::Told> tell(std::string document = R"({"records":[]})") {
    std::optional<Result<IndexPort::Told>> told;
    here_.scope().spawn("tell", ask(here_.scope().call(), std::move(document), &told));
    CHECK(world_.run_until([&] { return told.has_value(); }));
    return std::move(*told);
  }
  void write(const std::string& path, const std::string& text) {
    bool done = false;
    here_.scope().spawn("write", write_file(here_.scope().call(), path, text, &done));
    CHECK(world_.run_until([&] { return done; }));
  }

  std::uint64_t timeouts(serve::IoOp op) const { return counters_.timeouts.at(op).value(); }
  std::uint64_t retries() const { return counters_.retries.at(serve::Repeated::upstream).value(); }

  std::deque<Answer> answers;
  std::vector<std::string> asked;
  bool hangs = false;

 private:
  Task<> ask(Call call, std::string document, std::optional<Result<IndexPort::Told>>* into) {
    *into = co_await index_->tell(call.within(Duration::seconds(5)), std::move(document));
  }
  Task<> close(Call call, bool* done) {
    co_await peer_->close(call);
    *done = true;
  }
  Task<> write_file(Call call, std::string path, std::string text, bool* done) {
    (void)co_await machine_->disk.unlink(call, path);
    auto file = co_await machine_->disk.open(call, path, io::OpenMode::create_new);
    CHECK(file.has_value());
    std::vector<HeapBytes> blocks;
    blocks.emplace_back(text.size());
    blocks.back().append(as_bytes(text));
    CHECK((co_await (*file)->write_blocks(call, 0, std::move(blocks), io::Sync::data)).has_value());
    *done = true;
  }
  Task<> accept(Call call) {
    for (;;) {
      if (!co_await listener_->acceptable.wait(call)) co_return;
      io::Listener::Accepted one = listener_->try_accept();
      if (one.status == io::IoStatus::done) away_.scope().spawn("line", talk(call, std::move(one.stream)));
    }
  }
  Task<> talk(Call call, std::unique_ptr<io::Stream> stream) {
    std::string got;
    std::array<std::byte, 4096> room;
    for (;;) {
      if (!co_await stream->readable.wait(call)) co_return;
      const io::Io read = stream->try_read(room);
      if (read.status == io::IoStatus::would_block) continue;
      if (read.status != io::IoStatus::done) co_return;
      got += as_text({room.data(), read.count});
      if (!got.ends_with("]}")) continue;
      asked.push_back(std::exchange(got, {}));
      Answer answer;
      if (hangs) co_return (void) co_await sleep_until(call, Instant::never());
      if (!answers.empty()) {
        answer = answers.front();
        answers.pop_front();
      }
      std::string text = fmt::format("HTTP/1.1 {} x\r\nContent-Length: {}\r\n\r\n{}", answer.status,
                                     answer.body.size(), answer.body);
      for (std::size_t at = 0; at < text.size();) {
        const iovec rest{text.data() + at, text.size() - at};
        const io::Io sent = stream->try_writev({&rest, 1});
        if (sent.status == io::IoStatus::done)
          at += sent.count;
        else if (sent.status == io::IoStatus::failed || !co_await stream->writable.wait(call))
          co_return;
      }
    }
  }

  io::sim::World world_{3};
  io::sim::Node& here_;
  io::sim::Node& away_;
  std::unique_ptr<io::Listener> listener_;
  observe::Registry registry_{1};
  IndexPeer::Counters counters_;
  std::optional<io::Machine> machine_;
  std::optional<serve::Peer> peer_;
  std::optional<IndexPeer> index_;
};

ErrorCode code_of(const Result<IndexPort::Told>& told) { return told ? ErrorCode::ok : told.error().code; }

TEST(IndexPeer, a_batch_is_posted_and_what_the_index_says_of_it_is_read) {
  Elsewhere index;
  const auto told = index.tell(R"({"records":["AAAA"]})");
  ASSERT_TRUE(told);
  EXPECT_EQ(told->taken, 2u);
  EXPECT_EQ(told->ignored, 1u);
  EXPECT_EQ(format_ulid(told->epoch), "01ARZ3NDEKTSV4RRFFQ69G5FAV");
  ASSERT_EQ(index.asked.size(), 1u);
  EXPECT_THAT(index.asked[0], HasSubstr("POST /providers HTTP/1.1\r\n"));
  EXPECT_THAT(index.asked[0], EndsWith("\r\n\r\n{\"records\":[\"AAAA\"]}"));
}

TEST(IndexPeer, a_token_that_this_process_could_mint_is_not_shown_to_another_one) {
  Elsewhere index("", sample_keys());
  ASSERT_TRUE(index.tell());
  EXPECT_THAT(index.asked[0], Not(HasSubstr("Authorization")));
}

TEST(IndexPeer, an_index_elsewhere_is_shown_the_token_of_the_file_and_a_newer_one_after_a_refusal) {
  Elsewhere index("peer.cap", sample_keys());
  EXPECT_EQ(code_of(index.tell()), ErrorCode::unauthorized);
  EXPECT_TRUE(index.asked.empty());
  index.write("peer.cap", "first\n");
  ASSERT_TRUE(index.tell());
  EXPECT_THAT(index.asked[0], HasSubstr("Authorization: Bearer first\r\n"));
  index.write("peer.cap", "second \r\n");
  index.answers = {{.status = 401, .body = "{}"}};
  EXPECT_EQ(code_of(index.tell()), ErrorCode::unauthorized);
  ASSERT_TRUE(index.tell());
  EXPECT_THAT(index.asked[2], HasSubstr("Authorization: Bearer second\r\n"));
}

TEST(IndexPeer, a_file_that_holds_no_token_is_not_sent) {
  Elsewhere index("peer.cap");
  index.write("peer.cap", " \n");
  EXPECT_EQ(code_of(index.tell()), ErrorCode::unauthorized);
  index.write("peer.cap", std::string(100'000, 'x'));
  EXPECT_EQ(code_of(index.tell()), ErrorCode::unauthorized);
  EXPECT_TRUE(index.asked.empty());
}

TEST(IndexPeer, each_refusal_is_told_apart_from_no_answer) {
  Elsewhere index;
  for (const auto& [status, code] : {std::pair(401, ErrorCode::unauthorized),
                                     {403, ErrorCode::forbidden},
                                     {429, ErrorCode::busy},
                                     {503, ErrorCode::degraded},
                                     {500, ErrorCode::degraded},
                                     {400, ErrorCode::malformed},
                                     {404, ErrorCode::malformed},
                                     {413, ErrorCode::malformed}}) {
    index.answers = {{.status = status, .body = "{}"}};
    EXPECT_EQ(code_of(index.tell()), code) << status;
  }
}

TEST(IndexPeer, an_index_that_does_not_answer_in_time_is_counted_and_so_is_the_next_try) {
  Elsewhere index;
  index.hangs = true;
  EXPECT_EQ(code_of(index.tell()), ErrorCode::timeout);
  EXPECT_EQ(index.timeouts(serve::IoOp::rpc), 1u);
  EXPECT_EQ(index.timeouts(serve::IoOp::connect), 0u);
  EXPECT_EQ(index.retries(), 0u);
  index.hangs = false;
  ASSERT_TRUE(index.tell());
  ASSERT_TRUE(index.tell());
  EXPECT_EQ(index.retries(), 1u);
}

TEST(IndexPeer, an_answer_that_is_not_the_indexs_is_no_answer) {
  Elsewhere index;
  for (const std::string& body :
       {std::string(), std::string("{}"), std::string("[]"), std::string("<html>"),
        std::string(R"({"taken":1,"ignored":0,"epoch":"x"})"),
        R"({"taken":1,"ignored":0,"epoch":")" + std::string(100'000, 'x') + "\"}"}) {
    index.answers = {{.status = 200, .body = body}};
    EXPECT_EQ(code_of(index.tell()), ErrorCode::upstream) << body.substr(0, 40);
  }
}

}  // namespace
}  // namespace cairn::storage
