#include "http/client.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "io/sim/memory.h"
#include "runtime/driven_shard.h"
#include "runtime/wait.h"

namespace cairn::http {
namespace {

using namespace std::literals;

// What a connection carries, seen from the peer's side; outlives the stream.
struct Wire {
  class Twin* twin = nullptr;  // null when the client has closed it
  std::string endpoint;
  std::string seen;  // what the client wrote
  std::string to_read;
  std::size_t room = ~std::size_t{0};  // how much the peer still takes
  bool ended = false;
  bool failed = false;

  bool closed() const noexcept { return twin == nullptr; }
  void answer(std::string_view bytes);
  void end();
  void answer_and_end(std::string_view bytes);  // in one edge, as a kernel would report it
  void reset();
  void make_room(std::size_t count);
};

class Twin final : public io::Stream {
 public:
  Twin(Shard& shard, Wire& wire) : Stream(shard), wire_(wire) {
    wire_.twin = this;
    writable.signal();
  }
  ~Twin() override { close(false); }

  io::Io try_read(MutableByteView into) noexcept override {
    EXPECT_FALSE(into.empty());
    if (wire_.failed) return {io::IoStatus::failed};
    if (wire_.to_read.empty()) {
      if (wire_.ended) return {io::IoStatus::eof};
      readable.clear();
      return {io::IoStatus::would_block};
    }
    const std::size_t count = std::min(into.size(), wire_.to_read.size());
    std::memcpy(into.data(), wire_.to_read.data(), count);
    wire_.to_read.erase(0, count);
    if (count < into.size()) readable.clear();
    return {io::IoStatus::done, count};
  }
  io::Io try_discard(std::size_t) noexcept override { return {io::IoStatus::failed}; }
  std::uint64_t unacknowledged() const noexcept override { return 0; }
  io::Io try_writev(std::span<const iovec> parts) noexcept override {
    if (wire_.failed) return {io::IoStatus::failed};
    std::size_t count = 0;
    for (const iovec& one : parts) {
      EXPECT_GT(one.iov_len, 0u);
      const std::size_t size = std::min(one.iov_len, wire_.room);
      wire_.seen.append(static_cast<const char*>(one.iov_base), size);
      wire_.room -= size;
      count += size;
    }
    if (count > 0) return {io::IoStatus::done, count};
    writable.clear();
    return {io::IoStatus::would_block};
  }
  io::Io try_send_file(io::File& file, std::uint64_t offset, std::size_t count) noexcept override {
    std::vector<std::byte> bytes(std::min(count, wire_.room));
    const iovec all{bytes.data(), bytes.size()};
    if (bytes.empty()) return try_writev({});
    return file.try_read_into(offset, bytes) == bytes.size() ? try_writev({&all, 1})
                                                             : io::Io{io::IoStatus::failed};
  }
  void cork(bool) noexcept override {}
  void shutdown_send() noexcept override {}
  void close(bool) noexcept override { wire_.twin = nullptr; }
  io::PeerAddress peer() const noexcept override { return {}; }
  void tell() noexcept { tell_peer_gone(); }

 private:
  Wire& wire_;
};

void Wire::answer(std::string_view bytes) {
  to_read += bytes;
  if (twin != nullptr) twin->readable.signal();
}
void Wire::end() { answer_and_end({}); }
void Wire::answer_and_end(std::string_view bytes) {
  ended = true;
  answer(bytes);
  if (twin != nullptr) twin->tell();
}
void Wire::reset() {
  failed = true;
  answer({});
  if (twin == nullptr) return;
  twin->writable.signal();
  twin->tell();
}
void Wire::make_room(std::size_t count) {
  room += count;
  if (twin != nullptr) twin->writable.signal();
}

class Wires final : public io::Network {
 public:
  explicit Wires(Shard& shard) : shard_(shard) {}
  Result<std::unique_ptr<io::Listener>> listen(const io::Endpoint&) override {
    return fail(ErrorCode::invalid, "no listener here");
  }
  Task<Result<std::unique_ptr<io::Stream>>> connect(Call call, io::Endpoint endpoint) override {
    ++connects;
    if (delay.ns > 0) CO_TRY_VOID(co_await sleep_for(call, delay));
    if (refusals > 0) {
      --refusals;
      co_return fail(ErrorCode::connection_lost, "connect", Side::upstream);
    }
    Wire& wire = at.emplace_back();
    wire.endpoint = format_endpoint(endpoint);
    wire.room = room;
    co_return std::make_unique<Twin>(shard_, wire);
  }
  std::deque<Wire> at;  // in the order of connecting
  unsigned connects = 0;
  unsigned refusals = 0;
  Duration delay{};
  std::size_t room = ~std::size_t{0};

 private:
  Shard& shard_;
};

class NoDisk final : public io::Disk {
 public:
  Task<Result<std::unique_ptr<io::File>>> open(Call, std::string, io::OpenMode) override { co_return none(); }
  Task<Result<>> rename(Call, std::string, std::string) override { co_return none(); }
  Task<Result<>> unlink(Call, std::string) override { co_return none(); }
  Task<Result<>> make_directory(Call, std::string) override { co_return none(); }
  Task<Result<std::vector<std::string>>> list(Call, std::string) override { co_return none(); }
  Task<Result<>> sync_directory(Call, std::string) override { co_return none(); }
  Task<Result<io::FreeSpace>> free_space(Call, std::string) override { co_return none(); }
  Task<Result<std::uint64_t>> total_space(Call, std::string) override { co_return none(); }

