#include "io/tls_stream.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <optional>

#include "crypto/secret_bytes.h"
#include "io/process.h"
#include "io/real_loop.h"
#include "io/sim/world.h"
#include "io/small_file.h"
#include "io/tls_sample.h"
#include "runtime/driven_shard.h"
#include "runtime/wait.h"

namespace cairn::io {
namespace {

std::string pattern(std::size_t size) {
  std::string text(size, ' ');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + (i * 7 + i / 251) % 26);
  return text;
}
iovec part(std::string_view text) { return {const_cast<char*>(text.data()), text.size()}; }

Task<Result<>> write_all(Call call, Stream* stream, std::string_view text) {
  while (!text.empty()) {
    // In three pieces, as heads and bodies are.
    const std::size_t third = text.size() / 3;
    const std::array<iovec, 3> parts{part(text.substr(0, third)), part(text.substr(third, third)),
                                     part(text.substr(2 * third))};
    const Io io = stream->try_writev(parts);
    if (io.status == IoStatus::failed) co_return fail(ErrorCode::connection_lost, "write");
    if (io.status == IoStatus::would_block) CO_TRY_VOID(co_await stream->writable.wait(call));
    text.remove_prefix(io.count);
  }
  co_return Result<>{};
}

// Until the end of the stream; how it ended is told by the result.
Task<Result<>> read_all(Call call, Stream* stream, std::string* into, std::size_t at_a_time = 5000) {
  std::string piece(at_a_time, ' ');
  for (;;) {
    CO_TRY_VOID(co_await stream->readable.wait(call));
    const Io io = stream->try_read({reinterpret_cast<std::byte*>(piece.data()), piece.size()});
    if (io.status == IoStatus::eof) co_return Result<>{};
    if (io.status == IoStatus::failed) co_return fail(ErrorCode::connection_lost, "read");
    into->append(piece, 0, io.count);
  }
}

// Two ends of one connection in a simulated world, with a handshake between them.
struct Pair {
  explicit Pair(std::uint64_t seed = 1)
      : world(seed),
        server_node(world.add_node("server")),
        client_node(world.add_node("client")),
        authority(server_node.shard().wall()) {
    tls_server = authority.server();
    tls_client = authority.client();
  }
  ~Pair() {
    {
      ShardScope here(server_node.shard());
      server.reset();
    }
    ShardScope here(client_node.shard());
    client.reset();
  }

  void connect(std::string name = "server") {
    server_node.scope().spawn("accept", accept(this, server_node.machine(), server_node.scope().call()));
    client_node.scope().spawn("connect",
                              dial(this, client_node.machine(), client_node.scope().call(), std::move(name)));
    EXPECT_TRUE(world.run_until([&] { return accepted && connected; }));
    why = fmt::format("{} {}; {} {}", connected.has_value(),
                      connected && !*connected ? connected->error().context : "", accepted.has_value(),
                      accepted && !*accepted ? accepted->error().context : "");
  }
  std::string why;
  static Task<> accept(Pair* self, Machine machine, Call call) {
    auto listener = machine.network.listen({"0.0.0.0", 443, ""});
    while (co_await (*listener)->acceptable.wait(call)) {
      auto accepted = (*listener)->try_accept();
      if (accepted.status != IoStatus::done) continue;
      self->server_below = accepted.stream.get();
      self->server_side(co_await accept_tls(call, self->tls_server, &machine.shard, &machine.slab,
                                            std::move(accepted.stream)));
      co_return;
    }
  }
  void server_side(Result<std::unique_ptr<Stream>> made) {
    accepted = made ? Result<>{} : fail(made.error());
    if (made) server = std::move(*made);
  }
  static Task<> dial(Pair* self, Machine machine, Call call, std::string name) {
    auto below = co_await machine.network.connect(call, {"server", 443, ""});
    if (!below) {
      self->connected = fail(below.error());
      co_return;
    }
    self->client_below = below->get();
    auto made = co_await connect_tls(call, self->tls_client, &machine.shard, &machine.slab, std::move(*below),
                                     std::move(name));
    self->connected = made ? Result<>{} : fail(made.error());
    if (made) self->client = std::move(*made);
  }

  template <class T>
  static Task<> into(Task<T> task, std::optional<T>* out) {
    out->emplace(co_await std::move(task));
  }
  // Each side's task, until both have ended.
  std::pair<Result<>, Result<>> run(Task<Result<>> at_server, Task<Result<>> at_client) {
    std::optional<Result<>> first, second;
    server_node.scope().spawn("server", into(std::move(at_server), &first));
    client_node.scope().spawn("client", into(std::move(at_client), &second));
    EXPECT_TRUE(world.run_until([&] { return first && second; }));
    return {*first, *second};
  }
  Call server_call(Duration within = Duration::seconds(3600)) {
    return server_node.scope().call().by(world.now() + within);
  }
  Call client_call(Duration within = Duration::seconds(3600)) {
    return client_node.scope().call().by(world.now() + within);
  }
  // The server sends `text` and its end; what the client gets.
  Result<std::string> carry(std::string_view text, std::size_t at_a_time = 5000) {
    std::string got;
    auto [sent, read] = run(send_and_end(server_call(), server.get(), text),
                            read_all(client_call(), client.get(), &got, at_a_time));
    if (!sent) return fail(sent.error());
    if (!read) return fail(read.error());
    return got;
  }
  static Task<Result<>> send_and_end(Call call, Stream* stream, std::string_view text) {
    CO_TRY_VOID(co_await write_all(call, stream, text));
    stream->shutdown_send();
    while (stream->is_ending()) CO_TRY_VOID(co_await stream->writable.wait(call));
    co_return Result<>{};
  }

