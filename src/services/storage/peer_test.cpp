// Storage as another service's peer: in the same process, and over the network. The caller cannot tell.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>

#include "crypto/key_ring.h"
#include "http/local_call.h"
#include "serve/shared_rows.h"
#include "services/storage/simulated_service.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define CAIRN_SANITIZED
#endif
#endif

namespace {
std::atomic<std::uint64_t> allocations{0};
void count_allocation() noexcept { allocations.fetch_add(1, std::memory_order_relaxed); }
}  // namespace

#ifdef CAIRN_SANITIZED
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*taken)(const volatile void*, std::size_t),
                                                         void (*given)(const volatile void*));
#else
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_realloc(void*, std::size_t);
void* malloc(std::size_t size) noexcept {
  count_allocation();
  return __libc_malloc(size);
}
void* realloc(void* block, std::size_t size) noexcept {
  count_allocation();
  return __libc_realloc(block, size);
}
}
#endif

namespace cairn::storage {
namespace {

using io::sim::Answer;
using io::sim::Guest;
using testing::HasSubstr;
using testing::Not;

std::uint64_t allocation_count() {
#ifdef CAIRN_SANITIZED
  static const int hooked = __sanitizer_install_malloc_and_free_hooks(
      [](const volatile void*, std::size_t) { count_allocation(); }, [](const volatile void*) {});
  EXPECT_NE(hooked, 0);
#endif
  return allocations.load(std::memory_order_relaxed);
}

struct RelayState {
  std::uint64_t copied = 0;  // of bodies, on their way in
  unsigned answered = 0;     // by the peer
  serve::Peers* peers = nullptr;
  Slab* slab = nullptr;
};

// What the peer answers, piece by piece, until its end.
class Answering final : public io::BodySource {
 public:
  Answering(serve::Peer::Handle call, RelayState& state) : call_(std::move(call)), state_(state) {}
  ~Answering() override {
    if (const auto* local = dynamic_cast<http::LocalCall*>(call_.get())) state_.copied += local->copied();
  }
  Task<Result<io::Piece>> next(Call call) override { return call_->next(call); }
  http::PeerCall& peer() { return *call_; }

 private:
  serve::Peer::Handle call_;
  RelayState& state_;
};

// What the client sends.
class Sending final : public io::BodySource {
 public:
  explicit Sending(http::RequestBody& body) : body_(body) {}
  Task<Result<io::Piece>> next(Call call) override {
    CO_TRY(Buffer slice, co_await body_.next(call));
    co_return io::Piece(std::move(slice));
  }

 private:
  http::RequestBody& body_;
};

// Passes everything below /through on to storage.
class RelayShard final : public serve::ServiceShard {
 public:
  RelayShard(RelayState& state, serve::ShardContext context) : state_(state), context_(context) {
    state_.peers = &context.peers;
    state_.slab = &context.machine.slab;
  }
  Task<Result<>> relay(Call call, serve::Request& request) {
    serve::Peer* storage = context_.peers.find("storage");
    if (storage == nullptr) co_return fail(ErrorCode::not_ready, "no storage");
    auto answer = std::make_unique<Answering>(storage->call(), state_);
    http::PeerCall& peer = answer->peer();
    peer.start(request.head().method, "/" + std::string(request.route.at[0].text), request.peer());
    for (const char* name : {"Authorization", "Range"})
      if (const auto value = request.fields().find(name)) peer.add_field(name, *value);
    Sending body(request.body);
    if (request.head().body == http::BodyKind::length) peer.set_body(body, request.head().content_length);
    if (request.head().body == http::BodyKind::chunked) peer.set_body(body, std::nullopt);
    CO_TRY_VOID(co_await peer.ask(call));
    ++state_.answered;
    http::Response& response = request.response;
    response.status = peer.status();
    peer.each_field([&](std::string_view name, std::string_view value) {
      if (name != "X-Corr-ID") response.add_field(name, value);
    });
    response.add_field("Peer-Corr-ID", peer.find_field("X-Corr-ID").value_or("none"));
    const std::string_view type = peer.content_type();
    if (const auto length = peer.length())
      response.answer_sized(type, std::move(answer), *length);
    else
      response.answer_stream(type, std::move(answer));
    co_return Result<>{};
  }

