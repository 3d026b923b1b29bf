#include "io/tcp.h"

#include <gtest/gtest.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <memory>
#include <string>
#include <vector>

#include "io/real_loop.h"

namespace cairn::io {
namespace {

iovec part(std::string_view text) { return {const_cast<char*>(text.data()), text.size()}; }

Task<Result<>> write_all(Call call, Stream& stream, std::string text) {
  for (std::string_view left = text; !left.empty();) {
    const iovec one = part(left);
    const Io sent = stream.try_writev({&one, 1});
    if (sent.status == IoStatus::would_block) {
      CO_TRY_VOID(co_await stream.writable.wait(call));
    } else if (sent.status == IoStatus::done) {
      left.remove_prefix(sent.count);
    } else {
      co_return fail(ErrorCode::connection_lost, "write");
    }
  }
  co_return Result<>{};
}

// Everything up to the end, or until `most` bytes were read.
Task<Result<std::string>> read_up_to(Call call, Stream& stream, std::size_t most) {
  std::string text;
  std::array<std::byte, 4096> room;
  while (text.size() < most) {
    const Io got = stream.try_read(room);
    if (got.status == IoStatus::done)
      text += as_text({room.data(), got.count});
    else if (got.status == IoStatus::eof)
      break;
    else if (got.status == IoStatus::failed)
      co_return fail(ErrorCode::connection_lost, "read");
    else
      CO_TRY_VOID(co_await stream.readable.wait(call));
  }
  co_return text;
}
constexpr std::size_t to_the_end = ~std::size_t{0};
Task<> read_into(Call call, Stream& stream, std::size_t most, std::string* into) {
  if (auto got = co_await read_up_to(call, stream, most)) *into = std::move(*got);
}

Task<Result<std::unique_ptr<Stream>>> accept_one(Call call, Listener& listener) {
  for (;;) {
    Listener::Accepted accepted = listener.try_accept();
    if (accepted.status == IoStatus::done) co_return std::move(accepted.stream);
    CO_TRY_VOID(co_await listener.acceptable.wait(call));
  }
}

// A plain blocking socket: a peer that is not ours.
class RawSocket {
 public:
  explicit RawSocket(int family = AF_INET) : descriptor_(::socket(family, SOCK_STREAM, 0)) {}
  ~RawSocket() { close(); }
  RawSocket(const RawSocket&) = delete;
  RawSocket& operator=(const RawSocket&) = delete;