  sim::World world;
  sim::Node& server_node;
  sim::Node& client_node;
  SampleAuthority authority;
  std::shared_ptr<const TlsServer> tls_server;
  std::shared_ptr<const TlsClient> tls_client;
  Stream* server_below = nullptr;
  Stream* client_below = nullptr;
  std::unique_ptr<Stream> server, client;
  std::optional<Result<>> accepted, connected;
};

TEST(TlsStream, bytes_arrive_intact_in_spite_of_splits) {
  const std::string text = pattern(300'000);
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    Pair pair(seed);
    pair.world.network().faults.split_write = 500'000;
    pair.world.network().faults.split_delivery = 500'000;
    pair.world.network().faults.clog = 10'000;
    pair.connect();
    ASSERT_TRUE(pair.client && pair.server);
    for (const std::size_t at_a_time : {1000u, 70'000u}) {
      if (at_a_time == 1000) {
        std::string got;
        auto [sent, read] =
            pair.run(write_all(pair.server_call(), pair.server.get(), text),
                     [](Call call, Stream* stream, std::string* to, std::size_t size) -> Task<Result<>> {
                       char piece[1000];
                       while (to->size() < size) {
                         CO_TRY_VOID(co_await stream->readable.wait(call));
                         const Io io = stream->try_read({reinterpret_cast<std::byte*>(piece), sizeof piece});
                         if (io.status == IoStatus::done) to->append(piece, io.count);
                         if (io.status == IoStatus::failed || io.status == IoStatus::eof)
                           co_return fail(ErrorCode::connection_lost, "read");
                       }
                       co_return Result<>{};
                     }(pair.client_call(), pair.client.get(), &got, text.size()));
        EXPECT_TRUE(sent && read && got == text) << seed;
      } else {
        const auto got = pair.carry(text, at_a_time);
        EXPECT_TRUE(got && *got == text) << seed;
      }
    }
  }
}

TEST(TlsStream, a_peer_that_takes_single_bytes_gets_them_all) {
  Pair pair;
  pair.world.network().faults.send_buffer = 1;
  pair.world.network().faults.window = 1;
  pair.world.network().faults.latency_max = pair.world.network().faults.latency_min = Duration::micros(1);
  pair.world.network().faults.jitter = Duration{};
  pair.connect();
  ASSERT_TRUE(pair.client && pair.server) << pair.why;
  const std::string text = pattern(3000);
  const auto got = pair.carry(text);
  EXPECT_TRUE(got && *got == text);
}

TEST(TlsStream, a_written_byte_is_told_of_once_and_when_it_is_below) {
  Pair pair;
  pair.world.network().faults.send_buffer = 1000;
  pair.world.network().faults.window = 1000;
  pair.connect();
  const std::string text = pattern(100'000);
  std::size_t told = 0, blocked = 0;
  auto write = [](Call call, Stream* stream, std::string_view left, std::size_t* sum,
                  std::size_t* waits) -> Task<Result<>> {
    while (!left.empty()) {
      const iovec one = part(left);
      const Io io = stream->try_writev({&one, 1});
      EXPECT_NE(io.status, IoStatus::failed);
      EXPECT_LE(io.count, 1000u);  // never more than the stream below took
      *sum += io.count;
      left.remove_prefix(io.count);
      if (io.status != IoStatus::would_block) continue;
      ++*waits;
      CO_TRY_VOID(co_await stream->writable.wait(call));
    }
    stream->shutdown_send();
    while (stream->is_ending()) CO_TRY_VOID(co_await stream->writable.wait(call));
    co_return Result<>{};
  };
  std::string got;
  auto [sent, read] = pair.run(write(pair.server_call(), pair.server.get(), text, &told, &blocked),
                               read_all(pair.client_call(), pair.client.get(), &got));
  EXPECT_TRUE(sent && read);
  EXPECT_EQ(told, text.size());
  EXPECT_GT(blocked, 10u);
  EXPECT_TRUE(got == text);
}

TEST(TlsStream, an_end_without_close_notify_is_an_error_not_an_end) {
  Pair pair;
  pair.connect();
  auto cut = [](Call call, Stream* stream, Stream* below) -> Task<Result<>> {
    CO_TRY_VOID(co_await write_all(call, stream, "half of it"));
    below->shutdown_send();
    co_return Result<>{};
  };
  std::string got;
  auto [sent, read] = pair.run(cut(pair.server_call(), pair.server.get(), pair.server_below),
                               read_all(pair.client_call(), pair.client.get(), &got));
  EXPECT_TRUE(sent);
  EXPECT_EQ(got, "half of it");
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::connection_lost);
}

TEST(TlsStream, close_notify_is_the_end_and_both_sides_say_it) {
  Pair pair;
  pair.connect();
  const auto got = pair.carry("all of it");
  EXPECT_TRUE(got && *got == "all of it");
  // The other direction is still open.
  std::string back;
  auto [read, sent] = pair.run(read_all(pair.server_call(), pair.server.get(), &back),
                               Pair::send_and_end(pair.client_call(), pair.client.get(), "an answer"));
  EXPECT_TRUE(read && sent);
  EXPECT_EQ(back, "an answer");
}

TEST(TlsStream, closing_tells_the_peer_the_end) {
  Pair pair;
  pair.connect();
  auto close = [](Stream* stream) -> Task<Result<>> {
    stream->close();
    co_return Result<>{};
  };
  std::string got;
  auto [closed, read] =
      pair.run(close(pair.server.get()), read_all(pair.client_call(), pair.client.get(), &got));
  EXPECT_TRUE(closed && read);
}

TEST(TlsStream, a_reset_is_an_error) {
  Pair pair;
  pair.connect();
  auto reset = [](Stream* stream) -> Task<Result<>> {
    stream->close(true);
    co_return Result<>{};
  };
  std::string got;
  auto [closed, read] =
      pair.run(reset(pair.server.get()), read_all(pair.client_call(), pair.client.get(), &got));
  EXPECT_FALSE(read);
}

TEST(TlsStream, a_peer_with_another_name_is_refused) {
  Pair pair;
  pair.connect("elsewhere");
  ASSERT_FALSE(*pair.connected);
  EXPECT_EQ(pair.connected->error().code, ErrorCode::integrity);
  EXPECT_STREQ(pair.connected->error().context, "hostname mismatch");
}

TEST(TlsStream, a_peer_of_another_authority_is_refused) {
  Pair pair;
  pair.tls_client = SampleAuthority(pair.server_node.shard().wall()).client();
  pair.connect();
  ASSERT_FALSE(*pair.connected);
  EXPECT_EQ(pair.connected->error().code, ErrorCode::integrity);
  EXPECT_FALSE(*pair.accepted);
}

TEST(TlsStream, a_certificate_whose_time_is_over_is_refused) {
  Pair pair;
  pair.tls_server = pair.authority.server(
      {.identities = {pair.authority.identity({"server"}, Duration::seconds(24 * 3600))}});
  pair.world.run_for(Duration::seconds(2));
  pair.connect();
  ASSERT_FALSE(*pair.connected);
  EXPECT_STREQ(pair.connected->error().context, "certificate has expired");
}

TEST(TlsStream, the_name_that_is_asked_for_picks_the_certificate) {
  for (const char* name : {"one", "two", "sub.three.test"}) {
    Pair pair;
    pair.tls_server = pair.authority.server(
        {.identities = {pair.authority.identity({"one"}), pair.authority.identity({"two"}),
                        pair.authority.identity({"*.three.test"})}});
    pair.connect(name);
    EXPECT_TRUE(pair.connected->has_value()) << name;
  }
}

TEST(TlsStream, both_ends_agree_on_a_protocol_or_fail) {
  Pair pair;
  pair.tls_server = pair.authority.server(
      {.identities = {pair.authority.identity({"server"})}, .protocols = {"h2", "http/1.1"}});
  pair.tls_client = pair.authority.client({"http/1.1", "h2"});
  pair.connect();
  ASSERT_TRUE(pair.server && pair.client);
  EXPECT_EQ(pair.server->protocol(), "h2");  // the server prefers it
  EXPECT_EQ(pair.client->protocol(), "h2");
  EXPECT_TRUE(pair.server->is_encrypted());

  Pair strangers;
  strangers.tls_client = strangers.authority.client({"gopher"});
  strangers.connect();
  EXPECT_FALSE(*strangers.connected);
  EXPECT_FALSE(*strangers.accepted);
}

TEST(TlsStream, a_silent_peer_is_given_up_after_five_seconds) {
  Pair pair;
  pair.server_node.scope().spawn("accept",
                                 Pair::accept(&pair, pair.server_node.machine(), pair.server_call()));
  std::unique_ptr<Stream> silent;
  auto dial = [](Machine machine, Call call, std::unique_ptr<Stream>* to) -> Task<> {
    *to = std::move(*co_await machine.network.connect(call, {"server", 443, ""}));
  };
  pair.client_node.scope().spawn("dial", dial(pair.client_node.machine(), pair.client_call(), &silent));
  EXPECT_TRUE(pair.world.run_until([&] { return silent != nullptr; }));
  const Instant began = pair.world.now();
  EXPECT_TRUE(pair.world.run_until([&] { return pair.accepted.has_value(); }));
  ASSERT_FALSE(*pair.accepted);
  EXPECT_EQ(pair.accepted->error().code, ErrorCode::timeout);
  EXPECT_NEAR((pair.world.now() - began).to_seconds(), 5.0, 0.1);
  EXPECT_EQ(pair.server_node.machine().slab.outstanding(), 0u);
}

TEST(TlsStream, a_handshake_that_is_cancelled_anywhere_leaves_nothing_behind) {
  for (unsigned step = 0; step < 40; ++step) {
    Pair pair(step);
    pair.world.network().faults.split_write = 300'000;
    std::optional<CancelSource> stop;
    {
      ShardScope here(pair.server_node.shard());
      stop.emplace(pair.server_node.shard(), &pair.server_node.scope().source());
    }
    pair.server_node.scope().spawn(
        "accept", Pair::accept(&pair, pair.server_node.machine(), pair.server_call().under(*stop)));
    pair.client_node.scope().spawn(
        "connect", Pair::dial(&pair, pair.client_node.machine(), pair.client_call(), "server"));
    for (unsigned i = 0; i < step; ++i) pair.world.step(Instant::never());
    {
      ShardScope here(pair.server_node.shard());
      stop->cancel(StopReason::superseded);
    }
    pair.world.run_for(Duration::seconds(10));
    if (pair.accepted) EXPECT_EQ(pair.accepted->has_value(), pair.server != nullptr);
    EXPECT_EQ(pair.server_node.machine().slab.outstanding(), 0u) << step;
    ShardScope here(pair.server_node.shard());
    stop.reset();
  }
}

TEST(TlsStream, an_idle_connection_holds_no_buffer) {
  Pair pair;
  pair.connect();
  std::string got;
  auto echo = [](Call call, Stream* stream, std::string* into) -> Task<Result<>> {
    char piece[100];
    while (into->size() < 11) {
      CO_TRY_VOID(co_await stream->readable.wait(call));
      const Io io = stream->try_read({reinterpret_cast<std::byte*>(piece), sizeof piece});
      if (io.status == IoStatus::done) into->append(piece, io.count);
    }
    co_return Result<>{};
  };
  auto [sent, read] = pair.run(write_all(pair.server_call(), pair.server.get(), "hello there"),
                               echo(pair.client_call(), pair.client.get(), &got));
  EXPECT_TRUE(sent && read);
  EXPECT_FALSE(pair.client->readable.ready());
  EXPECT_EQ(pair.server_node.machine().slab.outstanding(), 0u);
  EXPECT_EQ(pair.client_node.machine().slab.outstanding(), 0u);
}

TEST(TlsStream, a_peer_that_never_reads_costs_a_bounded_amount) {
  Pair pair;
  pair.connect();
  const std::string text = pattern(1 << 20);
  auto [sent, waited] = pair.run(write_all(pair.server_call(Duration::seconds(5)), pair.server.get(), text),
                                 [](Call call) -> Task<Result<>> {
                                   co_return co_await sleep_for(call, Duration::seconds(4));
                                 }(pair.client_call()));
  EXPECT_FALSE(sent);
  EXPECT_GT(pair.server_node.machine().slab.bytes_in_use(), 0u);
  EXPECT_LE(pair.server_node.machine().slab.bytes_in_use(), TlsStream::unsent_max);
  {
    ShardScope here(pair.server_node.shard());
    pair.server.reset();
  }
  EXPECT_EQ(pair.server_node.machine().slab.outstanding(), 0u);
}

// Counts the writes to the stream below it.
class Counting final : public Stream {
 public:
  Counting(Shard& shard, std::unique_ptr<Stream> below, std::vector<std::size_t>& writes)
      : Stream(shard), below_(std::move(below)), writes_(writes) {
    below_->readable.pass_on_to(&readable);
    below_->writable.pass_on_to(&writable);
    if (below_->readable.ready()) readable.signal();
    writable.signal();
  }
  Io try_read(MutableByteView into) noexcept override {
    const Io got = below_->try_read(into);
    if (!below_->readable.ready()) readable.clear();
    return got;
  }
  Io try_discard(std::size_t count) noexcept override { return below_->try_discard(count); }
  Io try_writev(std::span<const iovec> parts) noexcept override {
    const Io sent = below_->try_writev(parts);
    if (sent.status == IoStatus::done) writes_.push_back(sent.count);
    if (!below_->writable.ready()) writable.clear();
    return sent;
  }
  Io try_send_file(File&, std::uint64_t, std::size_t) noexcept override { return {IoStatus::failed}; }
  std::uint64_t unacknowledged() const noexcept override { return below_->unacknowledged(); }
  void cork(bool on) noexcept override { below_->cork(on); }
  void shutdown_send() noexcept override { below_->shutdown_send(); }
  void close(bool reset) noexcept override { below_->close(reset); }
  PeerAddress peer() const noexcept override { return below_->peer(); }

 private:
  std::unique_ptr<Stream> below_;
  std::vector<std::size_t>& writes_;
};

// On real sockets: a connection within one loop.
struct RealPair {
  RealPair() : authority(wall_clock()) {
    ShardScope here(real.loop.shard());
    auto made = real.network.listen({"127.0.0.1", 0, {}});
    CHECK(made.has_value());
    listener = std::move(*made);
  }
  ~RealPair() {
    ShardScope here(real.loop.shard());
    server.reset();
    client.reset();
    listener.reset();
  }
  Result<> connect(crypto::CertificateKind = crypto::CertificateKind::ed25519) {
    real.spawn(accept(this, real.call()));
    return real.run(dial(this, real.call()));
  }
  static Task<> accept(RealPair* self, Call call) {
    for (;;) {
      auto accepted = self->listener->try_accept();
      if (accepted.status == IoStatus::would_block) {
        if (!co_await self->listener->acceptable.wait(call)) co_return;
        continue;
      }
      Shard& shard = self->real.loop.shard();
      auto counted = std::make_unique<Counting>(shard, std::move(accepted.stream), self->writes);
      auto made = co_await accept_tls(call, self->authority.server(), &shard, &self->real.loop.slab(),
                                      std::move(counted));
      if (made) self->server = std::move(*made);
      co_return;
    }
  }
  static Task<Result<>> dial(RealPair* self, Call call) {
    CO_TRY(auto below,
           co_await self->real.network.connect(call, *parse_endpoint(self->listener->local_address())));
    CO_TRY(self->client, co_await connect_tls(call, self->authority.client(), &self->real.loop.shard(),
                                              &self->real.loop.slab(), std::move(below), "server"));
    while (self->server == nullptr) co_await yield(call);
    co_return Result<>{};
  }

  RealLoop real;
  SampleAuthority authority;
  std::unique_ptr<Listener> listener;
  std::vector<std::size_t> writes;
  std::unique_ptr<Stream> server, client;
};

Task<Result<std::string>> collect(Call call, Stream* stream, std::size_t size) {
  std::string text;
  std::vector<std::byte> piece(65536);
  while (text.size() < size) {
    const Io io = stream->try_read(piece);
    if (io.status == IoStatus::would_block) CO_TRY_VOID(co_await stream->readable.wait(call));
    if (io.status == IoStatus::failed) co_return fail(ErrorCode::connection_lost, "read");
    if (io.status == IoStatus::eof) break;
    text.append(reinterpret_cast<const char*>(piece.data()), io.count);
  }
  co_return text;
}

TEST(TlsSocket, a_megabyte_goes_through_a_real_socket) {
  RealPair pair;
  ASSERT_TRUE(pair.connect());
  const std::string text = pattern(1 << 20);
  pair.real.spawn([](Call call, Stream* stream, std::string_view all) -> Task<> {
    (void)co_await Pair::send_and_end(call, stream, all);
  }(pair.real.call(), pair.server.get(), text));
  const auto got = pair.real.run(collect(pair.real.call(), pair.client.get(), text.size() + 1));
  EXPECT_TRUE(got && *got == text);
}

TEST(TlsSocket, an_answer_is_one_write) {
  RealPair pair;
  ASSERT_TRUE(pair.connect());
  for (const std::size_t size : {100u, 1000u, 16'000u, 65'536u}) {
    pair.writes.clear();
    const std::string head = pattern(200), body = pattern(size);
    const std::array<iovec, 2> parts{part(head), part(body)};
    const Io sent = pair.server->try_writev(parts);
    EXPECT_EQ(sent.count, head.size() + body.size());
    EXPECT_EQ(pair.writes.size(), 1u) << size;
    const auto got = pair.real.run(collect(pair.real.call(), pair.client.get(), sent.count));
    EXPECT_TRUE(got && *got == head + body);
  }
}

TEST(TlsSocket, a_file_follows_its_head_in_one_write) {
  RealPair pair;
  ASSERT_TRUE(pair.connect());
  const std::string head = pattern(200), body = pattern(65'536);
  ArenaFile file(as_bytes(std::string_view(body)), -1);
  pair.writes.clear();
  pair.server->cork(true);
  const iovec one = part(head);
  EXPECT_EQ(pair.server->try_writev({&one, 1}).count, head.size());
  EXPECT_TRUE(pair.writes.empty());
  pair.server->cork(false);
  EXPECT_EQ(pair.server->try_send_file(file, 0, body.size()).count, body.size());
  EXPECT_EQ(pair.writes.size(), 1u);
  const auto got = pair.real.run(collect(pair.real.call(), pair.client.get(), head.size() + body.size()));
  EXPECT_TRUE(got && *got == head + body);
}

TEST(TlsSocket, a_file_of_the_disk_is_sent_and_a_shorter_one_fails) {
  RealPair pair;
  ASSERT_TRUE(pair.connect());
  TemporaryDirectory directory;
  const std::string body = pattern(40'000);
  {
    FILE* out = fopen(directory.at("f").c_str(), "w");
    ASSERT_EQ(fwrite(body.data(), 1, body.size(), out), body.size());
    fclose(out);
  }
  auto file = pair.real.run(pair.real.disk.open(pair.real.call(), directory.at("f"), OpenMode::read));
  ASSERT_TRUE(file.has_value());
  ShardScope here(pair.real.loop.shard());
  EXPECT_EQ(pair.server->try_send_file(**file, 1000, 30'000).count, 30'000u);
  const auto got = pair.real.run(collect(pair.real.call(), pair.client.get(), 30'000));
  EXPECT_TRUE(got && *got == body.substr(1000, 30'000));
  EXPECT_EQ(pair.server->try_send_file(**file, 40'000, 10).status, IoStatus::failed);
}

// A stream whose bytes the test carries. It takes `room` bytes at most until it is read.
class Wire final : public Stream {
 public:
  explicit Wire(Shard& shard) : Stream(shard) { writable.signal(); }
  Io try_read(MutableByteView into) noexcept override {
    const std::size_t count = std::min(into.size(), arrived.size());
    if (count < into.size()) readable.clear();
    if (count == 0) return {IoStatus::would_block};
    std::ranges::copy(as_bytes(std::string_view(arrived)).first(count), into.begin());
    arrived.erase(0, count);
    return {IoStatus::done, count};
  }
  Io try_discard(std::size_t) noexcept override { return {IoStatus::failed}; }
  Io try_writev(std::span<const iovec> parts) noexcept override {
    std::size_t count = 0;
    for (const iovec& each : parts) {
      const std::size_t taken = std::min(each.iov_len, room - sent.size());
      sent.append(static_cast<const char*>(each.iov_base), taken);
      count += taken;
    }
    if (count > 0) return {IoStatus::done, count};
    writable.clear();
    return {IoStatus::would_block};
  }
  Io try_send_file(File&, std::uint64_t, std::size_t) noexcept override { return {IoStatus::failed}; }
  std::uint64_t unacknowledged() const noexcept override { return 0; }
  void cork(bool) noexcept override {}
  void shutdown_send() noexcept override {}
  void close(bool) noexcept override {}
  PeerAddress peer() const noexcept override { return {}; }

  void arrive(std::string_view bytes) {
    arrived += bytes;
    readable.signal();
  }
  std::string take_sent() { return std::exchange(sent, {}); }
  std::string arrived, sent;
  std::size_t room = std::size_t{1} << 30;
};

// A server's stream and a client of bare OpenSSL, between which the test carries the bytes.
struct BarePair {
  explicit BarePair(int version = TLS1_3_VERSION) : client(version) { serve(authority.server()); }
  void serve(const std::shared_ptr<const TlsServer>& tls) {
    auto made = std::make_unique<Wire>(driven.shard);
    wire = made.get();
    server = TlsStream::accept(tls, driven.shard, slab, std::move(made));
  }
  // True when both are done.
  bool shake() {
    using Step = TlsStream::Handshake;
    Step step = Step::wants_read;
    for (int i = 0; i < 100; ++i) {
      const bool client_done = client.shake();
      if (client_done && step == Step::done) return true;
      carry();
      // A server that waits for something that does not come stays where it is.
      if (step == Step::wants_read ? server->readable.ready() : server->writable.ready())
        step = server->try_handshake();
      client.take(wire->take_sent());
      if (!wire->writable.ready()) wire->writable.signal();
    }
    return false;
  }
  void carry() {
    const std::string sent = client.give();
    if (!sent.empty()) wire->arrive(sent);
  }
  Io read(std::string& into, std::size_t most = 65536) {
    std::string room(most, ' ');
    const Io got = server->try_read({reinterpret_cast<std::byte*>(room.data()), most});
    if (got.status == IoStatus::done) into.append(room, 0, got.count);
    return got;
  }

  DrivenShard driven;
  Slab slab;
  SampleAuthority authority{WallTime{1'767'225'600'000}};
  BareTlsClient client;
  Wire* wire = nullptr;
  std::unique_ptr<TlsStream> server;
};

TEST(TlsStream, a_first_flight_of_any_size_goes_out) {
  for (const std::size_t room : {1u << 30, 3000u})
    for (const unsigned copies : {1u, 10u, 40u, 100u, 400u}) {
      BarePair pair;
      TlsIdentity identity = pair.authority.identity({"server"});
      const std::string one = identity.chain;
      for (unsigned i = 0; i < copies; ++i) identity.chain += one;
      pair.serve(pair.authority.server({.identities = {identity}}));
      pair.wire->room = room;
      SSL_set_max_cert_list(pair.client.raw(), 1 << 20);
      EXPECT_TRUE(pair.shake()) << copies << " with " << room;
      EXPECT_LE(pair.slab.bytes_in_use(), TlsStream::unsent_max);
    }
}

TEST(TlsStream, a_peer_that_asks_for_short_records_gets_them) {
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION})
    for (const int code : {TLSEXT_max_fragment_length_512, TLSEXT_max_fragment_length_4096}) {
      BarePair pair(version);
      pair.serve(pair.authority.server(
          {.identities = {pair.authority.identity({"server"})}, .lowest = TlsVersion::tls12}));
      ASSERT_EQ(SSL_set_tlsext_max_fragment_length(pair.client.raw(), static_cast<std::uint8_t>(code)), 1);
      ASSERT_TRUE(pair.shake());
      // Whatever a head has left of the blocks that the records go to.
      for (std::size_t size = 100; size <= 4000; size += 50) {
        const std::string head = pattern(size), body = pattern(65'536);
        const iovec first = part(head), second = part(body);
        pair.server->cork(true);
        ASSERT_EQ(pair.server->try_writev({&first, 1}).count, head.size());
        pair.server->cork(false);
        const Io io = pair.server->try_writev({&second, 1});
        ASSERT_EQ(io.status, IoStatus::done) << version << " " << code << " " << size;
        pair.client.take(pair.wire->take_sent());
        ASSERT_TRUE(pair.client.read() == head + body.substr(0, io.count)) << size;
      }
    }
}

TEST(TlsFlood, key_updates_without_data_break_the_connection_after_a_few) {  // TS-6
  BarePair pair;
  ASSERT_TRUE(pair.shake());
  for (int i = 0; i < 1000; ++i) pair.client.update_key(true);
  pair.carry();
  std::string got;
  Io last{IoStatus::would_block};
  for (int i = 0; i < 100 && last.status == IoStatus::would_block; ++i) last = pair.read(got);
  EXPECT_EQ(last.status, IoStatus::failed);
  EXPECT_TRUE(pair.server->is_flooded());
  // Each one that was handled was answered.
  constexpr std::size_t answer = 5 + 5 + 1 + 16;
  EXPECT_LE(pair.wire->sent.size(), 33 * answer);
}

TEST(TlsFlood, key_updates_with_data_between_them_are_fine_and_cost_turns) {
  BarePair pair;
  ASSERT_TRUE(pair.shake());
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 30; ++i) pair.client.update_key();
    pair.client.write("x");
  }
  pair.carry();
  std::string got;
  std::size_t attempts = 0;
  while (got.size() < 20) {
    const std::size_t before = got.size();
    const Io read = pair.read(got);
    ASSERT_NE(read.status, IoStatus::failed) << got.size();
    EXPECT_LE(got.size() - before, 2u);
    EXPECT_TRUE(pair.server->readable.ready());
    EXPECT_TRUE(pair.server->readable.take_pause());
    ASSERT_LE(++attempts, 20u);
  }
  EXPECT_FALSE(pair.server->is_flooded());
}

TEST(TlsFlood, one_attempt_reads_a_bounded_number_of_bytes) {
  BarePair pair;
  ASSERT_TRUE(pair.shake());
  const std::string text = pattern(1 << 20);
  pair.client.write(text);
  pair.carry();
  std::string got;
  for (int i = 0; i < 100 && got.size() < text.size(); ++i) {
    const Io read = pair.read(got, 1 << 20);
    ASSERT_EQ(read.status, IoStatus::done);
    EXPECT_LE(read.count, 100'000u);
    if (got.size() < text.size()) EXPECT_TRUE(pair.server->readable.take_pause());
  }
  EXPECT_TRUE(got == text);
}

TEST(TlsFlood, a_long_flight_of_a_server_costs_its_client_a_turn_and_goes_through) {
  BarePair pair;
  pair.driven.shard.set_wall_offset(pair.authority.now.ms);
  TlsIdentity identity = pair.authority.identity({"server"});
  const std::string one = identity.chain;
  while (identity.chain.size() < 120'000) identity.chain += one;  // 90 KB on the wire
  pair.serve(pair.authority.server({.identities = {identity}}));
  auto below = std::make_unique<Wire>(pair.driven.shard);
  Wire* wire = below.get();
  const auto client =
      TlsStream::connect(pair.authority.client(), pair.driven.shard, pair.slab, std::move(below), "server");
  using Step = TlsStream::Handshake;
  Step at_client = client->try_handshake(), at_server = Step::wants_read;
  bool paused = false;
  for (int i = 0; i < 20 && (at_client != Step::done || at_server != Step::done); ++i) {
    pair.wire->arrive(wire->take_sent());
    at_server = pair.server->try_handshake();
    ASSERT_NE(at_server, Step::failed);
    if (const std::string sent = pair.wire->take_sent(); !sent.empty()) wire->arrive(sent);
    if (at_client == Step::wants_read && client->readable.ready()) at_client = client->try_handshake();
    ASSERT_NE(at_client, Step::failed) << client->failure().context;
    paused = paused || client->readable.take_pause();
  }
  EXPECT_EQ(at_client, Step::done);
  EXPECT_EQ(at_server, Step::done);
  EXPECT_TRUE(paused);
}

TEST(Direction, the_wait_for_one_that_is_paused_lets_others_run_first) {
  for (const bool paused : {false, true}) {
    DrivenShard driven;
    Direction direction(driven.shard);
    std::string order;
    auto wait = [](Call call, Direction* of, std::string* told) -> Task<> {
      const auto waited = co_await of->wait(call);
      *told += waited ? "waited " : "stopped ";
    };
    auto other = [](std::string* told) -> Task<> {
      *told += "other ";
      co_return;
    };
    direction.signal();
    if (paused) direction.pause();
    driven.scope.spawn("waits", wait(driven.call(), &direction, &order));
    driven.scope.spawn("other", other(&order));
    driven.run();
    EXPECT_EQ(order, paused ? "other waited " : "waited other ");
    EXPECT_TRUE(direction.ready());
  }
}

TEST(TlsTickets, a_key_seals_for_a_period_and_opens_for_one_more) {
  TlsTicketKeys keys;
  const Instant start{};
  const auto first = keys.sealing(start);
  ASSERT_TRUE(first.has_value());
  const auto* name = reinterpret_cast<const unsigned char*>(first->name.data());
  const Instant later = start + TlsTicketKeys::period;
  EXPECT_EQ(keys.sealing(later + Duration::nanos(-1))->name, first->name);
  EXPECT_NE(keys.sealing(later)->name, first->name);
  EXPECT_TRUE(keys.opening(later, name).has_value());
  EXPECT_TRUE(keys.opening(later + TlsTicketKeys::period + Duration::nanos(-1), name).has_value());
  EXPECT_FALSE(keys.opening(later + TlsTicketKeys::period, name).has_value());
}

TEST(TlsTickets, a_key_that_no_other_follows_opens_no_longer_than_others) {
  TlsTicketKeys keys;
  const auto only = keys.sealing({});
  ASSERT_TRUE(only.has_value());
  const auto* name = reinterpret_cast<const unsigned char*>(only->name.data());
  const Instant end = Instant{} + TlsTicketKeys::period * 2;
  EXPECT_TRUE(keys.opening(end + Duration::nanos(-1), name).has_value());
  EXPECT_FALSE(keys.opening(end, name).has_value());
}

TEST(TlsContext, texts_that_do_not_fit_are_refused_with_the_reason) {
  const SampleAuthority authority(WallTime{1'767'225'600'000});
  const TlsIdentity good = authority.identity({"a"}), other = authority.identity({"b"});
  const auto refusal = [](TlsIdentity identity) {
    auto made = TlsServer::make({.identities = {std::move(identity)}}, std::make_shared<TlsTicketKeys>());
    return made ? std::string() : made.error();
  };
  EXPECT_EQ(refusal(good), "");
  EXPECT_THAT(refusal({"", good.key, ""}), testing::StartsWith("holds no certificate"));
  EXPECT_THAT(refusal({good.chain + "-----BEGIN CERTIFICATE-----\nxx\n", good.key, ""}),
              testing::StartsWith("the chain is damaged"));
  EXPECT_THAT(refusal({good.chain, std::string(), ""}), testing::StartsWith("holds no private key"));
  EXPECT_THAT(refusal({good.chain, other.key, ""}),
              testing::StartsWith("the key does not belong to the certificate"));
  EXPECT_THAT(refusal({good.chain, good.key, "no answer"}), testing::StartsWith("is no OCSP answer"));
}

// A piece of a secret, kept so that the process's memory does not hold the piece itself because of it.
class Sought {
 public:
  explicit Sought(std::string_view secret) {
    for (const char each : secret) masked_ += static_cast<char>(each ^ mask);
  }
  // How often it lies in what this process can write to, freed memory included.
  std::size_t count() const {
    std::size_t found = 0;
    std::ifstream maps("/proc/self/maps");
    const int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    for (std::string line; std::getline(maps, line);) {
      unsigned long from = 0, to = 0;
      char rights[8] = {};
      if (std::sscanf(line.c_str(), "%lx-%lx %7s", &from, &to, rights) != 3) continue;
      // What is larger is a sanitizer's.
      if (std::string_view(rights) == "rw-p" && to - from <= std::size_t{1} << 30)
        found += count_in(memory, from, to);
    }
    close(memory);
    return found;
  }

 private:
  static constexpr char mask = 0x55;
  std::size_t count_in(int memory, unsigned long from, unsigned long to) const {
    static std::array<char, 1 << 16> piece;
    std::size_t found = 0;
    while (to - from >= masked_.size()) {
      const ssize_t got =
          pread(memory, piece.data(), std::min(piece.size(), to - from), static_cast<off_t>(from));
      if (got < static_cast<ssize_t>(masked_.size())) break;
      const std::string_view text(piece.data(), static_cast<std::size_t>(got));
      const char first = static_cast<char>(masked_.front() ^ mask);
      for (std::size_t i = 0; (i = text.find(first, i)) <= text.size() - masked_.size(); ++i)
        if (std::ranges::equal(text.substr(i, masked_.size()), masked_, {}, [](char c) { return c ^ mask; }))
          ++found;
      from += static_cast<unsigned long>(got) - masked_.size() + 1;
      crypto::wipe(std::as_writable_bytes(std::span(piece)));
    }
    return found;
  }
  std::string masked_;
};

TEST(TlsContext, a_private_key_leaves_nothing_in_memory_whatever_becomes_of_it) {
  const TemporaryDirectory directory;
  const std::string path = directory.at("key");
  std::optional<Sought> sought;
  std::string chain;
  {
    const SampleAuthority authority(WallTime{1'767'225'600'000}, crypto::CertificateKind::p256);
    TlsIdentity made = authority.identity({"a"});
    const std::string& pem = made.key.reveal();
    ASSERT_TRUE(replace_file(path, pem));
    // The first two lines of it: OpenSSL itself reads line by line.
    sought.emplace(std::string_view(pem).substr(pem.find('\n') + 1, 129));
    EXPECT_GT(sought->count(), 0u);
    chain = made.chain;
  }
  EXPECT_EQ(sought->count(), 0u);

  const auto load = [&](std::string with, std::string ocsp) {
    auto key = read_private_file(path, 1 << 20);
    ASSERT_TRUE(key.has_value());
    const TlsIdentity identity{std::move(with), std::move(*key), std::move(ocsp)};
    EXPECT_GT(sought->count(), 0u);
    (void)TlsServer::make({.identities = {identity, identity}}, std::make_shared<TlsTicketKeys>());
  };
  load(chain, "");
  EXPECT_EQ(sought->count(), 0u);
  load("no certificate", "");
  EXPECT_EQ(sought->count(), 0u);
  load(chain, "no answer");
  EXPECT_EQ(sought->count(), 0u);
  EXPECT_EQ(read_private_file(path, 200).error().code, ErrorCode::invalid);
  EXPECT_EQ(sought->count(), 0u);
}

}  // namespace
}  // namespace cairn::io
