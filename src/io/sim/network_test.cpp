#include "io/sim/network.h"

#include <gtest/gtest.h>

#include "io/sim/world.h"
#include "runtime/wait.h"

namespace cairn::io::sim {
namespace {

std::string pattern(std::size_t size) {
  std::string text(size, ' ');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + (i * 7 + i / 251) % 26);
  return text;
}

Task<Result<>> write_all(Call call, Stream& stream, std::string_view text) {
  while (!text.empty()) {
    CO_TRY_VOID(co_await stream.writable.wait(call));
    const iovec part{const_cast<char*>(text.data()), text.size()};
    const Io io = stream.try_writev({&part, 1});
    if (io.status == IoStatus::failed) co_return fail(ErrorCode::connection_lost, "write");
    if (io.status == IoStatus::done) text.remove_prefix(io.count);
  }
  co_return Result<>{};
}

// Until the end of the stream; how it ended is told by the result.
Task<Result<>> read_all(Call call, Stream& stream, std::string& into) {
  for (;;) {
    CO_TRY_VOID(co_await stream.readable.wait(call));
    char piece[5000];
    const Io io = stream.try_read({reinterpret_cast<std::byte*>(piece), sizeof piece});
    if (io.status == IoStatus::eof) co_return Result<>{};
    if (io.status == IoStatus::failed) co_return fail(ErrorCode::connection_lost, "read");
    if (io.status == IoStatus::done) into.append(piece, io.count);
  }
}

// Two nodes; the server echoes each connection's bytes after it has seen their end.
struct Pair {
  explicit Pair(std::uint64_t seed)
      : world(seed),
        server(world.add_node("server", 1, [](Node& self) { boot(self); })),
        client(world.add_node("client")) {}

  static void boot(Node& self) { self.scope().spawn("accept", accept(self.machine(), &self.scope())); }
  static Task<> accept(Machine machine, Scope* scope) {
    auto listening = machine.network.listen({"0.0.0.0", 80, ""});
    EXPECT_TRUE(listening.has_value() || scope->call().stopped());
    if (!listening) co_return;
    Listener& listener = **listening;
    while (co_await listener.acceptable.wait(scope->call())) {
      auto accepted = listener.try_accept();
      if (accepted.status == IoStatus::done)
        scope->spawn("echo", echo(scope->call(), std::move(accepted.stream)));
      if (accepted.status == IoStatus::failed && !co_await sleep_for(scope->call(), Duration::millis(1)))
        co_return;
    }
  }
  static Task<> echo(Call call, std::unique_ptr<Stream> stream) {
    std::string text;
    if (!co_await read_all(call, *stream, text)) co_return;
    if (!co_await write_all(call, *stream, text)) co_return;
    stream->shutdown_send();
    char rest;
    while (co_await stream->readable.wait(call)) {
      const Io io = stream->try_read({reinterpret_cast<std::byte*>(&rest), 1});
      if (io.status == IoStatus::eof || io.status == IoStatus::failed) co_return;
    }
  }

  struct Outcome {
    bool over = false;
    bool connected = false;
    Result<> result;
    std::string text;
  };
  static Task<> ask(Machine machine, Call call, std::string text, Outcome* out) {
    out->result = co_await exchange(machine, call, std::move(text), out);
    out->over = true;
  }
  static Task<Result<>> exchange(Machine machine, Call call, std::string text, Outcome* out) {
    CO_TRY(auto stream, co_await machine.network.connect(call, {"server", 80, ""}));
    out->connected = true;
    CO_TRY_VOID(co_await write_all(call, *stream, text));
    stream->shutdown_send();
    co_return co_await read_all(call, *stream, out->text);
  }
  void start(const std::string& text, Outcome& out, Duration within = Duration::seconds(30)) {
    client.scope().spawn("ask",
                         ask(client.machine(), client.scope().call().by(world.now() + within), text, &out));
  }
  Outcome run(const std::string& text, Duration within = Duration::seconds(30)) {
    Outcome out;
    start(text, out, within);
    EXPECT_TRUE(world.run_until([&] { return out.over; }));
    return out;
  }