  int get() const noexcept { return descriptor_; }
  bool connect(std::uint16_t port) {
    const sockaddr_in to = loopback(port);
    return ::connect(descriptor_, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0;
  }
  std::uint16_t listen(int backlog) {
    sockaddr_in at = loopback(0);
    socklen_t size = sizeof at;
    EXPECT_EQ(::bind(descriptor_, reinterpret_cast<sockaddr*>(&at), size), 0);
    EXPECT_EQ(::listen(descriptor_, backlog), 0);
    EXPECT_EQ(::getsockname(descriptor_, reinterpret_cast<sockaddr*>(&at), &size), 0);
    return ntohs(at.sin_port);
  }
  void send(std::string_view text) {
    EXPECT_EQ(::send(descriptor_, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  // What arrives next; the errno of a failure.
  std::pair<std::string, int> receive() {
    char room[4096];
    const ssize_t got = ::recv(descriptor_, room, sizeof room, 0);
    if (got < 0) return {"", errno};
    return {std::string(room, static_cast<std::size_t>(got)), 0};
  }
  tcp_info info() const {
    tcp_info told{};
    socklen_t size = sizeof told;
    EXPECT_EQ(::getsockopt(descriptor_, IPPROTO_TCP, TCP_INFO, &told, &size), 0);
    return told;
  }
  void shutdown_send() { ::shutdown(descriptor_, SHUT_WR); }
  void reset() {
    const linger now{.l_onoff = 1, .l_linger = 0};
    setsockopt(descriptor_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close();
  }
  void close() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
  }

 private:
  static sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons(port);
    return at;
  }
  int descriptor_;
};

class TcpTest : public testing::Test {
 protected:
  // A listener on loopback, and the endpoint to reach it.
  void listen(const std::string& host = "127.0.0.1") {
    auto made = real.network.listen({host, 0, {}});
    ASSERT_TRUE(made.has_value());
    listener = std::move(*made);
    endpoint = *parse_endpoint(listener->local_address());
    EXPECT_NE(endpoint.port, 0);
  }
  std::unique_ptr<Stream> connect() {
    auto made = real.run(real.network.connect(real.call(), endpoint));
    EXPECT_TRUE(made.has_value());
    return std::move(*made);
  }
  std::unique_ptr<Stream> accept() { return std::move(*real.run(accept_one(real.call(), *listener))); }
  std::string read(Stream& stream, std::size_t most) {
    auto got = real.run(read_up_to(real.call(), stream, most));
    return got ? *got : "failed";
  }
  bool write(Stream& stream, std::string text) {
    return real.run(write_all(real.call(), stream, std::move(text))).has_value();
  }

  RealLoop real;
  std::unique_ptr<Listener> listener;
  Endpoint endpoint;
};

TEST_F(TcpTest, bytes_go_both_ways_and_the_end_is_seen) {
  listen();
  auto client = connect();
  auto server = accept();
  EXPECT_TRUE(write(*client, "ping"));
  EXPECT_EQ(read(*server, 4), "ping");
  EXPECT_TRUE(write(*server, "pong"));
  EXPECT_EQ(read(*client, 4), "pong");
  client->shutdown_send();
  EXPECT_EQ(read(*server, to_the_end), "");
  EXPECT_TRUE(write(*server, "still open this way"));
  server->close();
  EXPECT_EQ(read(*client, to_the_end), "still open this way");
}

// Otherwise each read of a request would send a packet of its own, which costs as much as the answer's.
TEST_F(TcpTest, an_answer_is_the_acknowledgement_of_its_request) {
  constexpr unsigned rounds = 200;
  listen();
  RawSocket client;
  ASSERT_TRUE(client.connect(endpoint.port));
  auto server = accept();
  const unsigned before = client.info().tcpi_segs_in;
  for (unsigned i = 0; i < rounds; ++i) {
    client.send("request");
    EXPECT_EQ(read(*server, 7), "request");
    EXPECT_TRUE(write(*server, "answer"));
    EXPECT_EQ(client.receive().first, "answer");
  }
  // A round that the machine delays by 40 ms costs one more.
  EXPECT_LT(client.info().tcpi_segs_in - before, rounds + rounds / 2);
}

TEST_F(TcpTest, who_waits_for_the_rest_of_a_request_lets_the_peer_know_what_has_come) {
  listen();
  RawSocket client;
  ASSERT_TRUE(client.connect(endpoint.port));
  auto server = accept();
  for (int i = 0; i < 3; ++i) {
    client.send("request");
    EXPECT_EQ(read(*server, 7), "request");
    EXPECT_TRUE(write(*server, "answer"));
    EXPECT_EQ(client.receive().first, "answer");
  }
  client.send("half of a req");
  std::string got;
  real.spawn(read_into(real.call(), *server, 17, &got));
  for (int i = 0; i < 3; ++i) real.loop.turn(Duration{});
  EXPECT_EQ(client.info().tcpi_unacked, 0u) << "with Nagle's algorithm the rest would wait for 40 ms";
  client.send("uest");
  EXPECT_TRUE(real.turn_until([&] { return got == "half of a request"; }));
}

TEST_F(TcpTest, peers_know_each_other) {
  listen();
  auto client = connect();
  auto server = accept();
  EXPECT_EQ(format_peer(client->peer()), format_endpoint(endpoint));
  EXPECT_TRUE(format_peer(server->peer()).starts_with("127.0.0.1:"));
  EXPECT_FALSE(server->peer().local);
}

TEST_F(TcpTest, ipv6_is_listened_on_and_reached) {
  auto made = real.network.listen({"::1", 0, {}});
  if (!made) GTEST_SKIP() << "no IPv6 here";
  listener = std::move(*made);
  EXPECT_TRUE(listener->local_address().starts_with("[::1]:"));
  endpoint = *parse_endpoint(listener->local_address());
  auto client = connect();
  auto server = accept();
  EXPECT_TRUE(write(*client, "six"));
  EXPECT_EQ(read(*server, 3), "six");
  EXPECT_TRUE(format_peer(server->peer()).starts_with("[::1]:"));
}

TEST_F(TcpTest, more_than_the_kernel_holds_waits_for_the_reader) {
  listen();
  auto client = connect();
  auto server = accept();
  std::string text(8 << 20, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31 >> 3);
  const iovec all = part(text);
  std::size_t sent = 0;
  for (Io io{IoStatus::done, 0}; io.status == IoStatus::done && sent < text.size(); sent += io.count) {
    const iovec rest = part(std::string_view(text).substr(sent));
    io = client->try_writev({&rest, 1});
    if (io.status != IoStatus::done) EXPECT_EQ(io.status, IoStatus::would_block);
  }
  ASSERT_LT(sent, all.iov_len);
  EXPECT_FALSE(client->writable.ready());
  std::optional<Result<>> written;
  struct Writer {
    static Task<> run(Call call, Stream& stream, std::string rest, std::optional<Result<>>* out) {
      *out = co_await write_all(call, stream, std::move(rest));
    }
  };
  real.spawn(Writer::run(real.call(), *client, text.substr(sent), &written));
  EXPECT_TRUE(read(*server, text.size()) == text);
  EXPECT_TRUE(real.turn_until([&] { return written.has_value(); }));
  EXPECT_TRUE(written->has_value());
}

TEST_F(TcpTest, the_end_that_came_with_data_is_seen) {
  listen();
  RawSocket raw;
  ASSERT_TRUE(raw.connect(endpoint.port));
  raw.send("data");
  raw.shutdown_send();
  auto server = accept();
  ASSERT_TRUE(real.turn_until([&] { return server->readable.ready(); }));
  std::array<std::byte, 4096> room;
  const Io got = server->try_read(room);
  EXPECT_EQ(got.status, IoStatus::done);
  EXPECT_EQ(got.count, 4u);
  EXPECT_EQ(read(*server, to_the_end), "") << "no further edge comes; the wait must not need one";
}

TEST_F(TcpTest, a_short_read_waits_for_the_next_edge) {
  listen();
  RawSocket raw;
  ASSERT_TRUE(raw.connect(endpoint.port));
  auto server = accept();
  raw.send("one");
  EXPECT_EQ(read(*server, 3), "one");
  EXPECT_FALSE(server->readable.ready());
  raw.send("two");
  EXPECT_EQ(read(*server, 3), "two");
}

TEST_F(TcpTest, a_peer_that_leaves_is_told_once) {
  for (const bool reset : {false, true}) {
    listen();
    RawSocket raw;
    ASSERT_TRUE(raw.connect(endpoint.port));
    auto server = accept();
    int told = 0;
    server->on_peer_gone([](void* count) noexcept { ++*static_cast<int*>(count); }, &told);
    raw.send("x");
    ASSERT_TRUE(real.turn_until([&] { return server->readable.ready(); }));
    EXPECT_EQ(told, 0);
    if (reset)
      raw.reset();
    else
      raw.close();
    EXPECT_TRUE(real.turn_until([&] { return told > 0; }));
    real.loop.turn(Duration{0});
    EXPECT_EQ(told, 1);
  }
}

TEST_F(TcpTest, a_reset_fails_reads_and_writes_without_a_signal) {
  listen();
  RawSocket raw;
  ASSERT_TRUE(raw.connect(endpoint.port));
  auto server = accept();
  raw.reset();
  EXPECT_EQ(read(*server, 1), "failed");
  EXPECT_FALSE(write(*server, "x"));
  EXPECT_FALSE(write(*server, "x"));
}

TEST_F(TcpTest, closing_with_a_reset_is_seen_as_one) {
  listen();
  RawSocket raw;
  ASSERT_TRUE(raw.connect(endpoint.port));
  auto server = accept();
  server->close(true);
  EXPECT_EQ(raw.receive().second, ECONNRESET);
  server->close();  // idempotent
}

TEST_F(TcpTest, closing_plainly_sends_what_was_written_and_the_end) {
  listen();
  RawSocket raw;
  ASSERT_TRUE(raw.connect(endpoint.port));
  auto server = accept();
  EXPECT_TRUE(write(*server, "last words"));
  server->close();
  EXPECT_EQ(raw.receive().first, "last words");
  EXPECT_EQ(raw.receive(), (std::pair<std::string, int>{"", 0}));
}

TEST_F(TcpTest, discarded_bytes_are_gone_and_counted) {
  listen();
  RawSocket raw;
  ASSERT_TRUE(raw.connect(endpoint.port));
  auto server = accept();
  raw.send("discard-keep");
  ASSERT_TRUE(real.turn_until([&] { return server->readable.ready(); }));
  const Io io = server->try_discard(8);
  EXPECT_EQ(io.status, IoStatus::done);
  EXPECT_EQ(io.count, 8u);
  EXPECT_EQ(read(*server, 4), "keep");
}

TEST_F(TcpTest, several_parts_are_one_write) {
  listen();
  RawSocket raw;
  ASSERT_TRUE(raw.connect(endpoint.port));
  auto server = accept();
  const iovec parts[] = {part("head "), part("and "), part("body")};
  EXPECT_EQ(server->try_writev(parts).count, 13u);
  EXPECT_EQ(raw.receive().first, "head and body");
}

TEST_F(TcpTest, what_is_corked_goes_with_what_follows) {
  listen();
  RawSocket raw;
  ASSERT_TRUE(raw.connect(endpoint.port));
  auto server = accept();
  server->cork(true);
  EXPECT_TRUE(write(*server, "head"));
  server->cork(false);
  EXPECT_TRUE(write(*server, "body"));
  EXPECT_EQ(raw.receive().first, "headbody");
}

TEST_F(TcpTest, a_file_range_is_sent_and_a_file_that_became_shorter_fails) {
  TemporaryDirectory directory;
  auto file = *real.run(real.disk.open(real.call(), directory.at("f"), OpenMode::create_new));
  Buffer text = real.loop.slab().take(10);
  std::copy_n(as_bytes("0123456789").begin(), 10, text.room().begin());
  text.fill(10);
  ASSERT_TRUE(real.run(file->write(real.call(), 0, std::move(text))).has_value());
  listen();
  RawSocket raw;
  ASSERT_TRUE(raw.connect(endpoint.port));
  auto server = accept();
  const Io sent = server->try_send_file(*file, 3, 4);
  EXPECT_EQ(sent.status, IoStatus::done);
  EXPECT_EQ(sent.count, 4u);
  EXPECT_EQ(raw.receive().first, "3456");
  EXPECT_EQ(server->try_send_file(*file, 10, 1).status, IoStatus::failed);
}

// --- listening

TEST_F(TcpTest, shards_share_a_port) {
  listen();
  EXPECT_TRUE(real.network.listen(endpoint).has_value());
}

TEST_F(TcpTest, a_port_that_somebody_else_has_is_a_conflict) {
  RawSocket raw;
  const std::uint16_t taken = raw.listen(1);
  const auto made = real.network.listen({"127.0.0.1", taken, {}});
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code, ErrorCode::conflict);
}

TEST_F(TcpTest, a_listeners_name_is_not_looked_up) {
  EXPECT_EQ(real.network.listen({"example.test", 0, {}}).error().code, ErrorCode::invalid);
  EXPECT_TRUE(real.network.listen({"localhost", 0, {}}).has_value());
}

TEST_F(TcpTest, a_closed_listener_refuses) {
  listen();
  listener->close();
  const auto made = real.run(real.network.connect(real.call(), endpoint));
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code, ErrorCode::connection_lost);
  EXPECT_EQ(made.error().side, Side::upstream);
}

TEST_F(TcpTest, accepting_without_descriptors_fails_and_goes_on_when_there_are_some) {
  listen();
  RawSocket raw;
  ASSERT_TRUE(raw.connect(endpoint.port));
  ASSERT_TRUE(real.turn_until([&] { return listener->acceptable.ready(); }));
  std::vector<int> all;
  for (int next = ::open("/dev/null", O_RDONLY); next >= 0 && all.size() < 1'000'000;
       next = ::open("/dev/null", O_RDONLY))
    all.push_back(next);
  const int why = errno;
  const Listener::Accepted refused = listener->try_accept();
  for (const int descriptor : all) ::close(descriptor);
  if (why != EMFILE) GTEST_SKIP() << "the limit of descriptors could not be reached";
  EXPECT_EQ(refused.status, IoStatus::failed);
  EXPECT_TRUE(listener->acceptable.ready());
  EXPECT_EQ(listener->try_accept().status, IoStatus::done);
}

// --- connecting

TEST_F(TcpTest, the_deadline_ends_a_connect_that_nobody_answers) {
  // A full backlog drops what comes after it: the handshake hangs.
  RawSocket full;
  const std::uint16_t silent = full.listen(0);
  std::vector<std::unique_ptr<RawSocket>> fill;
  for (int i = 0; i < 4; ++i) {
    fill.push_back(std::make_unique<RawSocket>());
    ::fcntl(fill.back()->get(), F_SETFL, O_NONBLOCK);
    (void)fill.back()->connect(silent);
  }
  real.loop.turn(Duration{0});
  const auto made = real.run(real.network.connect(
      real.call().by(real.loop.shard().now() + Duration::millis(50)), {"127.0.0.1", silent, {}}));
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code, ErrorCode::timeout);
}

TEST_F(TcpTest, a_name_is_looked_up_to_connect) {
  listen();
  // Not the literal that is taken for loopback without asking, but as good as sure to be known.
  auto made = real.run(real.network.connect(real.call(), {"localhost.", endpoint.port, {}}));
  if (!made) GTEST_SKIP() << "no resolver here";
  EXPECT_TRUE(write(**made, "x"));
}

// --- Unix sockets

class UnixTest : public TcpTest {
 protected:
  void SetUp() override {
    auto made = real.network.listen({"", 0, path});
    ASSERT_TRUE(made.has_value());
    listener = std::move(*made);
    endpoint = *parse_endpoint(listener->local_address());
  }
  static unsigned mode_of(const std::string& path) {
    struct stat is{};
    EXPECT_EQ(::stat(path.c_str(), &is), 0);
    return is.st_mode & 0777;
  }
  TemporaryDirectory directory;
  std::string path = directory.at("run/cairn.sock");
};

TEST_F(UnixTest, the_socket_is_private_in_a_private_directory) {
  EXPECT_EQ(endpoint.path, path);
  EXPECT_EQ(mode_of(path), 0600u);
  EXPECT_EQ(mode_of(directory.at("run")), 0700u);
}

TEST_F(UnixTest, the_peers_user_is_known) {
  auto client = connect();
  auto server = accept();
  EXPECT_TRUE(server->peer().local);
  EXPECT_EQ(server->peer().uid, ::geteuid());
  EXPECT_TRUE(server->peer().same_user);
  EXPECT_TRUE(write(*client, "hello"));
  EXPECT_EQ(read(*server, 5), "hello");
}

TEST_F(UnixTest, the_socket_goes_with_its_listener_and_a_stale_one_is_replaced) {
  listener->close();
  EXPECT_NE(::access(path.c_str(), F_OK), 0);
  {
    RawSocket stale(AF_UNIX);
    sockaddr_un at{};
    at.sun_family = AF_UNIX;
    path.copy(at.sun_path, sizeof at.sun_path - 1);
    ASSERT_EQ(::bind(stale.get(), reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
  }
  EXPECT_EQ(::access(path.c_str(), F_OK), 0);
  EXPECT_TRUE(real.network.listen({"", 0, path}).has_value());
}

TEST_F(UnixTest, a_directory_that_others_may_enter_is_refused) {
  ASSERT_EQ(::chmod(directory.at("run").c_str(), 0755), 0);
  const auto made = real.network.listen({"", 0, directory.at("run/other.sock")});
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code, ErrorCode::invalid);
}

TEST_F(UnixTest, paths_that_cannot_be_are_refused) {
  EXPECT_EQ(real.network.listen({"", 0, directory.at(std::string(108, 'x'))}).error().code,
            ErrorCode::invalid);
  EXPECT_EQ(real.network.listen({"", 0, "no-directory.sock"}).error().code, ErrorCode::invalid);
  EXPECT_FALSE(real.network.listen({"", 0, directory.at("a/b/c.sock")}).has_value());
}

TEST_F(UnixTest, nobody_there_is_refused) {
  listener->close();
  const auto made = real.run(real.network.connect(real.call(), endpoint));
  ASSERT_FALSE(made.has_value());
  EXPECT_EQ(made.error().code, ErrorCode::connection_lost);
}

}  // namespace
}  // namespace cairn::io
