#include "http/remote_call.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "io/sim/world.h"
#include "runtime/wait.h"

namespace cairn::http {
namespace {

// A peer that says what the test tells it, in the order of the heads that come, and keeps its connections.
class Peer {
 public:
  explicit Peer(io::sim::Node& home) : home_(home) {
    ShardScope here(home.shard());
    home.scope().spawn("listener", listen(home.scope().call()));
  }
  std::vector<std::string> answers;
  std::string seen;
  std::size_t heads = 0;
  unsigned connections = 0;

 private:
  Task<> listen(Call call) {
    auto listener = *home_.machine().network.listen({"far", 80, {}});
    while (co_await listener->acceptable.wait(call)) {
      auto accepted = listener->try_accept();
      if (!accepted.stream) {
        listener->acceptable.clear();
        continue;
      }
      ++connections;
      home_.scope().spawn("peer", talk(call, std::move(accepted.stream)));
    }
  }
  Task<> talk(Call call, std::unique_ptr<io::Stream> stream) {
    std::string mine;
    std::array<std::byte, 4096> room;
    while (co_await stream->readable.wait(call)) {
      const io::Io got = stream->try_read(room);
      if (got.status == io::IoStatus::would_block) continue;
      if (got.status != io::IoStatus::done) co_return;
      seen += as_text({room.data(), got.count});
      mine += as_text({room.data(), got.count});
      for (std::size_t end = mine.find("\r\n\r\n"); end != mine.npos; end = mine.find("\r\n\r\n")) {
        mine.erase(0, end + 4);
        if (heads == answers.size()) continue;
        const std::string& answer = answers[heads++];
        const iovec all{const_cast<char*>(answer.data()), answer.size()};
        (void)stream->try_writev({&all, 1});
      }
    }
  }
  io::sim::Node& home_;
};

class RemoteCallTest : public testing::Test {
 public:
  void TearDown() override { world.stop(); }
  using Body = Task<> (*)(Call call, RemoteCallTest* self, RemoteCall* remote);
  void run(Body body) {
    bool done = false;
    ShardScope here(host.shard());
    host.scope().spawn("caller", run_body(host.scope().call().within(Duration::seconds(3600)), body, &done));
    world.run_until([&] { return done; });
    ASSERT_TRUE(done);
  }
  Task<> run_body(Call call, Body body, bool* done) {
    Client client(machine, {});
    {
      RemoteCall remote(client, {"far", 80, {}});
      co_await body(call, this, &remote);
    }
    co_await client.close(call);
    *done = true;
  }
  static Task<Result<std::string>> read(Call call, PeerCall* from) {
    std::string text;
    for (;;) {
      CO_TRY(const io::Piece piece, co_await from->next(call));
      if (piece.empty()) co_return text;
      text += as_text(piece.bytes);
    }
  }

