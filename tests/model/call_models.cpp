// A call inside the process: a caller that leaves at any step, a handler that fails or gives up at any step.
#include <fmt/format.h>

#include <stdexcept>
#include <string>

#include "http/local_call.h"
#include "model/models.h"
#include "runtime/mpsc.h"

namespace cairn::model {
namespace {

// How the handler ends.
enum class End { answer, stream, give_up, fail, cut_stream };

struct Called {
  End end = End::answer;
  bool victim = false;      // the caller is cancelled at any moment
  bool hurried = false;     // the caller has a deadline
  bool body = false;        // comes from another task, in two pieces
  bool drops_half = false;  // the caller reads one piece of the answer and leaves
};

class CalledService : public Model {
 public:
  CalledService(World& world, const Called& called)
      : world_(world), called_(called), callers_(world.shard, world.scope.call()), pieces_(world.shard, 1) {
    Scope& scope = called.victim ? callers_ : world.scope;
    scope.spawn("caller", caller(scope.call()));
    if (called.victim) world.scope.spawn("canceller", cancels(callers_, StopReason::client_gone));
    if (called.body) world.scope.spawn("sender", sender(world.scope.call()));
  }
  // Nobody takes the rest of a body whose caller has left.
  bool may_wait_at_end(const TaskInfo& task) const override {
    return std::string_view(task.name) == "sender";
  }
  void at_end() override {
    world_.expect(ended_, "lost_item", "the caller got no answer");
    world_.expect(answerer_.begun == answerer_.ends, "not_told", "the answerer was not told of an end, once");
    world_.expect(!answerer_.running, "orphan", "a handler outlived its caller");
    world_.expect(answerer_.sources == 0, "leak", "the source of an answer is still there");
  }
  std::string state() const override { return told_; }

 private:
  struct TheAnswerer;
  // Two pieces, with a step between them; the second may fail.
  class Source final : public io::BodySource {
   public:
    Source(TheAnswerer& of, bool cut) : of_(of), cut_(cut) { ++of_.sources; }
    ~Source() override { --of_.sources; }
    Task<Result<io::Piece>> next(Call call) override {
      co_await yield(call);
      if (call.stopped())
        co_return fail(Error(ErrorCode::cancelled, "source", Side::self, StopReason::client_gone));
      if (at_ == 1 && cut_) throw std::runtime_error("source");
      if (at_++ == 2) co_return io::Piece();
      co_return io::Piece::memory(as_bytes(std::string_view("piece")));
    }

   private:
    TheAnswerer& of_;
    bool cut_;
    int at_ = 0;
  };
  // The caller's body, as another task brings it.
  struct Pieces final : io::BodySource {
    explicit Pieces(Mpsc<int>& queue) : from(queue) {}
    Task<Result<io::Piece>> next(Call call) override {
      auto piece = co_await from.recv(call);
      if (!piece && piece.error().code == ErrorCode::closed) co_return io::Piece();
      if (!piece) co_return fail(piece.error());
      co_return io::Piece::memory(as_bytes(std::string_view("body")));
    }
    Mpsc<int>& from;
  };
  struct TheAnswerer final : http::Answerer {
    explicit TheAnswerer(CalledService& owner) : of(owner) {}
    Next begin(http::Exchange&) override {
      ++begun;
      return Next::handle;
    }
    Task<> handle(Call call, http::Exchange& exchange) override {
      struct Running {
        explicit Running(bool& f) : flag(f) { flag = true; }
        ~Running() { flag = false; }
        bool& flag;
      } here(running);
      co_await yield(call);
      while (!exchange.body.done()) {
        auto slice = co_await exchange.body.next(call);
        if (!slice) {
          exchange.response.abandoned = true;
          co_return;
        }
      }
      http::Response& response = exchange.response;
      switch (of.called_.end) {
        case End::answer:
          response.answer_view("text/plain", "answer");
          break;
        case End::give_up:
          response.abandoned = true;
          break;
        case End::fail:
          throw std::runtime_error("handler");
        case End::stream:
        case End::cut_stream:
          response.answer_sized("text/plain",
                                std::make_unique<Source>(*this, of.called_.end == End::cut_stream), 10);
      }
    }
    void refuse(http::Exchange& exchange, Error) override {
      exchange.response.status = 500;
      exchange.response.answer_view("text/plain", "failed");
    }
    void finished(http::Exchange&, bool) override {
      of.world_.expect(!running, "early_end", "the end was told while the handler runs");
      ++ends;
    }
    CalledService& of;
    int begun = 0, ends = 0, sources = 0;
    bool running = false;
  };

  Task<> caller(Call call) {
    if (called_.hurried) call = call.within(Duration::millis(1));
    {
      http::LocalCall local(world_.shard, slab_, answerer_);
      Pieces body(pieces_);
      local.start(http::Method::put, "/o", {});
      if (called_.body) local.set_body(body, std::nullopt);
      const auto asked = co_await local.ask(call);
      world_.expect(!answerer_.running, "orphan", "the caller went on while the handler runs");
      told_ += asked ? fmt::format("{} ", local.status()) : "x ";
      if (asked) co_await read(call, local);
    }
    ended_ = true;
  }
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the caller waits
  Task<> read(Call call, http::LocalCall& local) {
    for (int pieces = 0; pieces < 4; ++pieces) {
      auto piece = co_await local.next(call);
      told_ += piece ? fmt::format("{} ", piece->size()) : "! ";
      if (!piece || piece->empty() || called_.drops_half) co_return;
    }
    world_.expect(false, "endless", "an answer has more pieces than were made");
  }
  Task<> sender(Call call) {
    for (int i = 0; i < 2; ++i)
      if (!co_await pieces_.send(call, int{i})) co_return;
    pieces_.close();
  }

  World& world_;
  Called called_;
  Scope callers_;
  Slab slab_;
  Mpsc<int> pieces_;
  TheAnswerer answerer_{*this};
  std::string told_;
  bool ended_ = false;
};

}  // namespace

void add_call_models(std::vector<ModelSpec>& to) {
  const auto add = [&](const char* name, Called called) {
    to.push_back({name, [=](World& world) { return std::make_unique<CalledService>(world, called); }});
  };
  add("call_cancel", {.end = End::stream, .victim = true});
  add("call_body_cancel", {.victim = true, .body = true});
  add("call_body_late", {.end = End::stream, .hurried = true, .body = true});
  add("call_half", {.end = End::stream, .victim = true, .drops_half = true});
  add("call_gives_up", {.end = End::give_up, .victim = true});
  add("call_fails", {.end = End::fail, .victim = true});
  add("call_cut", {.end = End::cut_stream, .victim = true});
}

}  // namespace cairn::model
