// A stream of HTTP/2 that is reset at any step of its handler and of what gets its answer; and draining that
// begins at any step of both.
#include <string>

#include "http/h1/server.h"
#include "http/h2/simulated_guest.h"
#include "model/models.h"
#include "model/wire_end.h"
#include "runtime/mailbox.h"

namespace cairn::model {
namespace {

using http::h2::frame;
using http::h2::get_frame;

// --- a machine that has a network of one connection, and nothing else
class OneConnection final : public io::Network {
 public:
  explicit OneConnection(Shard& shard) : shard_(shard) {}
  Result<std::unique_ptr<io::Listener>> listen(const io::Endpoint&) override {
    return std::make_unique<Door>(shard_, *this);
  }
  Task<Result<std::unique_ptr<io::Stream>>> connect(Call, io::Endpoint) override {
    co_return fail(ErrorCode::connection_lost, "connect");
  }
  std::unique_ptr<io::Stream> waiting;

 private:
  class Door final : public io::Listener {
   public:
    Door(Shard& shard, OneConnection& of) : Listener(shard), of_(of) { acceptable.signal(); }
    Accepted try_accept() noexcept override {
      if (of_.waiting) return {io::IoStatus::done, std::move(of_.waiting)};
      acceptable.clear();
      return {io::IoStatus::would_block, nullptr};
    }
    void close() noexcept override {}
    std::string local_address() const override { return "wire"; }

   private:
    OneConnection& of_;
  };
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
  static std::unexpected<Error> none() { return fail(ErrorCode::internal, "no disk"); }
};
struct NoPool final : Pool {
  Result<> try_submit(Lane, PoolJob&) override { return fail(ErrorCode::closed, "no pool"); }
  bool try_withdraw(Lane, PoolJob&) noexcept override { return false; }
  std::uint64_t completed(Lane) const noexcept override { return 0; }
};
struct NoEntropy final : io::Entropy {
  void fill(MutableByteView out) noexcept override { std::ranges::fill(out, std::byte{0}); }
};

// How a request is answered.
enum class Kind { handled, streamed, open };

struct Asked {
  Kind kind = Kind::handled;
  bool reset = false;    // by the peer
  bool drained = false;  // at any moment
};

class ResetStream : public Model {
 public:
  ResetStream(World& world, const Asked& asked)
      : world_(world),
        asked_(asked),
        network_(world.shard),
        mailbox_([] {}),
        machine_{world.shard, slab_, network_, disk_, entropy_, mailbox_, pool_, memory_},
        answerer_(*this),
        server_(machine_, gate_, answerer_, options()) {
    // Of draining's pauses; not of how long a silent peer is borne, which a connection asks again and again.
    world.horizon = Instant{} + Duration::seconds(60);
    auto ours = std::make_unique<WireEnd>(world.shard, "h2"), theirs = std::make_unique<WireEnd>(world.shard);
    WireEnd::join(*ours, *theirs);
    network_.waiting = std::move(ours);
    CHECK(server_.listen({"wire", 1, {}}).has_value());
    server_.start(world.scope);
    world.scope.spawn("peer", peer(world.scope.call(), std::move(theirs)));
    if (asked.drained) world.scope.spawn("drainer", drainer());
  }
  void at_end() override {
    world_.expect(answerer_.begun == answerer_.ended, "not_told",
                  "the answerer was not told of an end, once");
    world_.expect(!answerer_.running, "orphan", "a handler outlived its connection");
    world_.expect(answerer_.sources == 0, "leak", "the source of an answer is still there");
    world_.expect(server_.connections() == 0 && gate_.inside == 0, "place", "a connection keeps its place");
    world_.expect(slab_.outstanding() == 0, "leak", "a buffer is still there");
  }
  std::string state() const override { return told_; }