 private:
  static std::unexpected<Error> none() { return fail(ErrorCode::io_failed, "no disk here"); }
};

class NoEntropy final : public io::Entropy {
 public:
  void fill(MutableByteView) noexcept override {}
};

io::Endpoint host(std::string name) { return {std::move(name), 80, ""}; }

ClientRequest get(std::string target = "/", std::string name = "a") {
  ClientRequest request;
  request.endpoint = host(std::move(name));
  request.target = std::move(target);
  return request;
}

ClientRequest post(std::string text, std::string name = "a") {
  ClientRequest request = get("/", std::move(name));
  request.method = Method::post;
  request.set_text(std::move(text));
  return request;
}

// One request's outcome. The answer is kept until it is dropped or read.
struct Asked {
  std::optional<Result<ClientResponse>> head;
  std::optional<Result<std::string>> body;

  bool ended() const { return head.has_value(); }
  Error error() const { return head && !*head ? head->error() : Error(ErrorCode::ok, ""); }
  std::string text() const { return body && *body ? **body : "(no body)"; }
};

struct World : DrivenShard {
  explicit World(ClientOptions options = {}) : client(machine, options) {}
  ~World() {
    scope.spawn("close", close(this));
    run();
    EXPECT_TRUE(scope.empty());
    EXPECT_EQ(client.open_connections(), 0u);
    for (const Wire& wire : wires.at) EXPECT_TRUE(wire.closed());
  }

  static Task<> close(World* w) { co_await w->client.close(w->call()); }
  static Task<> ask_of(Client* client, Asked* to, ClientRequest request, Call call) {
    to->head.emplace(co_await client->send(call, std::move(request)));
  }
  static Task<> read_task(Asked* from, Call call) {
    from->body.emplace(co_await (*from->head)->read_text(call, 1u << 20));
  }
  static Task<> retry_task(World* w, Asked* to, ClientRequest request, Call call, RetryPolicy policy) {
    to->head.emplace(co_await send_with_retries(call, w->client, std::move(request), policy));
  }

  void ask(Asked& to, ClientRequest request) { ask(to, std::move(request), call()); }
  void ask(Asked& to, ClientRequest request, Call with) {
    scope.spawn("ask", ask_of(&client, &to, std::move(request), with));
    settle();
  }
  void read(Asked& from) { read(from, call()); }
  void read(Asked& from, Call with) {
    scope.spawn("read", read_task(&from, with));
    settle();
  }
  void retry(Asked& to, ClientRequest request, RetryPolicy policy = {}) {
    scope.spawn("retry", retry_task(this, &to, std::move(request), call(), policy));
    settle();
  }
  // A whole request and its answer; gives the body.
  std::string round(ClientRequest request, std::size_t wire, std::string_view answer) {
    Asked asked;
    ask(asked, std::move(request));
    if (wires.at.size() <= wire) return "(no connection)";
    wires.at[wire].answer(answer);
    settle();
    if (!asked.ended() || !*asked.head) return "(no answer)";
    read(asked);
    return asked.text();
  }

  Slab slab;
  Wires wires{shard};
  NoDisk disk;
  NoEntropy entropy;
  Mailbox mailbox{[] {}};
  ThreadPool threads{{}};
  PoolPort pool{threads, mailbox};
  io::sim::SimMemory memory;
  io::Machine machine{shard, slab, wires, disk, entropy, mailbox, pool, memory};
  Client client;
};

constexpr std::string_view ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

class Parts : public io::BodySource {
 public:
  Parts(Slab& slab, std::vector<std::string> parts, Error ending = {ErrorCode::ok, ""})
      : slab_(slab), parts_(std::move(parts)), ending_(ending) {}
  Task<Result<io::Piece>> next(Call) override {
    if (at_ == parts_.size() && ending_.code != ErrorCode::ok) co_return fail(ending_);
    if (at_ == parts_.size()) co_return Buffer();
    const std::string& text = parts_[at_++];
    Buffer slice = slab_.take(text.size());
    std::memcpy(slice.room().data(), text.data(), text.size());
    slice.fill(text.size());
    co_return slice;
  }