 private:
  RelayState& state_;
  serve::ShardContext context_;
};

class RelayService final : public serve::Service {
 public:
  explicit RelayService(RelayState& state) : state_(state) {}
  const ServiceDeclaration& declaration() const override {
    static constexpr serve::SharedRows shared{.workers = "4 per shard"};
    static constexpr auto tasks = serve::shared_tasks(shared);
    static constexpr auto queues = serve::shared_queues(shared);
    static constexpr ServiceDeclaration declared{.name = "relay",
                                                 .purpose = "Calls storage.",
                                                 .owner = "tests",
                                                 .last_reviewed = "2026-01-01",
                                                 .tasks = tasks,
                                                 .queues = queues,
                                                 .calls = {"storage"}};
    return declared;
  }
  std::span<const serve::RouteSpec> routes() const override {
    using http::Method;
    static constexpr serve::RouteSpec specs[] = {
        {.pattern = "/through/{rest:Rest}",
         .methods = Method::get | Method::head | Method::put | Method::post | Method::del,
         .summary = "Ask storage",
         .handlers = serve::queued<&RelayShard::relay>(),
         .takes = serve::Takes::body}};
    return specs;
  }
  std::unique_ptr<serve::ServiceShard> make_shard(serve::ShardContext context) override {
    return std::make_unique<RelayShard>(state_, context);
  }

 private:
  RelayState& state_;
};

// Where the relay is: in storage's process, or in one of its own.
enum class Where { inside, outside };

class Relayed {
 public:
  explicit Relayed(Where where, SimulatedService::Shape shape = {}) : where_(where) {
    shape.beside = where == Where::inside ? make() : SimulatedService::Beside{};
    storage_ = std::make_unique<SimulatedService>(std::move(shape));
    if (where == Where::inside) return;
    other_ = std::make_unique<Other>(*this);
  }
  ~Relayed() {
    if (!other_) return;
    ShardScope here(other_->home.shard());
    other_->lifecycle->end(Duration::seconds(1));
    EXPECT_TRUE(world().run_until([this] { return other_->ended; }));
    other_.reset();
  }

  SimulatedService& storage() { return *storage_; }
  io::sim::World& world() { return storage_->world; }
  Guest connect() {
    return Guest(world(), storage_->away, {where_ == Where::inside ? "host" : "front", 81, {}});
  }
  Answer ask(std::string_view method, const std::string& target, std::string_view body = {},
             std::string_view more = {}) {
    return connect().ask(request(method, "/through" + target, body, more));
  }
  // Where the relay is.
  io::sim::Node& home() { return other_ ? other_->home : storage_->host; }
  RelayState state;

 private:
  SimulatedService::Beside make() {
    return {.port = 81, .make = [this] { return std::make_unique<RelayService>(state); }};
  }
  // A process of its own.
  struct Other {
    explicit Other(Relayed& owner)
        : home(owner.world().add_node("front")),
          log({.slots = 1}, [] { return WallTime{}; }),
          machine(home.machine(0)),
          keys(config::declare_server_keys(schema, {})),
          service(owner.state),
          node(service, *config::load(schema, {}), keys, log, {"0", "0", "test"}, 1, 4, {.open = true}) {
      const serve::PeerTarget target{"storage", nullptr, {"host", 80, {}}};
      node.attach(machine, std::span(&target, 1));
      CHECK(node.listen(0, {"front", 81, {}}).has_value());
      node.start(0);
      node.health().set("config", true);
      lifecycle = std::make_unique<serve::Lifecycle>(
          std::vector{&node}, serve::LifecycleEvents{.serving = [this] { serving = true; }});
      ShardScope here(home.shard());
      home.scope().spawn("life", live(home.scope().call()));
      CHECK(owner.world().run_until([this] { return serving; }));
    }
    Task<> live(Call call) {
      (void)co_await lifecycle->run(call);
      ended = true;
    }
    io::sim::Node& home;
    observe::Log log;
    io::Machine machine;
    config::Schema schema;
    config::ServerKeys keys;
    RelayService service;
    serve::Node node;
    std::unique_ptr<serve::Lifecycle> lifecycle;
    bool serving = false, ended = false;
  };