 private:
  static http::ServerOptions options() {
    constexpr Duration ages = Duration::seconds(3600);
    http::ServerOptions made;
    made.timeouts = {ages, ages, ages, ages, ages, ages, ages, ages};
    return made;
  }
  class Source final : public io::BodySource {
   public:
    explicit Source(ResetStream& of) : of_(of) { ++of_.answerer_.sources; }
    ~Source() override { --of_.answerer_.sources; }
    Task<Result<io::Piece>> next(Call call) override {
      of_.answerer_.fetching = true;
      co_await yield(call);
      of_.answerer_.fetching = false;
      if (call.stopped())
        co_return fail(Error(ErrorCode::cancelled, "source", Side::self, StopReason::client_gone));
      if (at_++ == 1) co_return io::Piece();
      co_return io::Piece::memory(as_bytes(std::string_view("piece")));
    }

   private:
    ResetStream& of_;
    int at_ = 0;
  };
  struct TheGate final : http::Gate {
    Admission admit(const io::PeerAddress&, bool) override { return ++inside, Admission::welcome; }
    void left(const io::PeerAddress&, Admission) override { --inside; }
    void timed_out(Slow) override {}
    int inside = 0;
  };
  struct TheAnswerer final : http::Answerer {
    explicit TheAnswerer(ResetStream& owner) : of(owner) {}
    Next begin(http::Exchange& exchange) override {
      ++begun;
      exchange.stays_open = of.asked_.kind == Kind::open;
      return Next::handle;
    }
    // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the exchange outlives its
    // handler
    Task<> handle(Call call, http::Exchange& exchange) override {
      running = true;
      co_await yield(call);
      of.told_ += call.stopped() ? "s" : "h";
      if (of.asked_.kind == Kind::handled)
        exchange.response.answer_view("text/plain", "text");
      else
        exchange.response.answer_stream("text/plain", std::make_unique<Source>(of));
      running = false;
    }
    void refuse(http::Exchange& exchange, Error error) override {
      exchange.response.status = status_of(error.code);
      exchange.response.answer_text("text/plain");
    }
    void finished(http::Exchange&, bool complete) override {
      ++ended;
      of.world_.expect(!running && !fetching, "told_early", "a request ended while its tasks run");
      of.told_ += complete ? "C" : "B";
    }
    ResetStream& of;
    int begun = 0, ended = 0, sources = 0;
    bool running = false, fetching = false;
  };

  Task<> peer(Call call, std::unique_ptr<WireEnd> wire) {
    say(*wire, http::h2::preface() + get_frame(1, "/"));
    co_await yield(call);
    if (asked_.reset) {
      say(*wire, frame(NGHTTP2_RST_STREAM, 0, 1, http::h2::word(NGHTTP2_CANCEL)));
      co_await yield(call);
    }
    wire->close(false);
    if (!asked_.drained) server_.drain();
  }
  Task<> drainer() {
    server_.drain();
    co_return;
  }
  static void say(WireEnd& wire, const std::string& bytes) {
    const iovec part{const_cast<char*>(bytes.data()), bytes.size()};
    (void)wire.try_writev({&part, 1});
  }

  World& world_;
  Asked asked_;
  Slab slab_;
  OneConnection network_;
  NoDisk disk_;
  NoPool pool_;
  NoEntropy entropy_;
  Mailbox mailbox_;
  io::KernelMemory memory_;
  io::Machine machine_;
  TheGate gate_;
  TheAnswerer answerer_;
  http::Server server_;
  std::string told_;
};

}  // namespace

void add_h2_models(std::vector<ModelSpec>& to) {
  to.push_back(spec<ResetStream>("h2_reset_handler", Asked{.kind = Kind::handled, .reset = true}));
  to.push_back(spec<ResetStream>("h2_reset_source", Asked{.kind = Kind::streamed, .reset = true}));
  to.push_back(spec<ResetStream>("h2_reset_open", Asked{.kind = Kind::open, .reset = true}));
  to.push_back(spec<ResetStream>("h2_drain_source", Asked{.kind = Kind::streamed, .drained = true}));
  to.push_back(spec<ResetStream>("h2_drain_open", Asked{.kind = Kind::open, .drained = true}));
  to.push_back(
      spec<ResetStream>("h2_reset_drain", Asked{.kind = Kind::streamed, .reset = true, .drained = true}));
}

}  // namespace cairn::model