  io::sim::World world{1};
  io::sim::Node& host = world.add_node("host");
  io::sim::Node& far = world.add_node("far");
  io::Machine machine = host.machine();
  Peer peer{far};
};

constexpr const char* small = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

TEST_F(RemoteCallTest, the_correlation_id_and_the_trace_travel_on) {
  peer.answers = {small, small};
  run([](Call call, RemoteCallTest* self, RemoteCall* remote) -> Task<> {
    const CallContext context{.corr_id = "somebody-1", .span = {{1, 2}, 3, 1}, .tenant = {}};
    for (int i = 0; i < 2; ++i) {
      self->peer.seen.clear();
      remote->start(Method::get, "/a", {});
      EXPECT_TRUE(co_await remote->ask(call.with_context(context)));
      EXPECT_EQ(co_await read(call, remote), "ok");
      EXPECT_NE(self->peer.seen.find("\r\nX-Corr-ID: somebody-1\r\n"), std::string::npos);
      EXPECT_NE(self->peer.seen.find(
                    "\r\nTraceparent: 00-00000000000000010000000000000002-0000000000000003-01\r\n"),
                std::string::npos)
          << self->peer.seen;
    }
    EXPECT_EQ(self->peer.connections, 1u);
  });
}

TEST_F(RemoteCallTest, what_the_carrier_writes_is_no_field_of_the_answer) {
  peer.answers = {
      "HTTP/1.1 200 OK\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\nContent-Type: text/plain\r\nX-A: 1\r\n"
      "Content-Length: 2\r\nConnection: keep-alive\r\n\r\nok"};
  run([](Call call, RemoteCallTest*, RemoteCall* remote) -> Task<> {
    remote->start(Method::get, "/a", {});
    EXPECT_TRUE(co_await remote->ask(call));
    std::string fields;
    remote->each_field([&](std::string_view name, std::string_view) { fields.append(name).append(" "); });
    EXPECT_EQ(fields, "X-A ");
    for (const char* name : {"Date", "content-type", "Content-Length", "Connection"})
      EXPECT_FALSE(remote->find_field(name)) << name;
    EXPECT_EQ(remote->find_field("x-a"), "1");
    EXPECT_EQ(remote->content_type(), "text/plain");
  });
}

TEST_F(RemoteCallTest, a_length_is_told_only_when_it_is_known) {
  peer.answers = {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                  "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n", "HTTP/1.1 204 No Content\r\n\r\n"};
  run([](Call call, RemoteCallTest*, RemoteCall* remote) -> Task<> {
    for (const auto& length :
         {std::optional<std::uint64_t>(), std::optional<std::uint64_t>(7), std::optional<std::uint64_t>(0)}) {
      remote->start(length == 0u ? Method::get : Method::head, "/a", {});
      EXPECT_TRUE(co_await remote->ask(call));
      EXPECT_EQ(remote->length(), length);
      EXPECT_TRUE(remote->done());
    }
  });
}

// As LocalCall has it.
TEST_F(RemoteCallTest, a_caller_may_name_the_host) {
  peer.answers = {small};
  run([](Call call, RemoteCallTest* self, RemoteCall* remote) -> Task<> {
    remote->start(Method::get, "/a", {});
    remote->add_field("host", "example.org");
    EXPECT_TRUE(co_await remote->ask(call));
    EXPECT_NE(self->peer.seen.find("\r\nHost: example.org\r\n"), std::string::npos);
    remote->start(Method::get, "/a", {});
    remote->add_field("Host", "a b");
    const Result<> asked = co_await remote->ask(call);
    EXPECT_TRUE(!asked && asked.error().code == ErrorCode::invalid);
  });
}

// A body comes as fast as whoever sends it does.
class SlowBody final : public io::BodySource {
 public:
  explicit SlowBody(Slab& slab) : slab_(slab) {}
  Task<Result<io::Piece>> next(Call call) override {
    if (pieces_-- == 0) co_return io::Piece();
    CO_TRY_VOID(co_await sleep_for(call, Duration::seconds(1)));
    Buffer slice = slab_.take(1);
    slice.room()[0] = std::byte{0};
    slice.fill(1);
    co_return io::Piece(std::move(slice));
  }