  Where where_;
  std::unique_ptr<SimulatedService> storage_;
  std::unique_ptr<Other> other_;
};

std::string sample(std::size_t size) {
  Random random(size);
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(random.next());
  return bytes;
}

class StoragePeer : public testing::TestWithParam<Where> {};
INSTANTIATE_TEST_SUITE_P(, StoragePeer, testing::Values(Where::inside, Where::outside),
                         [](const auto& info) { return info.param == Where::inside ? "inside" : "outside"; });

TEST_P(StoragePeer, bodies_stream_both_ways) {
  Relayed relayed(GetParam());
  for (const std::size_t size : {0u, 1u, 65'537u, 700'000u}) {
    const std::string bytes = sample(size), target = "/o/" + address_of(bytes);
    EXPECT_EQ(relayed.ask("PUT", target, bytes).status, 201) << size;
    EXPECT_EQ(relayed.ask("GET", target).body, bytes) << size;
    Guest guest = relayed.connect();
    guest.send(fmt::format("HEAD /through{} HTTP/1.1\r\nHost: h\r\n\r\n", target));
    EXPECT_EQ(guest.answer(true).field("Content-Length"), std::to_string(size));
  }
  const std::string bytes = sample(700'000);
  const Answer range = relayed.ask("GET", "/o/" + address_of(bytes), {}, "Range: bytes=65530-131080\r\n");
  EXPECT_EQ(range.status, 206);
  EXPECT_EQ(range.field("Content-Range"), "bytes 65530-131080/700000");
  EXPECT_EQ(range.body, bytes.substr(65530, 65551));
  EXPECT_EQ(relayed.ask("GET", "/o/" + address_of("never put")).status, 404);
}

TEST_P(StoragePeer, the_correlation_id_travels_on) {
  Relayed relayed(GetParam());
  const Answer answer = relayed.ask("GET", "/o/" + address_of("never put"), {}, "X-Corr-ID: somebody-1\r\n");
  EXPECT_EQ(answer.field("X-Corr-ID"), "somebody-1");
  EXPECT_EQ(answer.field("Peer-Corr-ID"), "somebody-1");
}

TEST_P(StoragePeer, needs_the_capability_that_a_stranger_would) {
  const std::array<std::byte, 40> entropy{};
  SimulatedService::Shape shape;
  shape.keys = std::make_shared<const serve::KeySnapshot>(
      1, crypto::KeyRing(crypto::make_root_key(entropy, {1'767'225'600'000})));
  Relayed relayed(GetParam(), std::move(shape));
  const std::string target = "/o/" + address_of("bytes");
  EXPECT_EQ(relayed.ask("PUT", target, "bytes").status, 401);
  EXPECT_EQ(relayed.ask("GET", target).status, 404) << "reads are public";
}

TEST_P(StoragePeer, meets_the_cap_on_bodies) {
  SimulatedService::Shape shape;
  shape.settings = {{"limits.max_body_bytes", "10B"}};
  Relayed relayed(GetParam(), std::move(shape));
  EXPECT_EQ(relayed.ask("PUT", "/o/" + address_of("more than ten bytes"), "more than ten bytes").status, 413);
}

TEST_P(StoragePeer, a_client_that_leaves_stops_what_was_asked_for_it) {
  Relayed relayed(GetParam());
  const std::string bytes = sample(200'000);
  const std::string text = request("PUT", "/through/o/" + address_of(bytes), bytes);
  Guest guest = relayed.connect();
  guest.send(text.substr(0, text.size() - 1000));
  ASSERT_TRUE(relayed.world().run_until([&] { return relayed.storage().inflight() == 1; }));
  guest.close();
  EXPECT_TRUE(relayed.world().run_until([&] { return relayed.storage().inflight() == 0; }));
  EXPECT_EQ(relayed.storage().ask(get(bytes)).status, 404);
}

TEST_P(StoragePeer, a_client_that_leaves_ends_its_answer) {
  SimulatedService::Shape shape;
  shape.settings = {{"limits.max_body_bytes", "8MiB"}};
  Relayed relayed(GetParam(), std::move(shape));
  const std::string bytes = sample(4'000'000);
  ASSERT_EQ(relayed.storage().ask(put(bytes)).status, 201);
  Guest guest = relayed.connect();
  guest.reading = false;
  guest.send(request("GET", "/through/o/" + address_of(bytes)));
  relayed.world().run_for(Duration::millis(200));
  EXPECT_EQ(relayed.storage().inflight(), 1) << "nobody takes it";
  guest.close(true);
  EXPECT_TRUE(relayed.world().run_until([&] { return relayed.storage().inflight() == 0; }));
  EXPECT_THAT(relayed.storage().metrics(), HasSubstr(R"(method="GET",status="499"} 1)"));
}

// The second in which calls to peers are tried again is no bound of a body.
TEST_P(StoragePeer, takes_a_body_as_slowly_as_a_stranger_may_send_it) {
  Relayed relayed(GetParam());
  const std::string bytes = sample(100'000);
  const std::string text = request("PUT", "/through/o/" + address_of(bytes), bytes);
  Guest guest = relayed.connect();
  for (std::size_t at = 0; at < text.size(); at += 25'000) {
    guest.send(text.substr(at, 25'000));
    guest.run_for(Duration::millis(800));
  }
  EXPECT_EQ(guest.answer().status, 201);
}

TEST_P(StoragePeer, what_was_passed_on_to_the_last_byte_was_answered) {
  Relayed relayed(GetParam());
  const std::string bytes = sample(100'000), target = "/o/" + address_of(bytes);
  ASSERT_EQ(relayed.ask("PUT", target, bytes).status, 201);
  const Answer answer = relayed.ask("GET", target);
  ASSERT_TRUE(answer.body == bytes);
  const std::size_t date = answer.head.find("\r\nDate: ");
  ASSERT_NE(date, std::string::npos);
  EXPECT_EQ(answer.head.find("\r\nDate: ", date + 2), std::string::npos) << "the first hop's is enough";
  EXPECT_THAT(relayed.storage().metrics(), HasSubstr(R"(method="GET",status="200"} 1)"));
  EXPECT_THAT(relayed.storage().metrics(), Not(HasSubstr(R"(status="499")")));
}

// --- what it costs

struct Cost {
  int status = 0;
  std::uint64_t bytes = 0;
  std::uint64_t allocations = 0;  // by everybody, of the last round
  bool done = false;
};

// In blocks of the slab, as a connection would have them.
class Blocks final : public io::BodySource {
 public:
  Blocks(Slab& slab, std::string_view bytes) : slab_(slab), rest_(bytes) {}
  std::optional<io::Piece> try_next() override {
    const std::string_view part = rest_.substr(0, 60'000);
    if (part.empty()) return io::Piece();
    Buffer buffer = slab_.take(part.size());
    std::ranges::copy(as_bytes(part), buffer.room().begin());
    buffer.fill(part.size());
    rest_.remove_prefix(part.size());
    return io::Piece(std::move(buffer));
  }
  Task<Result<io::Piece>> next(Call) override { co_return io::Piece(); }

 private:
  Slab& slab_;
  std::string_view rest_;
};

// The same request `rounds` times, by a task of the relay's shard.
Task<> ask_rounds(Call call, RelayState* state, http::Method method, std::string target, std::string body,
                  int rounds, Cost* cost) {
  while (rounds-- > 0) {
    Blocks blocks(*state->slab, body);
    cost->bytes = 0;
    const std::uint64_t before = allocation_count();
    {
      const serve::Peer::Handle peer = state->peers->find("storage")->call();
      peer->start(method, target, {});
      if (!body.empty()) peer->set_body(blocks, body.size());
      if (!co_await peer->ask(call)) break;
      cost->status = peer->status();
      while (!peer->done()) {
        const auto piece = co_await peer->next(call);
        if (!piece) break;
        cost->bytes += piece->size();
      }
    }
    cost->allocations = allocation_count() - before;
  }
  cost->done = true;
}

Cost cost_of(Relayed& relayed, http::Method method, const std::string& target, const std::string& body,
             int rounds) {
  Cost cost;
  io::sim::Node& home = relayed.home();
  {
    ShardScope here(home.shard());
    home.scope().spawn("asker", ask_rounds(home.scope().call().within(Duration::seconds(60)), &relayed.state,
                                           method, target, body, rounds, &cost));
  }
  EXPECT_TRUE(relayed.world().run_until([&] { return cost.done; }));
  return cost;
}

// Of each way to be asked: something new is put, got for the first time, and then as often as it is hot.
struct Costs {
  explicit Costs(Where where) {
    Relayed relayed(where);
    const std::string large = sample(700'000), small = sample(5'000);
    const std::string at_large = "/o/" + address_of(large), at_small = "/o/" + address_of(small);
    EXPECT_EQ(cost_of(relayed, http::Method::put, at_small, small, 1).status, 201);
    put = cost_of(relayed, http::Method::put, at_large, large, 1);
    EXPECT_EQ(put.status, 201);
    got = cost_of(relayed, http::Method::get, at_large, {}, 1);
    EXPECT_EQ(got.bytes, large.size());
    hot = cost_of(relayed, http::Method::get, at_small, {}, 20);
    EXPECT_EQ(hot.bytes, small.size());
  }
  Cost put, got, hot;
};

TEST(StoragePeerCosts, no_more_allocations_inside_than_over_a_connection_and_none_for_what_is_hot) {
  const Costs inside(Where::inside), outside(Where::outside);
  EXPECT_LE(inside.put.allocations, outside.put.allocations);
  EXPECT_LE(inside.got.allocations, outside.got.allocations);
  EXPECT_GT(outside.got.allocations, 0u) << "they are counted";
  // Where frames are not kept for the next request, there is one of ask() and one of next().
  EXPECT_EQ(inside.hot.allocations, recycle_frames ? 0u : 2u);
}

TEST(StoragePeerInside, opens_no_connection_and_copies_no_body) {
  Relayed relayed(Where::inside);
  const std::string bytes = sample(700'000);
  ASSERT_EQ(relayed.ask("PUT", "/o/" + address_of(bytes), bytes).status, 201);
  ASSERT_EQ(relayed.ask("GET", "/o/" + address_of(bytes)).body, bytes);
  EXPECT_EQ(relayed.state.answered, 2u);
  EXPECT_EQ(relayed.state.copied, 0u);
  EXPECT_EQ(relayed.storage().connections_ever(), 0u);
}

// Calls are under way, one with half of its body and one with half of its answer, when the process dies.
TEST(StoragePeerInside, a_crash_leaves_no_call_behind) {
  SimulatedService::Shape shape;
  shape.settings = {{"limits.max_body_bytes", "8MiB"}};
  Relayed relayed(Where::inside, std::move(shape));
  const std::string bytes = sample(4'000'000), half = sample(200'000);
  ASSERT_EQ(relayed.storage().ask(put(bytes)).status, 201);
  Guest getting = relayed.connect(), putting = relayed.connect();
  getting.reading = false;
  getting.send(request("GET", "/through/o/" + address_of(bytes)));
  const std::string text = request("PUT", "/through/o/" + address_of(half), half);
  putting.send(text.substr(0, text.size() - 1000));
  ASSERT_TRUE(relayed.world().run_until([&] { return relayed.storage().inflight() == 2; }));
  relayed.storage().crash();
  EXPECT_TRUE(relayed.ask("GET", "/o/" + address_of(bytes)).body == bytes);
  EXPECT_EQ(relayed.ask("GET", "/o/" + address_of(half)).status, 404);
}

// The drain's deadline passes while a call is under way: the caller's connection is cut, and the callee with
// it.
TEST(StoragePeerInside, ends_with_a_caller_that_does_not_drain_in_time) {
  Relayed relayed(Where::inside);
  const std::string half = sample(200'000);
  const std::string text = request("PUT", "/through/o/" + address_of(half), half);
  Guest guest = relayed.connect();
  guest.send(text.substr(0, text.size() - 1000));
  ASSERT_TRUE(relayed.world().run_until([&] { return relayed.storage().inflight() == 1; }));
  const Instant before = relayed.world().now();
  relayed.storage().drain(Duration::millis(200));
  ASSERT_TRUE(relayed.world().run_until([&] { return relayed.storage().outcome.has_value(); }));
  EXPECT_EQ(relayed.storage().outcome->aborted, 1u);
  EXPECT_TRUE(relayed.storage().outcome->still_alive.empty());
  EXPECT_LT((relayed.world().now() - before).to_millis(), 200 + Drain::grace.to_millis());
  EXPECT_EQ(relayed.storage().inflight(), 0);
}

// Its listeners close with everybody's, and it takes calls until the relay has ended.
TEST(StoragePeerInside, is_there_for_a_caller_that_drains) {
  Relayed relayed(Where::inside);
  const std::string bytes = sample(200'000);
  const std::string text = request("PUT", "/through/o/" + address_of(bytes), bytes);
  Guest guest = relayed.connect();
  guest.send(text.substr(0, 60));  // not even the head
  relayed.world().run_for(Duration::millis(10));
  relayed.storage().drain(Duration::seconds(3));
  relayed.world().run_for(Duration::millis(100));
  guest.send(text.substr(60));
  EXPECT_EQ(guest.answer().status, 201);
  ASSERT_TRUE(relayed.world().run_until([&] { return relayed.storage().outcome.has_value(); }));
  EXPECT_EQ(relayed.storage().outcome->aborted, 0u);
}

}  // namespace
}  // namespace cairn::storage