  World world;
  Node& server;
  Node& client;
};

TEST(SimNetwork, bytes_arrive_intact_and_in_order_in_spite_of_splits) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    Pair pair(seed);
    pair.world.network().faults.split_write = 500'000;
    pair.world.network().faults.split_delivery = 500'000;
    pair.world.network().faults.clog = 10'000;
    const std::string text = pattern(200'000);
    const auto out = pair.run(text, Duration::seconds(600));
    EXPECT_TRUE(out.result.has_value());
    EXPECT_TRUE(out.text == text);
    EXPECT_GT(pair.world.probes().count("net.split_write"), 0u);
    EXPECT_GT(pair.world.probes().count("net.split_delivery"), 0u);
    EXPECT_GT(pair.world.probes().count("net.window_full"), 0u);
  }
}

TEST(SimNetwork, the_same_seed_gives_the_same_hash_and_another_one_does_not) {
  const auto hash_of = [](std::uint64_t seed) {
    Pair pair(seed);
    pair.world.network().faults.split_write = 300'000;
    pair.world.network().faults.reset = 1'000;
    std::array<Pair::Outcome, 5> outcomes;
    for (auto& out : outcomes) pair.start(pattern(20'000), out);
    pair.world.run_for(Duration::seconds(5));
    return std::pair(pair.world.hash(), pair.world.steps());
  };
  EXPECT_EQ(hash_of(1), hash_of(1));
  EXPECT_EQ(hash_of(2), hash_of(2));
  EXPECT_NE(hash_of(1).first, hash_of(2).first);
}

TEST(SimNetwork, a_tape_replays_a_whole_world) {
  RandomChoices random(11);
  RecordedChoices recorded(random);
  const auto run = [](ChoiceSource& choices) {
    World world(choices);
    Node& node = world.add_node("a", 1, [](Node& self) { Pair::boot(self); });
    (void)node;
    Node& client = world.add_node("server2");
    Pair::Outcome out;
    client.scope().spawn(
        "ask", Pair::ask(client.machine(), client.scope().call().by(Instant{1'000'000'000}), "x", &out));
    world.run_for(Duration::seconds(2));
    return world.hash();
  };
  const std::uint64_t first = run(recorded);
  ReplayedChoices replayed(recorded.tape());
  EXPECT_EQ(run(replayed), first);
  EXPECT_FALSE(replayed.diverged());
}

TEST(SimNetwork, nobody_listening_is_refused_at_once) {
  Pair pair(1);
  pair.world.crash(pair.server, Crash::process);
  const auto out = pair.run("hello");
  ASSERT_FALSE(out.result.has_value());
  EXPECT_EQ(out.result.error().code, ErrorCode::connection_lost);
  EXPECT_EQ(out.result.error().side, Side::upstream);
  EXPECT_LT(pair.world.now(), Instant{Duration::millis(100).ns});
}

TEST(SimNetwork, an_unknown_host_is_not_found_in_the_network) {
  Pair pair(1);
  Result<> result;
  bool over = false;
  struct Body {
    static Task<> run(Machine machine, Call call, Result<>* out, bool* done) {
      auto stream = co_await machine.network.connect(call, {"nowhere", 80, ""});
      if (!stream) *out = fail(stream.error());
      *done = true;
    }
  };
  pair.client.scope().spawn("c",
                            Body::run(pair.client.machine(), pair.client.scope().call(), &result, &over));
  pair.world.run_until([&] { return over; });
  EXPECT_EQ(result.error().code, ErrorCode::connection_lost);
}

TEST(SimNetwork, a_dead_machine_is_silent_until_the_deadline_and_answers_resets_when_back) {
  Pair pair(1);
  Pair::Outcome out;
  pair.start(pattern(2'000'000), out, Duration::seconds(60));
  pair.world.run_until([&] { return pair.world.network().bytes_delivered() > 200'000; });
  pair.world.crash(pair.server);
  pair.world.run_for(Duration::seconds(10));
  EXPECT_FALSE(out.over);
  pair.world.restart(pair.server);
  pair.world.run_for(Duration::seconds(1));
  EXPECT_TRUE(out.over);
  EXPECT_EQ(out.result.error().code, ErrorCode::connection_lost);
  EXPECT_TRUE(pair.run("again").result.has_value());
}

TEST(SimNetwork, a_connect_to_a_dead_machine_waits_and_succeeds_when_it_is_back) {
  Pair pair(1);
  pair.world.crash(pair.server);
  Pair::Outcome out;
  pair.start("hello", out);
  pair.world.run_for(Duration::seconds(5));
  EXPECT_FALSE(out.over);
  pair.world.restart(pair.server);
  pair.world.run_for(Duration::seconds(5));
  EXPECT_TRUE(out.over && out.result.has_value());
  EXPECT_EQ(out.text, "hello");
}

TEST(SimNetwork, a_killed_process_breaks_its_connections) {
  Pair pair(1);
  Pair::Outcome out;
  pair.start(pattern(2'000'000), out);
  pair.world.run_until([&] { return pair.world.network().bytes_delivered() > 200'000; });
  pair.world.crash(pair.server, Crash::process);
  EXPECT_TRUE(pair.world.run_until([&] { return out.over; }, Duration::millis(50)));
  EXPECT_EQ(out.result.error().code, ErrorCode::connection_lost);
}

TEST(SimNetwork, a_reset_peer_yields_failed) {
  Pair pair(1);
  Pair::Outcome out;
  pair.start(pattern(2'000'000), out);
  pair.world.run_until([&] { return pair.world.network().bytes_delivered() > 200'000; });
  pair.world.network().reset_all(pair.server.index());
  pair.world.run_for(Duration::millis(10));
  EXPECT_TRUE(out.over);
  EXPECT_EQ(out.result.error().code, ErrorCode::connection_lost);
  EXPECT_EQ(pair.world.network().connections(), 0u);
}

TEST(SimNetwork, a_one_way_cut_holds_one_direction_and_loses_nothing) {
  Pair pair(1);
  const std::string text = pattern(150'000);
  Pair::Outcome out;
  pair.start(text, out, Duration::seconds(600));
  pair.world.run_until([&] { return out.connected; });
  pair.world.network().cut(pair.server.index(), pair.client.index());
  pair.world.run_for(Duration::seconds(20));
  EXPECT_GE(pair.world.network().bytes_delivered(), text.size());  // the other way is open
  EXPECT_FALSE(out.over);
  pair.world.network().heal();
  pair.world.run_for(Duration::seconds(20));
  EXPECT_TRUE(out.over && out.result.has_value());
  EXPECT_TRUE(out.text == text);
}

TEST(SimNetwork, a_frozen_node_neither_hears_nor_speaks) {
  Pair pair(1);
  pair.world.network().freeze(pair.client.index());
  EXPECT_EQ(pair.run("hello", Duration::seconds(5)).result.error().code, ErrorCode::timeout);
  pair.world.network().heal();
  EXPECT_TRUE(pair.run("hello", Duration::seconds(5)).result.has_value());
}

TEST(SimNetwork, a_half_open_peer_is_noticed_by_nothing_but_the_deadline) {
  Pair pair(1);
  Pair::Outcome out;
  pair.start(pattern(2'000'000), out, Duration::seconds(30));
  pair.world.run_until([&] { return out.connected; });
  pair.world.network().vanish_all(pair.server.index());
  pair.world.run_for(Duration::seconds(60));
  EXPECT_TRUE(out.over);
  EXPECT_EQ(out.result.error().code, ErrorCode::timeout);
}

TEST(SimNetwork, accept_then_silence_connects_and_never_answers) {
  Pair pair(1);
  pair.world.network().faults.silence = ChoiceSource::million;
  const auto out = pair.run("hello", Duration::seconds(5));
  EXPECT_TRUE(out.connected);
  EXPECT_EQ(out.result.error().code, ErrorCode::timeout);
  EXPECT_EQ(pair.world.network().connections(), 0u);
}

TEST(SimNetwork, a_slow_reader_slows_its_writer_without_losing_bytes) {
  Pair pair(1);
  pair.world.network().faults.slow_reader = ChoiceSource::million;
  const std::string text = pattern(20'000);
  const auto out = pair.run(text, Duration::seconds(600));
  EXPECT_TRUE(out.text == text);
  EXPECT_GT(pair.world.now(), Instant{Duration::seconds(5).ns});
}

// Listens and queues connections without accepting them.
TEST(SimNetwork, a_full_backlog_makes_the_next_wait_and_a_drain_takes_what_is_queued) {
  World world(1);
  world.network().faults.backlog = 2;
  Node& server = world.add_node("server");
  Node& client = world.add_node("client");
  auto listener = server.machine().network.listen({"10.0.0.1", 80, ""});
  ASSERT_TRUE(listener.has_value());
  EXPECT_EQ((*listener)->local_address(), "10.0.0.1:80");
  std::array<Pair::Outcome, 3> outcomes;
  for (auto& out : outcomes)
    client.scope().spawn(
        "ask",
        Pair::ask(client.machine(), client.scope().call().by(Instant{Duration::seconds(9).ns}), "x", &out));
  world.run_for(Duration::seconds(3));
  EXPECT_EQ(outcomes[0].connected + outcomes[1].connected + outcomes[2].connected, 2);
  EXPECT_GT(world.probes().count("net.backlog_full"), 0u);
  std::vector<std::unique_ptr<Stream>> accepted;
  for (auto next = (*listener)->try_accept(); next.status == IoStatus::done; next = (*listener)->try_accept())
    accepted.push_back(std::move(next.stream));
  EXPECT_EQ(accepted.size(), 2u);
  EXPECT_EQ(accepted[0]->peer().bytes[15], 2);
  (*listener)->close();
  world.run_for(Duration::seconds(3));
  EXPECT_EQ(outcomes[0].over + outcomes[1].over + outcomes[2].over, 1);  // the third was refused
  EXPECT_TRUE((*listener)->try_accept().status == IoStatus::failed);
  world.stop();
}

TEST(SimNetwork, closing_a_listener_resets_what_it_had_not_accepted) {
  World world(1);
  Node& server = world.add_node("server");
  Node& client = world.add_node("client");
  auto listener = server.machine().network.listen({"0.0.0.0", 80, ""});
  Pair::Outcome out;
  client.scope().spawn(
      "ask",
      Pair::ask(client.machine(), client.scope().call().by(Instant{Duration::seconds(9).ns}), "x", &out));
  world.run_until([&] { return out.connected; });
  listener->reset();
  world.run_for(Duration::millis(20));
  EXPECT_TRUE(out.over);
  EXPECT_EQ(out.result.error().code, ErrorCode::connection_lost);
  EXPECT_EQ(world.network().connections(), 0u);
}

TEST(SimNetwork, shards_of_a_node_share_a_port_and_another_node_cannot) {
  World world(1);
  Node& server = world.add_node("server", 2);
  Node& other = world.add_node("other");
  auto first = server.machine(0).network.listen({"0.0.0.0", 80, ""});
  auto second = server.machine(1).network.listen({"server", 80, ""});
  EXPECT_TRUE(first.has_value() && second.has_value());
  EXPECT_EQ(server.machine(0).network.listen({"0.0.0.0", 80, ""}).error().code, ErrorCode::conflict);
  EXPECT_EQ(other.machine().network.listen({"server", 80, ""}).error().code, ErrorCode::invalid);
  auto any = server.machine(0).network.listen({"0.0.0.0", 0, ""});
  ASSERT_TRUE(any.has_value());
  EXPECT_NE((*any)->local_address(), "10.0.0.1:0");
}

// A connected pair of streams without programs, for what single attempts do.
struct Wire {
  explicit Wire(std::uint64_t seed, std::size_t reopen = 0)
      : world(seed), a(world.add_node("a")), b(world.add_node("b")) {
    world.network().faults.reopen = reopen;
    listener = std::move(*b.machine().network.listen({"0.0.0.0", 1, ""}));
    a.scope().spawn("dial", dial(a.machine(), a.scope().call(), &left));
    world.run_to_rest();
    right = listener->try_accept().stream;
  }
  ~Wire() {
    left.reset();
    right.reset();
    listener.reset();
  }
  static Task<> dial(Machine machine, Call call, std::unique_ptr<Stream>* out) {
    auto stream = co_await machine.network.connect(call, {"10.0.0.2", 1, ""});
    EXPECT_TRUE(stream.has_value());
    if (stream) *out = std::move(*stream);
  }
  static Io put(Stream& to, std::string_view text) {
    const iovec part{const_cast<char*>(text.data()), text.size()};
    return to.try_writev({&part, 1});
  }
  static std::string take(Stream& from, IoStatus* status = nullptr) {
    char piece[70'000];
    const Io io = from.try_read({reinterpret_cast<std::byte*>(piece), sizeof piece});
    if (status != nullptr) *status = io.status;
    return std::string(piece, io.count);
  }
  World world;
  Node& a;
  Node& b;
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Stream> left;
  std::unique_ptr<Stream> right;
};

TEST(SimStream, a_short_read_clears_readable_unless_the_end_is_known) {
  Wire wire(1);
  Wire::put(*wire.left, "hello");
  wire.world.run_to_rest();
  EXPECT_TRUE(wire.right->readable.ready());
  EXPECT_EQ(Wire::take(*wire.right), "hello");
  EXPECT_FALSE(wire.right->readable.ready());
  Wire::put(*wire.left, "bye");
  wire.left->shutdown_send();
  wire.world.run_to_rest();
  EXPECT_EQ(Wire::take(*wire.right), "bye");
  EXPECT_TRUE(wire.right->readable.ready());
  IoStatus status{};
  Wire::take(*wire.right, &status);
  EXPECT_EQ(status, IoStatus::eof);
}

TEST(SimStream, the_window_bounds_what_is_under_way) {
  Wire wire(1);
  const std::string text = pattern(100'000);
  EXPECT_EQ(Wire::put(*wire.left, text).count, 32u * 1024) << "the send buffer";
  EXPECT_EQ(wire.left->unacknowledged(), 32u * 1024);
  EXPECT_EQ(Wire::put(*wire.left, text).status, IoStatus::would_block);
  EXPECT_FALSE(wire.left->writable.ready());
  wire.world.run_to_rest();
  EXPECT_TRUE(wire.left->writable.ready()) << "all of it went into the reader's window";
  EXPECT_EQ(wire.left->unacknowledged(), 0u);
  EXPECT_EQ(Wire::put(*wire.left, text).count, 32u * 1024);
  EXPECT_EQ(Wire::put(*wire.left, text).status, IoStatus::would_block);
  wire.world.run_to_rest();
  EXPECT_EQ(wire.left->unacknowledged(), 32u * 1024) << "the window is shut";
  EXPECT_EQ(Wire::take(*wire.right).size(), 32u * 1024);
  wire.world.run_to_rest();
  EXPECT_EQ(wire.left->unacknowledged(), 0u);
}

TEST(SimStream, a_shut_window_opens_by_a_piece_and_the_writer_hears_of_a_third) {
  for (const std::size_t reopen : {std::size_t{0}, std::size_t{8192}}) {
    Wire wire(1, reopen);
    const std::string text = pattern(100'000);
    std::size_t written = 0;
    for (int i = 0; i < 3; ++i) {
      written += Wire::put(*wire.left, text).count;
      wire.world.run_to_rest();
    }
    EXPECT_EQ(written, 64u * 1024);
    EXPECT_EQ(wire.left->unacknowledged(), 32u * 1024);
    const std::size_t step = reopen == 0 ? 2048 : reopen;
    std::size_t read = 0;
    for (; !wire.left->writable.ready(); read += 512) {
      ASSERT_EQ(wire.right->try_discard(512).count, 512u);
      wire.world.run_to_rest();
      EXPECT_EQ(wire.left->unacknowledged(), 32u * 1024 - (read + 512) / step * step);
    }
    EXPECT_GE(read, 32u * 1024 / 3);
    EXPECT_LE(read, 32u * 1024 / 3 + step);
    EXPECT_GT(wire.world.probes().count("net.window_shut"), 0u);
    EXPECT_GT(wire.world.probes().count("net.low_water"), 0u);
  }
}

TEST(SimStream, the_end_waits_for_the_window_too) {
  Wire wire(1);
  const std::string text = pattern(60'000);
  std::size_t written = Wire::put(*wire.left, text).count;
  wire.world.run_to_rest();
  written += Wire::put(*wire.left, std::string_view(text).substr(written)).count;
  EXPECT_EQ(written, text.size());
  wire.left->close();
  std::string all;
  IoStatus status{};
  for (int i = 0; i < 10 && status != IoStatus::eof; ++i) {
    wire.world.run_to_rest();
    all += Wire::take(*wire.right, &status);
  }
  EXPECT_EQ(status, IoStatus::eof);
  EXPECT_TRUE(all == text);
}

TEST(SimStream, closing_with_unread_bytes_resets_the_peer) {
  Wire wire(1);
  Wire::put(*wire.left, "never read");
  wire.world.run_to_rest();
  Wire::put(*wire.right, "last words");
  wire.right->close();
  wire.world.run_to_rest();
  IoStatus status{};
  Wire::take(*wire.left, &status);
  EXPECT_EQ(status, IoStatus::failed);
  EXPECT_GT(wire.world.probes().count("net.reset_by_close"), 0u);
}

TEST(SimStream, a_graceful_close_delivers_everything_then_the_end) {
  Wire wire(1);
  bool gone = false;
  wire.left->on_peer_gone([](void* flag) noexcept { *static_cast<bool*>(flag) = true; }, &gone);
  Wire::put(*wire.right, "last words");
  wire.right.reset();
  wire.world.run_to_rest();
  EXPECT_TRUE(gone);
  EXPECT_EQ(Wire::take(*wire.left), "last words");
  IoStatus status{};
  Wire::take(*wire.left, &status);
  EXPECT_EQ(status, IoStatus::eof);
  EXPECT_EQ(Wire::put(*wire.left, "anyone?").status, IoStatus::done);
  wire.world.run_to_rest();
  EXPECT_EQ(Wire::put(*wire.left, "anyone?").status, IoStatus::failed);
}

TEST(SimStream, a_cork_holds_back_part_segments_for_a_while) {
  Wire wire(1);
  wire.left->cork(true);
  Wire::put(*wire.left, "head");
  wire.world.run_for(Duration::millis(100));
  EXPECT_FALSE(wire.right->readable.ready());
  wire.left->cork(false);
  Wire::put(*wire.left, "body");
  wire.world.run_for(Duration::millis(50));
  EXPECT_EQ(Wire::take(*wire.right), "headbody");
  wire.left->cork(true);
  Wire::put(*wire.left, "forgotten");
  wire.world.run_for(Duration::millis(250));
  EXPECT_EQ(Wire::take(*wire.right), "forgotten");
}

TEST(SimStream, a_file_range_is_copied_from_the_simulated_disk) {
  Wire wire(1);
  wire.a.disk().put("f", pattern(10'000));
  struct Body {
    static Task<> send(Machine machine, Call call, Stream* to, bool* past_end) {
      auto file = co_await machine.disk.open(call, "f", OpenMode::read);
      EXPECT_TRUE(file.has_value());
      EXPECT_EQ(to->try_send_file(**file, 100, 5'000).count, 5'000u);
      *past_end = to->try_send_file(**file, 10'000, 10).status == IoStatus::failed;
    }
  };
  bool past_end = false;
  wire.a.scope().spawn("send",
                       Body::send(wire.a.machine(), wire.a.scope().call(), wire.left.get(), &past_end));
  wire.world.run_to_rest();
  EXPECT_TRUE(past_end);
  EXPECT_EQ(Wire::take(*wire.right), pattern(10'000).substr(100, 5'000));
}

TEST(SimNetwork, every_kind_of_fault_is_reachable) {
  Probes all;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    Pair pair(seed);
    NetworkFaults& faults = pair.world.network().faults;
    faults.split_write = faults.split_delivery = 200'000;
    faults.reset = faults.vanish = faults.clog = 2'000;
    faults.silence = faults.refuse = faults.slow_reader = faults.accept_error = 100'000;
    faults.backlog = 3;
    std::array<Pair::Outcome, 20> outcomes;
    for (auto& out : outcomes) pair.start(pattern(100'000), out, Duration::seconds(20));
    pair.world.run_for(Duration::millis(5));
    pair.world.network().cut(pair.client.index(), pair.server.index());
    pair.world.run_for(Duration::millis(20));
    pair.world.network().reset_all(pair.server.index());
    pair.world.network().heal();
    pair.world.run_for(Duration::millis(1500));
    pair.world.network().freeze(pair.server.index());
    pair.world.crash(pair.server, seed % 2 == 0 ? Crash::power : Crash::process);
    pair.world.run_for(Duration::seconds(3));
    pair.world.network().heal();
    pair.world.run_for(Duration::seconds(3));
    pair.world.restart(pair.server);
    pair.world.pause(pair.server);
    pair.world.run_for(Duration::seconds(5));
    pair.world.resume(pair.server);
    pair.world.run_for(Duration::seconds(30));
    for (const auto& out : outcomes) {
      EXPECT_TRUE(out.over);
      // The end of a stream does not say that its writer was done: a killed process ends it too.
      EXPECT_TRUE(pattern(100'000).starts_with(out.text));
    }
    all.add(pair.world.probes());
  }
  Wire wire(1);
  Wire::put(*wire.left, "never read");
  wire.world.run_to_rest();
  wire.world.network().cut(1, 0);
  wire.right->close();
  wire.world.run_to_rest();
  EXPECT_FALSE(wire.left->readable.ready());  // nobody told it
  all.add(wire.world.probes());
  for (const std::string& name : all.missed()) {
    if (name == "world.job_at_the_end") continue;  // of a pool, which nothing here uses
    EXPECT_FALSE(name.starts_with("net.") || name.starts_with("world.")) << name << " was never reached";
  }
}

}  // namespace
}  // namespace cairn::io::sim