 private:
  Slab& slab_;
  int pieces_ = 3;
};

TEST_F(RemoteCallTest, a_body_may_take_as_long_as_the_call) {
  run([](Call call, RemoteCallTest* self, RemoteCall* remote) -> Task<> {
    SlowBody body(self->machine.slab);
    remote->start(Method::put, "/a", {});
    remote->set_body(body, 3);
    const Instant before = self->world.now();
    const Result<> asked = co_await remote->ask(call.within(Duration::seconds(10)));
    EXPECT_TRUE(!asked && asked.error().code == ErrorCode::timeout);
    EXPECT_EQ((self->world.now() - before).to_millis(), 10'000) << "nobody answers it";
    EXPECT_NE(self->peer.seen.find("\r\nContent-Length: 3\r\n\r\n" + std::string(3, '\0')), std::string::npos)
        << self->peer.seen;
  });
}

TEST_F(RemoteCallTest, the_deadline_travels_on) {
  peer.answers = {small, small};
  run([](Call call, RemoteCallTest* self, RemoteCall* remote) -> Task<> {
    for (const auto& [within, told] : {std::pair(Duration::millis(300), "X-Deadline-Ms: 300\r\n"),
                                       {Duration::seconds(9), "X-Deadline-Ms: 1000\r\n"}}) {
      self->peer.seen.clear();
      remote->start(Method::get, "/a", {});
      EXPECT_TRUE(co_await remote->ask(call.within(within)));
      EXPECT_NE(self->peer.seen.find(told), std::string::npos) << self->peer.seen;
    }
  });
}

TEST_F(RemoteCallTest, a_body_that_came_with_its_head_is_taken_as_a_whole) {
  peer.answers = {small, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok"};
  run([](Call call, RemoteCallTest* self, RemoteCall* remote) -> Task<> {
    remote->start(Method::get, "/whole", {});
    EXPECT_TRUE(co_await remote->ask(call));
    const auto piece = remote->take_whole();
    EXPECT_TRUE(piece && as_text(piece->bytes) == "ok");
    EXPECT_TRUE(remote->done());
    EXPECT_FALSE(remote->take_whole()) << "it was taken";
    remote->start(Method::get, "/part", {});
    EXPECT_TRUE(co_await remote->ask(call));
    EXPECT_EQ(self->peer.connections, 1u) << "the connection was free again";
    EXPECT_FALSE(remote->take_whole()) << "a byte is missing";
    EXPECT_FALSE(remote->done());
    EXPECT_EQ(as_text(piece->bytes), "ok") << "a later answer leaves it alone";
  });
}

// Bytes behind an answer make it no whole one: next() knows what to do about them.
TEST_F(RemoteCallTest, bytes_behind_a_body_cost_its_connection) {
  peer.answers = {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok?", small};
  run([](Call call, RemoteCallTest* self, RemoteCall* remote) -> Task<> {
    remote->start(Method::get, "/more", {});
    EXPECT_TRUE(co_await remote->ask(call));
    EXPECT_FALSE(remote->take_whole());
    EXPECT_EQ(co_await read(call, remote), "ok");
    remote->start(Method::get, "/next", {});
    EXPECT_TRUE(co_await remote->ask(call));
    EXPECT_EQ(self->peer.connections, 2u);
  });
}

// What is left of one answer is never read as the next one's.
TEST_F(RemoteCallTest, an_answer_left_unread_or_cut_off_costs_its_connection) {
  const std::string large = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + std::string(50, 'x');
  peer.answers = {large, large, small};
  run([](Call call, RemoteCallTest* self, RemoteCall* remote) -> Task<> {
    remote->start(Method::get, "/unread", {});
    EXPECT_TRUE(co_await remote->ask(call));
    remote->start(Method::get, "/stopped", {});
    EXPECT_TRUE(co_await remote->ask(call));
    EXPECT_TRUE(co_await remote->next(call));
    const auto rest = co_await remote->next(call.within(Duration::seconds(1)));
    EXPECT_TRUE(!rest && rest.error().code == ErrorCode::timeout);
    remote->start(Method::get, "/next", {});
    EXPECT_TRUE(co_await remote->ask(call));
    EXPECT_EQ(co_await read(call, remote), "ok");
    EXPECT_EQ(self->peer.connections, 3u);
  });
}

// An answer that comes before the body ends the sending; the connection, on which half a request is, ends
// too.
TEST_F(RemoteCallTest, an_early_answer_ends_the_body) {
  peer.answers = {"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno", small};
  run([](Call call, RemoteCallTest* self, RemoteCall* remote) -> Task<> {
    SlowBody body(self->machine.slab);
    remote->start(Method::put, "/a", {});
    remote->set_body(body, 3);
    EXPECT_TRUE(co_await remote->ask(call));
    EXPECT_EQ(remote->status(), 401);
    EXPECT_EQ(co_await read(call, remote), "no");
    remote->start(Method::get, "/next", {});
    EXPECT_TRUE(co_await remote->ask(call));
    EXPECT_EQ(co_await read(call, remote), "ok");
    EXPECT_EQ(self->peer.connections, 2u);
  });
}

}  // namespace
}  // namespace cairn::http