 private:
  Slab& slab_;
  std::vector<std::string> parts_;
  Error ending_;
  std::size_t at_ = 0;
};

// ---- requests as they go out

TEST(Client, a_request_is_written_with_its_framing) {
  World w;
  ClientRequest request = get("/x?y=1");
  request.add_field("Accept", "text/plain");
  EXPECT_EQ(w.round(std::move(request), 0, ok), "ok");
  EXPECT_EQ(w.wires.at[0].seen, "GET /x?y=1 HTTP/1.1\r\nHost: a:80\r\nAccept: text/plain\r\n\r\n");
  EXPECT_EQ(w.round(post("abc"), 0, ok), "ok");
  EXPECT_TRUE(w.wires.at[0].seen.ends_with("POST / HTTP/1.1\r\nHost: a:80\r\nContent-Length: 3\r\n\r\nabc"));
  EXPECT_EQ(w.round(post(""), 0, ok), "ok");
  EXPECT_TRUE(w.wires.at[0].seen.ends_with("Content-Length: 0\r\n\r\n"));
}

TEST(Client, a_request_that_cannot_be_written_is_refused_before_anything_is_opened) {
  World w;
  const auto refused = [&](ClientRequest request) {
    Asked asked;
    w.ask(asked, std::move(request));
    return asked.error().code == ErrorCode::invalid;
  };
  ClientRequest injected = get();
  injected.add_field("X-A", "1\r\nX-B: 2");
  EXPECT_TRUE(refused(std::move(injected)));
  for (std::string_view name :
       {"content-length", "Transfer-Encoding", "Host", "Connection", "bad name", ""}) {
    ClientRequest framing = get();
    framing.add_field(name, "1");
    EXPECT_TRUE(refused(std::move(framing))) << name;
  }
  for (const char* target : {"/a b", "a", "", "/a\r\nX: y", "http://a/"}) EXPECT_TRUE(refused(get(target)));
  EXPECT_TRUE(refused(get("/", "a b")));
  EXPECT_TRUE(refused(get("/" + std::string(70'000, 'x'))));
  EXPECT_EQ(w.wires.connects, 0u);
}

TEST(Client, a_streamed_body_is_sent_in_chunks_or_by_its_length) {
  World w;
  ClientRequest chunked = post("");
  chunked.set_source(std::make_unique<Parts>(w.slab, std::vector{"hello "s, std::string(20, 'x')}));
  EXPECT_EQ(w.round(std::move(chunked), 0, ok), "ok");
  EXPECT_EQ(w.wires.at[0].seen,
            "POST / HTTP/1.1\r\nHost: a:80\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nhello \r\n14\r\n" +
                std::string(20, 'x') + "\r\n0\r\n\r\n");
  w.wires.at[0].seen.clear();
  ClientRequest sized = post("");
  sized.set_source(std::make_unique<Parts>(w.slab, std::vector{"ab"s, "cde"s}), 5);
  EXPECT_EQ(w.round(std::move(sized), 0, ok), "ok");
  EXPECT_TRUE(w.wires.at[0].seen.ends_with("Content-Length: 5\r\n\r\nabcde"));
}

// Memory and a file's range in turn, each held until it was sent.
class HeldParts : public io::BodySource {
 public:
  HeldParts(io::Arena& arena, int& held) : arena_(arena), held_(held) {}
  std::optional<io::Piece> try_next() override {
    if (at_ == 4) return io::Piece();
    const std::size_t from = 5 * at_++;
    ++held_;
    io::Hold hold(&held_, [](void* held) noexcept { --*static_cast<int*>(held); });
    if (at_ % 2 == 0) return io::Piece::range(arena_.file(), from, 5, std::move(hold));
    return io::Piece::memory({arena_.data() + from, 5}, std::move(hold));
  }
  Task<Result<io::Piece>> next(Call) override { co_return fail(ErrorCode::internal, "all is at hand"); }

 private:
  io::Arena& arena_;
  int& held_;
  std::size_t at_ = 0;
};

TEST(Client, pieces_of_memory_and_files_are_sent_and_let_go) {
  constexpr std::string_view text = "aaaaabbbbbcccccddddd";
  for (const std::size_t room : {std::size_t{3}, std::size_t{7}, ~std::size_t{0}}) {
    World w;
    auto arena = std::move(*w.memory.make_arena(text.size()));
    std::memcpy(arena->data(), text.data(), text.size());
    int held = 0;
    for (const bool sized : {true, false}) {
      ClientRequest request = post("");
      request.set_source(std::make_unique<HeldParts>(*arena, held),
                         sized ? std::optional<std::uint64_t>(text.size()) : std::nullopt);
      w.wires.room = room;  // of a new connection
      for (Wire& before : w.wires.at) before.room = room;
      Asked asked;
      w.ask(asked, std::move(request));
      Wire& wire = w.wires.at[0];
      while (!wire.seen.ends_with(sized ? "ddddd" : "0\r\n\r\n")) {
        wire.room = room;
        wire.twin->writable.signal();
        w.settle();
      }
      EXPECT_EQ(held, 0);
      EXPECT_TRUE(wire.seen.ends_with(
          sized ? "\r\n\r\naaaaabbbbbcccccddddd"
                : "\r\n\r\n5\r\naaaaa\r\n5\r\nbbbbb\r\n5\r\nccccc\r\n5\r\nddddd\r\n0\r\n\r\n"));
      wire.seen.clear();
      wire.room = ~std::size_t{0};
      wire.answer(ok);
      w.settle();
      w.read(asked);
      EXPECT_EQ(asked.text(), "ok");
    }
  }
}

TEST(Client, a_source_that_breaks_its_promise_breaks_the_connection) {
  for (std::uint64_t length : {4u, 6u}) {
    World w;
    ClientRequest request = post("");
    request.set_source(std::make_unique<Parts>(w.slab, std::vector{"ab"s, "cde"s}), length);
    Asked asked;
    w.ask(asked, std::move(request));
    EXPECT_EQ(asked.error().code, ErrorCode::invalid);
    EXPECT_TRUE(w.wires.at[0].closed());
  }
  World w;
  ClientRequest request = post("");
  request.set_source(
      std::make_unique<Parts>(w.slab, std::vector{"ab"s}, Error(ErrorCode::integrity, "bad group")));
  Asked asked;
  w.ask(asked, std::move(request));
  EXPECT_EQ(asked.error().code, ErrorCode::integrity);
  EXPECT_TRUE(w.wires.at[0].closed());
}

TEST(Client, a_slow_peer_gets_the_request_piece_by_piece) {
  World w;
  w.wires.room = 1;
  Asked asked;
  w.ask(asked, post("abcdef"));
  for (int i = 0; i < 200; ++i) {
    w.wires.at[0].make_room(1);
    w.settle();
  }
  EXPECT_EQ(w.wires.at[0].seen, "POST / HTTP/1.1\r\nHost: a:80\r\nContent-Length: 6\r\n\r\nabcdef");
  w.wires.at[0].answer(ok);
  w.settle();
  ASSERT_TRUE(asked.ended() && *asked.head);
}

TEST(Client, an_early_answer_ends_the_sending_and_the_connection) {
  World w;
  w.wires.room = 60;
  Asked asked;
  w.ask(asked, post(std::string(1000, 'x')));
  EXPECT_FALSE(asked.ended());
  w.wires.at[0].answer("HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig");
  w.wires.at[0].make_room(1);
  w.settle();
  ASSERT_TRUE(asked.ended() && *asked.head);
  EXPECT_EQ((*asked.head)->status(), 413);
  w.read(asked);
  EXPECT_EQ(asked.text(), "big");
  EXPECT_TRUE(w.wires.at[0].closed());
  EXPECT_LT(w.wires.at[0].seen.size(), 100u);
}

TEST(Client, an_early_answer_of_a_peer_that_stops_reading_is_seen_at_once) {
  World w;
  w.wires.room = 60;
  Asked asked;
  w.ask(asked, post(std::string(1000, 'x')));
  w.wires.at[0].answer_and_end("HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n");
  w.settle();
  ASSERT_TRUE(asked.ended() && *asked.head);
  EXPECT_EQ((*asked.head)->status(), 429);
}

// ---- answers

TEST(Client, answers_are_the_same_wherever_they_are_split) {
  const std::string_view fixed = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: \"x\"\r\n\r\nhello";
  const std::string_view chunked =
      "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nETag: "
      "\"x\"\r\n\r\n2;a=b\r\nhe\r\n3\r\nllo\r\n0\r\nX: y\r\n\r\n";
  for (const std::string_view text : {fixed, chunked})
    for (std::size_t step = 1; step <= 3; ++step)
      for (std::size_t cut = 1; cut < text.size(); ++cut) {
        World w;
        Asked asked;
        w.ask(asked, get());
        bool reading = false;
        const auto give = [&](std::string_view piece) {
          w.wires.at[0].answer(piece);
          w.settle();
          if (asked.ended() && !reading) {
            reading = true;
            ASSERT_TRUE(*asked.head);
            w.read(asked);
          }
        };
        // One cut, or from the cut on in small steps.
        give(text.substr(0, cut));
        if (step == 1)
          give(text.substr(cut));
        else
          for (std::size_t at = cut; at < text.size(); at += step - 1) give(text.substr(at, step - 1));
        ASSERT_TRUE(asked.ended() && *asked.head) << cut;
        EXPECT_EQ((*asked.head)->head().fields.get(FieldName::etag), "\"x\"");
        EXPECT_EQ(asked.text(), "hello") << cut;
        EXPECT_EQ(w.client.idle_connections(), 1u) << cut;
      }
}

TEST(Client, the_head_stays_readable_after_the_body_was_read) {
  World w;
  Asked asked;
  w.ask(asked, get());
  w.wires.at[0].answer("HTTP/1.1 404 Not Here\r\nContent-Length: 2\r\nX-Reason: gone\r\n\r\nno");
  w.settle();
  ASSERT_TRUE(asked.ended() && *asked.head);
  w.read(asked);
  EXPECT_EQ(asked.text(), "no");
  EXPECT_EQ(w.round(get(), 0, ok), "ok");  // the connection serves another
  EXPECT_EQ((*asked.head)->status(), 404);
  EXPECT_EQ((*asked.head)->head().reason(), "Not Here");
  EXPECT_EQ((*asked.head)->head().fields.get(FieldName::x_reason), "gone");
}

TEST(Client, answers_without_a_body_end_with_their_head) {
  World w;
  ClientRequest head = get();
  head.method = Method::head;
  EXPECT_EQ(w.round(std::move(head), 0, "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"), "");
  EXPECT_EQ(w.round(get(), 0, "HTTP/1.1 204 No Content\r\n\r\n"), "");
  EXPECT_EQ(w.round(get(), 0, "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n"), "");
  EXPECT_EQ(w.round(get(), 0, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"), "");
  EXPECT_EQ(w.wires.connects, 1u);
}

TEST(Client, interim_answers_are_skipped_but_not_for_ever) {
  World w;
  EXPECT_EQ(
      w.round(get(), 0, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n"s + std::string(ok)),
      "ok");
  Asked asked;
  w.ask(asked, get());
  for (int i = 0; i < 40; ++i) w.wires.at[0].answer("HTTP/1.1 100 Continue\r\n\r\n");
  w.settle();
  EXPECT_EQ(asked.error().code, ErrorCode::upstream);
  EXPECT_TRUE(w.wires.at[0].closed());
}

TEST(Client, a_large_head_and_a_large_body_pass) {
  World w;
  std::string head = "HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n";
  for (int i = 0; i < 20; ++i) head += "X-Reason: " + std::string(1000, static_cast<char>('a' + i)) + "\r\n";
  std::string body(300'000, 'b');
  for (std::size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>('a' + i % 23);
  EXPECT_EQ(w.round(get(), 0, head + "\r\n" + body), body);
  EXPECT_EQ(w.client.idle_connections(), 1u);
}

TEST(Client, slices_of_a_dripping_peer_hold_little_memory) {
  World w;
  Asked asked;
  w.ask(asked, get());
  w.wires.at[0].answer("HTTP/1.1 200 OK\r\nContent-Length: 60000\r\n\r\n");
  w.settle();
  ASSERT_TRUE(asked.ended() && *asked.head);
  std::vector<Buffer> held;
  const auto pull = [](Asked* from, std::vector<Buffer>* to, Call call) -> Task<> {
    auto slice = co_await (*from->head)->next(call);
    if (slice) to->push_back(std::move(*slice));
  };
  for (int i = 0; i < 8; ++i) {
    w.scope.spawn("pull", pull(&asked, &held, w.call()));
    w.settle();
    w.wires.at[0].answer("x");
    w.settle();
  }
  EXPECT_EQ(held.size(), 8u);
  EXPECT_LE(w.slab.bytes_in_use(), 10 * Slab::small);
  held.clear();
  asked.head.reset();
}

TEST(Client, answers_that_are_not_http_are_upstream_errors) {
  for (std::string_view text :
       {"garbage\r\n\r\n"sv, "HTTP/2.0 200 OK\r\n\r\n"sv, "HTTP/1.1 200 OK\nContent-Length: 0\n\n"sv,
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\na"sv,
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"sv,
        "HTTP/1.1 101 Switching Protocols\r\n\r\n"sv}) {
    World w;
    Asked asked;
    w.ask(asked, get());
    w.wires.at[0].answer(text);
    w.settle();
    EXPECT_EQ(asked.error().code, ErrorCode::upstream) << text;
    EXPECT_EQ(asked.error().side, Side::upstream);
    EXPECT_TRUE(w.wires.at[0].closed());
    EXPECT_EQ(w.wires.connects, 1u);
  }
}

TEST(Client, broken_chunks_are_an_upstream_error_and_stay_one) {
  World w;
  Asked asked;
  w.ask(asked, get());
  w.wires.at[0].answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhiX\r\n");
  w.settle();
  ASSERT_TRUE(asked.ended() && *asked.head);
  for (int i = 0; i < 2; ++i) {
    w.read(asked);
    ASSERT_TRUE(asked.body && !*asked.body);
    EXPECT_EQ(asked.body->error().code, ErrorCode::upstream);
    EXPECT_EQ(asked.body->error().side, Side::upstream);
    EXPECT_TRUE(w.wires.at[0].closed());
  }
}

TEST(Client, a_body_that_is_cut_off_is_never_taken_for_whole) {
  for (std::string_view text : {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell"sv,
                                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"sv})
    for (bool reset : {false, true}) {
      World w;
      Asked asked;
      w.ask(asked, get());
      if (reset)
        w.wires.at[0].answer(text);
      else
        w.wires.at[0].answer_and_end(text);
      w.settle();
      ASSERT_TRUE(asked.ended() && *asked.head);
      if (reset) w.wires.at[0].reset();
      w.read(asked);
      ASSERT_TRUE(asked.body && !*asked.body);
      EXPECT_EQ(asked.body->error().code, ErrorCode::connection_lost);
      EXPECT_EQ(asked.body->error().side, Side::upstream);
    }
}

TEST(Client, a_body_without_a_length_ends_with_the_connection) {
  World w;
  Asked asked;
  w.ask(asked, get());
  w.wires.at[0].answer_and_end("HTTP/1.1 200 OK\r\n\r\nall of it");
  w.settle();
  ASSERT_TRUE(asked.ended() && *asked.head);
  w.read(asked);
  EXPECT_EQ(asked.text(), "all of it");
  EXPECT_TRUE(w.wires.at[0].closed());
}

TEST(Client, an_answer_over_the_readers_cap_is_refused) {
  World w;
  Asked asked;
  w.ask(asked, get());
  w.wires.at[0].answer("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n");
  w.settle();
  ASSERT_TRUE(asked.ended() && *asked.head);
  const auto read = [](Asked* from, Call call) -> Task<> {
    from->body.emplace(co_await (*from->head)->read_text(call, 4));
  };
  w.scope.spawn("read", read(&asked, w.call()));
  w.settle();
  ASSERT_TRUE(asked.body && !*asked.body);
  EXPECT_EQ(asked.body->error().code, ErrorCode::upstream);
}

// ---- the pool

TEST(Client, a_connection_is_used_again_after_its_answer_was_read) {
  World w;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(w.round(get(), 0, ok), "ok");
  EXPECT_EQ(w.wires.connects, 1u);
  EXPECT_EQ(w.round(get("/", "b"), 1, ok), "ok");  // never for another host
  EXPECT_EQ(w.wires.at[1].endpoint, "b:80");
  EXPECT_EQ(w.client.idle_connections(), 2u);
}

TEST(Client, an_idle_connection_holds_no_buffer) {
  World w;
  EXPECT_EQ(w.round(get(), 0, ok), "ok");
  EXPECT_EQ(w.client.idle_connections(), 1u);
  EXPECT_EQ(w.slab.outstanding(), 0u);
}

TEST(Client, a_connection_whose_peer_says_close_is_not_kept) {
  World w;
  EXPECT_EQ(w.round(get(), 0, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"), "ok");
  EXPECT_TRUE(w.wires.at[0].closed());
  EXPECT_EQ(w.round(get(), 1, "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok"), "ok");
  EXPECT_TRUE(w.wires.at[1].closed());
}

TEST(Client, bytes_behind_an_answer_end_the_connection) {
  World w;
  EXPECT_EQ(w.round(get(), 0, std::string(ok) + "HTTP/1.1 200 OK\r\n"), "ok");
  EXPECT_TRUE(w.wires.at[0].closed());
  EXPECT_EQ(w.round(get(), 1, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nx"), "");
  EXPECT_TRUE(w.wires.at[1].closed());
  EXPECT_EQ(w.round(get(), 2, "HTTP/1.1 204 No Content\r\n\r\nx"), "");
  EXPECT_TRUE(w.wires.at[2].closed());
  EXPECT_EQ(w.round(get(), 3, ok), "ok");
  w.wires.at[3].answer("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil");  // while idle
  EXPECT_EQ(w.round(get(), 4, ok), "ok");
  EXPECT_TRUE(w.wires.at[3].closed());
}

TEST(Client, a_connection_that_ends_with_its_answer_is_closed_at_once) {
  World w;
  Asked asked;
  w.ask(asked, get());
  w.wires.at[0].answer_and_end(ok);
  w.settle();
  ASSERT_TRUE(asked.ended() && *asked.head);
  w.read(asked);
  EXPECT_EQ(asked.text(), "ok");
  EXPECT_TRUE(w.wires.at[0].closed());
}

TEST(Client, a_broken_answer_that_is_still_held_takes_no_connection_from_others) {
  World w({.connections_max = 1});
  Asked broken;
  w.ask(broken, get());
  w.wires.at[0].answer_and_end("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell");
  w.settle();
  ASSERT_TRUE(broken.ended() && *broken.head);
  w.read(broken);
  ASSERT_TRUE(broken.body && !*broken.body);
  EXPECT_EQ(w.round(get(), 1, ok), "ok");
}

TEST(Client, a_body_left_unread_closes_its_connection) {
  World w;
  {
    Asked asked;
    w.ask(asked, get());
    w.wires.at[0].answer(ok);
    w.settle();
    ASSERT_TRUE(asked.ended() && *asked.head);
    EXPECT_FALSE(w.wires.at[0].closed());
  }
  EXPECT_TRUE(w.wires.at[0].closed());
  EXPECT_EQ(w.client.open_connections(), 0u);
}

TEST(Client, connections_that_are_kept_end_with_the_client_that_nobody_closed) {
  World w;
  {
    Client lost(w.machine, {});
    Asked asked;
    w.scope.spawn("ask", World::ask_of(&lost, &asked, get(), w.call()));
    w.settle();
    w.wires.at[0].answer(ok);
    w.settle();
    w.read(asked);
    EXPECT_EQ(asked.text(), "ok");
    EXPECT_EQ(lost.idle_connections(), 1u);
    EXPECT_FALSE(w.wires.at[0].closed());
  }
  EXPECT_TRUE(w.wires.at[0].closed());
}

TEST(Client, idle_connections_are_closed_after_their_time) {
  World w({.idle_timeout = Duration::seconds(10)});
  EXPECT_EQ(w.round(get(), 0, ok), "ok");
  w.run_for(Duration::seconds(6));
  EXPECT_EQ(w.round(get("/", "b"), 1, ok), "ok");
  EXPECT_EQ(w.client.sweep(), 0u);
  w.run_for(Duration::seconds(4));
  EXPECT_EQ(w.client.sweep(), 1u);
  EXPECT_TRUE(w.wires.at[0].closed());
  w.run_for(Duration::seconds(6));
  EXPECT_EQ(w.round(get("/", "b"), 2, ok), "ok");  // too old to be used, without any sweep
  EXPECT_TRUE(w.wires.at[1].closed());
}

TEST(Client, idle_connections_are_bounded_for_each_host) {
  World w({.idle_per_host_max = 2});
  std::array<Asked, 4> asked;
  for (Asked& one : asked) w.ask(one, get());
  for (std::size_t i = 0; i < asked.size(); ++i) {
    w.wires.at[i].answer(ok);
    w.settle();
    w.read(asked[i]);
    EXPECT_EQ(asked[i].text(), "ok");
  }
  EXPECT_EQ(w.client.idle_connections(), 2u);
  EXPECT_EQ(w.client.open_connections(), 2u);
}

TEST(Client, above_the_bound_requests_wait_in_order) {
  World w({.connections_max = 2});
  std::array<Asked, 4> asked;
  for (std::size_t i = 0; i < asked.size(); ++i) w.ask(asked[i], get("/" + std::to_string(i)));
  EXPECT_EQ(w.client.open_connections(), 2u);
  for (std::size_t i = 0; i < asked.size(); ++i) {
    w.wires.at[i % 2].answer(ok);
    w.settle();
    ASSERT_TRUE(asked[i].ended() && *asked[i].head) << i;
    w.read(asked[i]);
    EXPECT_LE(w.client.open_connections(), 2u);
  }
  EXPECT_EQ(w.wires.connects, 2u);
  EXPECT_NE(w.wires.at[0].seen.find("GET /2"), std::string::npos);
}

TEST(Client, idle_connections_make_room_for_other_hosts) {
  World w({.connections_max = 2});
  EXPECT_EQ(w.round(get("/", "a"), 0, ok), "ok");
  EXPECT_EQ(w.round(get("/", "b"), 1, ok), "ok");
  EXPECT_EQ(w.round(get("/", "c"), 2, ok), "ok");
  EXPECT_TRUE(w.wires.at[0].closed());
  EXPECT_FALSE(w.wires.at[1].closed());
  EXPECT_EQ(w.client.open_connections(), 2u);
}

TEST(Client, waiting_for_a_connection_ends_at_the_deadline_and_is_bounded) {
  World w({.connections_max = 1, .waiting_max = 1});
  Asked first, second, third;
  w.ask(first, get());
  w.ask(second, get(), w.call().within(Duration::millis(50)));
  w.ask(third, get());
  EXPECT_EQ(third.error().code, ErrorCode::busy);
  EXPECT_EQ(third.error().side, Side::self);
  w.run_for(Duration::millis(60));
  EXPECT_EQ(second.error().code, ErrorCode::timeout);
  EXPECT_EQ(second.error().side, Side::self);
  w.wires.at[0].answer(ok);
  w.settle();
  EXPECT_TRUE(first.ended() && *first.head);
  EXPECT_EQ(w.wires.connects, 1u);
}

TEST(Client, a_raised_limit_lets_in_who_waits) {
  World w({.connections_max = 1, .waiting_max = 1});
  Asked first, second, third;
  w.ask(first, get());
  w.ask(second, get());
  EXPECT_EQ(w.wires.connects, 1u);
  w.client.raise_limit(1);  // as it is
  w.settle();
  EXPECT_EQ(w.wires.connects, 1u);
  w.client.raise_limit(2);
  w.settle();
  EXPECT_EQ(w.wires.connects, 2u);
  w.ask(third, get());
  EXPECT_EQ(w.wires.connects, 2u) << "it waits";
  for (std::size_t i = 0; i < 2; ++i) w.wires.at[i].answer(ok);
  w.settle();
  ASSERT_TRUE(first.ended() && *first.head && second.ended() && *second.head);
  w.read(first);
  w.settle();
  w.wires.at[0].answer(ok);
  w.settle();
  EXPECT_TRUE(third.ended() && *third.head);
}

TEST(Client, where_nobody_may_wait_it_says_so_at_once) {
  World w({.connections_max = 1, .waiting_max = 0});
  Asked first, second;
  w.ask(first, get());
  w.ask(second, get());
  EXPECT_EQ(second.error().code, ErrorCode::busy);
  w.wires.at[0].answer(ok);
  w.settle();
  EXPECT_TRUE(first.ended() && *first.head);
}

// ---- connections that went stale

TEST(Client, a_connection_seen_to_end_while_idle_is_not_tried) {
  World w;
  EXPECT_EQ(w.round(post("x"), 0, ok), "ok");
  w.wires.at[0].end();
  EXPECT_EQ(w.round(post("x"), 1, ok), "ok");
  EXPECT_EQ(w.wires.at[0].seen.find("POST", 1), std::string::npos);
}

TEST(Client, a_stale_connection_is_replaced_once_for_an_idempotent_request) {
  for (bool reset : {false, true}) {
    World w;
    EXPECT_EQ(w.round(get(), 0, ok), "ok");
    Asked asked;
    w.ask(asked, get("/again"));
    EXPECT_EQ(w.wires.connects, 1u);
    if (reset)
      w.wires.at[0].reset();
    else
      w.wires.at[0].end();
    w.settle();
    EXPECT_EQ(w.wires.connects, 2u);
    EXPECT_TRUE(w.wires.at[0].closed());
    EXPECT_EQ(w.wires.at[1].seen, "GET /again HTTP/1.1\r\nHost: a:80\r\n\r\n");
    w.wires.at[1].end();
    w.settle();
    EXPECT_EQ(asked.error().code, ErrorCode::connection_lost);
    EXPECT_EQ(w.wires.connects, 2u);
  }
}

TEST(Client, a_request_that_must_not_be_repeated_is_sent_once) {
  World w;
  EXPECT_EQ(w.round(get(), 0, ok), "ok");
  Asked asked;
  w.ask(asked, post("money"));
  w.wires.at[0].reset();
  w.settle();
  EXPECT_EQ(asked.error().code, ErrorCode::connection_lost);
  EXPECT_EQ(asked.error().side, Side::upstream);
  EXPECT_EQ(w.wires.connects, 1u);
}

TEST(Client, a_post_that_the_caller_vouches_for_is_repeated) {
  World w;
  EXPECT_EQ(w.round(get(), 0, ok), "ok");
  ClientRequest request = post("same");
  request.repeatable = true;
  Asked asked;
  w.ask(asked, std::move(request));
  w.wires.at[0].end();
  w.settle();
  ASSERT_EQ(w.wires.connects, 2u);
  EXPECT_TRUE(w.wires.at[1].seen.ends_with("\r\n\r\nsame"));
  w.wires.at[1].answer(ok);
  w.settle();
  EXPECT_TRUE(asked.ended() && *asked.head);
}

TEST(Client, a_body_whose_source_was_used_is_not_sent_again) {
  World w;
  EXPECT_EQ(w.round(get(), 0, ok), "ok");
  ClientRequest request = get();
  request.method = Method::put;
  request.set_source(std::make_unique<Parts>(w.slab, std::vector{"part"s}));
  Asked asked;
  w.ask(asked, std::move(request));
  w.wires.at[0].end();
  w.settle();
  EXPECT_EQ(asked.error().code, ErrorCode::connection_lost);
  EXPECT_EQ(w.wires.connects, 1u);
}

TEST(Client, one_byte_of_an_answer_forbids_sending_again) {
  World w;
  EXPECT_EQ(w.round(get(), 0, ok), "ok");
  Asked asked;
  w.ask(asked, get());
  w.wires.at[0].answer_and_end("H");
  w.settle();
  EXPECT_EQ(asked.error().code, ErrorCode::upstream);
  EXPECT_EQ(w.wires.connects, 1u);
}

TEST(Client, a_fresh_connection_that_breaks_is_not_replaced) {
  World w;
  Asked asked;
  w.ask(asked, get());
  w.wires.at[0].end();
  w.settle();
  EXPECT_EQ(asked.error().code, ErrorCode::connection_lost);
  EXPECT_EQ(w.wires.connects, 1u);
}

// ---- deadlines and cancellation, at each wait

// Where a request can be when its time ends.
enum class Where { connecting, sending, waiting, in_head, in_body };
constexpr Where everywhere[] = {Where::connecting, Where::sending, Where::waiting, Where::in_head,
                                Where::in_body};

void bring_to(World& w, Asked& asked, Where where, Call call) {
  if (where == Where::connecting) w.wires.delay = Duration::seconds(100);
  if (where == Where::sending) w.wires.room = 10;
  w.ask(asked, get(), call);
  if (where == Where::in_head) w.wires.at[0].answer("HTTP/1.1 200 O");
  if (where == Where::in_body) w.wires.at[0].answer("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf");
  w.settle();
  if (where == Where::in_body) w.read(asked, call);
}

Error outcome(const Asked& asked) {
  if (asked.body && !*asked.body) return asked.body->error();
  return asked.error();
}

TEST(Client, the_deadline_ends_every_wait_and_closes_the_connection) {
  for (const Where where : everywhere) {
    World w;
    Asked asked;
    bring_to(w, asked, where, w.call().within(Duration::millis(100)));
    EXPECT_EQ(outcome(asked).code, ErrorCode::ok);
    w.run_for(Duration::millis(101));
    EXPECT_EQ(outcome(asked).code, ErrorCode::timeout) << static_cast<int>(where);
    EXPECT_EQ(outcome(asked).side, Side::upstream);
    EXPECT_EQ(w.client.open_connections(), 0u);
    EXPECT_EQ(w.wires.connects, 1u);
  }
}

TEST(Client, a_cancel_ends_every_wait_and_closes_the_connection) {
  for (const Where where : everywhere) {
    World w;
    Scope asking(w.shard, w.call());
    Asked asked;
    bring_to(w, asked, where, asking.call());
    asking.cancel(StopReason::client_gone);
    w.settle();
    EXPECT_EQ(outcome(asked).code, ErrorCode::cancelled) << static_cast<int>(where);
    EXPECT_EQ(outcome(asked).stop, StopReason::client_gone);
    EXPECT_EQ(w.client.open_connections(), 0u);
    EXPECT_EQ(w.client.idle_connections(), 0u);
  }
}

TEST(Client, a_cancelled_request_on_a_kept_connection_does_not_leave_its_answer_to_the_next) {
  World w;
  EXPECT_EQ(w.round(get(), 0, ok), "ok");
  Scope asking(w.shard, w.call());
  Asked asked;
  w.ask(asked, get("/secret"), asking.call());
  asking.cancel(StopReason::client_gone);
  w.settle();
  EXPECT_TRUE(w.wires.at[0].closed());
  EXPECT_EQ(w.wires.connects, 1u);
  EXPECT_EQ(w.round(get(), 1, ok), "ok");
}

TEST(Client, a_request_whose_time_is_over_is_never_started) {
  World w;
  Scope asking(w.shard, w.call());
  asking.cancel(StopReason::draining);
  Asked late, stopped;
  w.ask(late, get(), w.call().by(w.shard.now()));
  w.ask(stopped, get(), asking.call());
  EXPECT_EQ(late.error().code, ErrorCode::timeout);
  EXPECT_EQ(stopped.error().code, ErrorCode::cancelled);
  EXPECT_EQ(w.wires.connects, 0u);
}

TEST(Client, a_cancel_is_noticed_although_the_peer_always_has_more) {
  World w;
  Scope asking(w.shard, w.call());
  Asked asked;
  w.ask(asked, get());
  w.wires.at[0].answer_and_end("HTTP/1.1 200 OK\r\n\r\n" + std::string(200'000, 'x'));
  w.settle();
  ASSERT_TRUE(asked.ended() && *asked.head);
  asking.cancel(StopReason::client_gone);
  w.read(asked, asking.call());
  ASSERT_TRUE(asked.body && !*asked.body);
  EXPECT_EQ(asked.body->error().code, ErrorCode::cancelled);
  EXPECT_TRUE(w.wires.at[0].closed());
}

TEST(Client, closing_waits_for_answers_and_refuses_requests) {
  World w;
  EXPECT_EQ(w.round(get(), 0, ok), "ok");
  Asked held, refused;
  w.ask(held, get());
  w.wires.at[0].answer(ok);
  w.settle();
  bool closed = false;
  const auto close = [](World* in, bool* done) -> Task<> {
    co_await in->client.close(in->call());
    *done = true;
  };
  w.scope.spawn("close", close(&w, &closed));
  w.settle();
  EXPECT_FALSE(closed);
  w.ask(refused, get());
  EXPECT_EQ(refused.error().code, ErrorCode::closed);
  w.read(held);
  EXPECT_EQ(held.text(), "ok");
  EXPECT_TRUE(w.wires.at[0].closed());  // not kept any more
  held.head.reset();
  w.settle();
  EXPECT_TRUE(closed);
}

// ---- retries

TEST(SendWithRetries, an_idempotent_request_is_tried_three_times) {
  World w;
  w.wires.refusals = 2;
  Asked asked;
  w.retry(asked, get());
  EXPECT_EQ(w.wires.connects, 1u);
  w.run_for(Duration::millis(49));
  EXPECT_EQ(w.wires.connects, 1u);
  w.run_for(Duration::millis(52));
  EXPECT_EQ(w.wires.connects, 2u);
  w.run_for(Duration::millis(201));
  ASSERT_EQ(w.wires.connects, 3u);
  w.wires.at[0].answer(ok);
  w.settle();
  EXPECT_TRUE(asked.ended() && *asked.head);
}

TEST(SendWithRetries, the_last_error_is_told_after_the_last_try) {
  World w;
  w.wires.refusals = 9;
  Asked asked;
  w.retry(asked, get());
  w.run();
  EXPECT_EQ(w.wires.connects, 3u);
  EXPECT_EQ(asked.error().code, ErrorCode::connection_lost);
}

TEST(SendWithRetries, what_is_not_idempotent_is_tried_once) {
  World w;
  w.wires.refusals = 9;
  Asked asked;
  w.retry(asked, post("x"));
  w.run();
  EXPECT_EQ(w.wires.connects, 1u);
  EXPECT_EQ(asked.error().code, ErrorCode::connection_lost);
}

TEST(SendWithRetries, an_answer_is_not_retried_whatever_its_status) {
  World w;
  Asked asked;
  w.retry(asked, get());
  w.wires.at[0].answer("HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n");
  w.run();
  ASSERT_TRUE(asked.ended() && *asked.head);
  EXPECT_EQ((*asked.head)->status(), 503);
  EXPECT_EQ(w.wires.connects, 1u);
}

TEST(SendWithRetries, all_tries_together_take_no_longer_than_the_total) {
  World w;
  Asked silent;
  w.retry(silent, get());
  w.run_for(Duration::millis(999));
  EXPECT_FALSE(silent.ended());
  w.run_for(Duration::millis(2));
  EXPECT_EQ(silent.error().code, ErrorCode::timeout);
  // No time for another try: said at once.
  w.wires.refusals = 9;
  Asked hasty;
  w.retry(hasty, get(), {.total = Duration::millis(40)});
  EXPECT_EQ(hasty.error().code, ErrorCode::connection_lost);
}

}  // namespace
}  // namespace cairn::http
