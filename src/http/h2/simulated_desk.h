// For tests: an answerer of known behaviour behind an HTTP/2 server of a simulated world.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "http/conversation.h"
#include "http/h1/server.h"
#include "http/h2/simulated_guest.h"
#include "runtime/wait.h"

namespace cairn::http::h2 {

// Gives its parts one after another, each after a turn, then the end, an error, or nothing for ever.
class Parts final : public io::BodySource {
 public:
  enum class End : std::uint8_t { normal, error, exception, never };
  Parts(Slab& slab, std::vector<std::string> parts, End end, Duration pause = {})
      : slab_(slab), parts_(std::move(parts)), end_(end), pause_(pause) {}
  Task<Result<io::Piece>> next(Call call) override {
    co_await yield(call);
    if (pause_ > Duration()) CO_TRY_VOID(co_await sleep_for(call, pause_));
    if (at_ == parts_.size()) {
      if (end_ == End::exception) throw std::runtime_error("no more parts");
      if (end_ == End::error) co_return fail(ErrorCode::integrity, "bad part");
      if (end_ == End::never) CO_TRY_VOID(co_await ListWait(call, never_, "more"));
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
  Duration pause_;
  WaitList never_;
  std::size_t at_ = 0;
};

// A conversation that says what it hears, until its peer has no more to say. When draining begins it says
// goodbye.
class Echo final : public Conversation {
 public:
  enum class Manner : std::uint8_t {
    polite,
    deaf_to_draining,
    throws,  // once it hears something
    never_stops
  };
  explicit Echo(std::string_view manner)
      : manner_(manner == "deaf"     ? Manner::deaf_to_draining
                : manner == "throws" ? Manner::throws
                : manner == "floods" ? Manner::never_stops
                                     : Manner::polite) {}

  Task<Result<io::Piece>> next(Call call) override {
    if (manner_ == Manner::never_stops) co_return io::Piece::memory(as_bytes(std::string_view(flood_)));
    while (!heard_ && !over_) CO_TRY_VOID(co_await ListWait(call, says_, "something to say"));
    Buffer said = std::exchange(heard_, Buffer());
    while (!hears_.empty()) wake(hears_.front());
    if (!said && std::exchange(drained_, false)) co_return io::Piece::memory(as_bytes(goodbye));
    co_return io::Piece(std::move(said));
  }
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): outlives the listener (CV-3)
  Task<> listen(Call call, RequestBody& arriving) override {
    listens = true;
    for (;;) {
      auto slice = co_await arriving.next(call);
      if (!slice || slice->empty()) break;
      if (manner_ == Manner::throws) {
        listens = false;
        throw std::runtime_error("listen");
      }
      heard_ = std::move(*slice);
      while (!says_.empty()) wake(says_.front());
      while (heard_)
        if (!co_await ListWait(call, hears_, "the sender")) heard_ = Buffer();
    }
    over_ = true;
    while (!says_.empty()) wake(says_.front());
    listens = false;
  }
  void drain() noexcept override {
    if (manner_ != Manner::polite) return;
    over_ = drained_ = true;
    while (!says_.empty()) wake(says_.front());
  }

  static constexpr std::string_view goodbye = "goodbye";
  bool listens = false;

 private:
  Manner manner_;
  std::string flood_ = std::string(10'000, 'f');
  Buffer heard_;
  bool over_ = false, drained_ = false;
  WaitList says_, hears_;
};

class Desk final : public Gate, public Answerer {
 public:
  explicit Desk(Slab& slab) : slab_(slab) {}

  Next begin(Exchange& exchange) override {
    ++begun;
    sign(exchange);
    const RequestHead& head = exchange.request();
    const std::string_view path = head.path();
    Response& response = exchange.response;
    order.emplace_back(head.query());
    methods.emplace_back(name_of(head.method));
    hosts.emplace_back(head.host());
    cookies.emplace_back(head.fields.get(FieldName::cookie));
    if (path == "/throw-at-once") throw std::runtime_error("begin");
    if (path == "/wait" || path == "/stubborn" || path == "/throw" || path == "/taste" || path == "/sip" ||
        path.starts_with("/read"))
      return Next::handle;
    if (path == "/open-wait") {
      exchange.stays_open = true;
      return Next::handle;
    }
    if (path == "/big") {
      response.answer_view("text/plain", big);
    } else if (path == "/text") {
      response.text = big;
      response.answer_text("text/plain");
    } else if (path == "/file") {
      response.answer_file("text/plain", file, file_offset, file_count);
    } else if (path == "/none") {
      response.status = 204;
    } else if (path == "/spoiled") {
      response.add_field("Location", "/a\r\nX-Injected: yes");
    } else if (path == "/abandoned") {
      response.abandoned = true;
    } else if (path == "/stream") {
      response.answer_stream("text/plain", std::make_unique<Parts>(slab_, parts, parts_end, parts_pause));
    } else if (path == "/sized") {
      response.answer_sized("text/plain", std::make_unique<Parts>(slab_, parts, parts_end), sized);
    } else if (path == "/open") {
      exchange.stays_open = true;
      response.answer_stream("text/event-stream", std::make_unique<Parts>(slab_, parts, Parts::End::never));
    } else if (path == "/switch" && exchange.upgrade == "websocket") {
      response.switch_to(std::make_unique<Echo>(head.query()));
    } else if (path == "/talk" && exchange.upgrade == "websocket") {
      exchange.stays_open = true;
      response.switch_to(talk());
    } else {
      response.text = path;
      response.answer_text("text/plain");
    }
    return Next::answered;
  }
  Task<> handle(Call call, Exchange& exchange) override {
    call = call.by(exchange.started + deadline);
    const std::string path(exchange.request().path());
    ++running;
    most = std::max(most, running);
    if (path == "/wait" || path == "/read-late" || path == "/open-wait") co_await wait_for_gate(call);
    if (path == "/stubborn")
      co_await wait_for_gate(call.unbounded().within(Duration::seconds(3600)));  // it cannot be stopped
    Response& response = exchange.response;
    response.text = path;
    if (path == "/taste" || path == "/sip") (void)co_await exchange.body.next(call);
    if (path == "/sip") co_await wait_for_gate(call);
    if (path == "/sip" || path.starts_with("/read")) {
      response.text.clear();
      if (auto read = co_await read_body(call, exchange, response.text); !read) {
        body_errors.push_back(read.error().code);
        response.status = status_of(read.error().code) != 0 ? status_of(read.error().code) : 500;
      }
    }
    --running;
    if (path == "/throw") throw std::runtime_error("handle");
    response.answer_text("text/plain");
  }
  void refuse(Exchange& exchange, Error error) override {
    const bool was_begun = error.code == ErrorCode::internal || error.code == ErrorCode::busy ||
                           (error.code == ErrorCode::not_implemented && error.side == Side::self);
    if (!was_begun) ++begun;
    refused.push_back(error.code);
    sign(exchange);
    exchange.response.close = true;
    exchange.response.status = status_of(error.code);
    exchange.response.text = name_of(error.code);
    exchange.response.answer_text("text/plain");
  }
  void finished(Exchange& exchange, bool whole) override {
    if (const auto* echo = dynamic_cast<Echo*>(exchange.response.conversation))
      EXPECT_FALSE(echo->listens) << "CV-3";
    complete.push_back(whole);
  }
  void broke(const char* what) noexcept override { problems.emplace_back(what); }
  Admission admit(const io::PeerAddress&, bool) override {
    if (verdict != Admission::refused) ++inside;
    return verdict;
  }
  Place place(Exchange&, bool, PermitHold&) override { return placed; }
  void left(const io::PeerAddress&, Admission admission) override {
    if (admission != Admission::refused) --inside;
  }
  bool admit_stream(const io::PeerAddress&) override {
    if (places == 0) return false;
    return --places, true;
  }
  void stream_left(const io::PeerAddress&) override { ++places; }
  void timed_out(Slow what) override { ++(what == Slow::read ? slow_reads : slow_writes); }

  void open() {
    gate_open_ = true;
    while (!gate_.empty()) wake(gate_.front());
  }
  std::size_t finished_count(bool whole) const {
    return static_cast<std::size_t>(std::ranges::count(complete, whole));
  }

  Duration deadline = Duration::seconds(3600);
  Admission verdict = Admission::welcome;
  Place placed = Place::none;
  std::string big;
  std::shared_ptr<io::File> file;
  std::uint64_t file_offset = 0, file_count = 0, sized = 0;
  std::vector<std::string> parts;
  Parts::End parts_end = Parts::End::normal;
  Duration parts_pause{};
  std::function<std::unique_ptr<Conversation>()> talk;
  int places = 1000;

  int begun = 0, running = 0, most = 0;
  std::vector<std::string> methods, hosts, cookies, order;
  std::vector<bool> complete;
  std::vector<ErrorCode> refused, body_errors;
  std::vector<StopReason> stopped;
  std::vector<std::string> problems;
  int inside = 0, slow_reads = 0, slow_writes = 0;

 private:
  static void sign(Exchange& exchange) {
    exchange.response.fields.reset();
    exchange.response.add_field("X-Corr-ID", "corr-0001");
    exchange.response.fields.keep();
  }
  Task<> wait_for_gate(Call call) {
    if (gate_open_) co_return;
    if (auto waited = co_await ListWait(call, gate_, "gate"); !waited) stopped.push_back(waited.error().stop);
  }
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the test outlives it
  static Task<Result<>> read_body(Call call, Exchange& exchange, std::string& text) {
    for (;;) {
      CO_TRY(const Buffer slice, co_await exchange.body.next(call));
      if (slice.empty()) co_return Result<>{};
      text += as_text(slice.bytes());
    }
  }

  Slab& slab_;
  bool gate_open_ = false;
  WaitList gate_;
};

// A server on one node, and another node to connect from.
class H2Test : public testing::Test {
 protected:
  H2Test() {
    world.network().protocol = "h2";
    ShardScope here(host.shard());
    EXPECT_TRUE(server.listen({"host", 80, {}}).has_value());
    server.start(host.scope());
  }
  // Whatever a test has done, nothing of it stays.
  void TearDown() override {
    on_host([&] { desk.open(); });
    world.run_until([&] { return server.connections() == 0; }, Duration::seconds(100));
    EXPECT_EQ(server.connections(), 0u);
    EXPECT_EQ(machine.slab.outstanding(), 0u);
    world.stop();
    EXPECT_EQ(desk.begun, static_cast<int>(desk.complete.size())) << "every request that began is finished";
    EXPECT_EQ(desk.inside, 0);
    EXPECT_EQ(desk.running, 0);
    EXPECT_TRUE(problems_expected || desk.problems.empty()) << desk.problems.front();
  }
  H2Guest connect() { return H2Guest(world, away, {"host", 80, {}}); }
  H2Guest connect_raw() { return H2Guest(world, away, {"host", 80, {}}, true); }
  H2Guest connect_with_window(std::uint32_t window) {
    return H2Guest(world, away, {"host", 80, {}}, false, window);
  }
  std::shared_ptr<io::File> open_file(std::string path) {
    std::shared_ptr<io::File> opened;
    on_host([&] { host.scope().spawn("open", open_into(host.scope().call(), std::move(path), &opened)); });
    world.run_until([&] { return opened != nullptr; });
    return opened;
  }
  Task<> open_into(Call call, std::string path, std::shared_ptr<io::File>* out) {
    auto opened = co_await machine.disk.open(call, std::move(path), io::OpenMode::read);
    if (opened) *out = std::move(*opened);
  }
  void on_host(auto f) {
    ShardScope here(host.shard());
    f();
  }

  io::sim::World world{1};
  io::sim::Node& host = world.add_node("host");
  io::sim::Node& away = world.add_node("away");
  io::Machine machine = host.machine();
  Desk desk{machine.slab};
  Server& server = host.make<Server>(machine, desk, desk, ServerOptions{});
  bool problems_expected = false;
};

}  // namespace cairn::http::h2
