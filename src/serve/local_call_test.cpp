// A service's whole pipeline, called from inside the process.
#include "http/local_call.h"

#include <gtest/gtest.h>

#include "runtime/wait.h"
#include "serve/simulated_node.h"

namespace cairn::serve {
namespace {

using http::LocalCall;
using http::Method;

class TextSource final : public io::BodySource {
 public:
  TextSource(Slab& slab, std::string_view text, std::size_t step) : slab_(slab), text_(text), step_(step) {}
  std::optional<io::Piece> try_next() override {
    const std::string_view part = text_.substr(0, step_);
    if (part.empty()) return io::Piece();
    Buffer buffer = slab_.take(part.size());
    std::copy(as_bytes(part).begin(), as_bytes(part).end(), buffer.room().begin());
    buffer.fill(part.size());
    text_.remove_prefix(part.size());
    return io::Piece(std::move(buffer));
  }
  Task<Result<io::Piece>> next(Call) override { co_return io::Piece(); }

 private:
  Slab& slab_;
  std::string_view text_;
  std::size_t step_;
};

struct Asked {
  int status = 0;  // 0: none
  std::string body;
  std::optional<std::string> corr;
  std::uint64_t copied = 0;
  bool done = false;
};

// What a caller of another service would do, on the node's first shard.
class Caller {
 public:
  explicit Caller(SimulatedNode& sample) : sample_(sample), machine_(sample.host.machine(0)) {}

  Asked& start(Method method, std::string target, std::string fields = {}, std::string body = {},
               Duration patience = Duration::seconds(10)) {
    ShardScope here(sample_.host.shard());
    Asked& asked = *asked_.emplace_back(std::make_unique<Asked>());
    sample_.host.scope().spawn("caller", run(sample_.host.scope().call().within(patience), method,
                                             std::move(target), std::move(fields), std::move(body), &asked));
    return asked;
  }
  Asked& ask(Method method, std::string target, std::string fields = {}, std::string body = {},
             Duration patience = Duration::seconds(10)) {
    Asked& asked = start(method, std::move(target), std::move(fields), std::move(body), patience);
    EXPECT_TRUE(sample_.world.run_until([&] { return asked.done; }));
    return asked;
  }

 private:
  Task<> run(Call call, Method method, std::string target, std::string fields, std::string body,
             Asked* asked) {
    LocalCall local(machine_, sample_.node.answerer(0));
    TextSource source(machine_.slab, body, 1000);
    local.start(method, target, {});
    if (const std::size_t colon = fields.find(": "); colon != std::string::npos)
      local.add_field(fields.substr(0, colon), fields.substr(colon + 2, fields.find("\r\n") - colon - 2));
    if (!body.empty()) local.set_body(source, std::nullopt);
    if (co_await local.ask(call)) {
      asked->status = local.status();
      if (const auto corr = local.find_field("X-Corr-ID")) asked->corr = std::string(*corr);
      for (;;) {
        auto piece = co_await local.next(call);
        if (!piece || piece->empty()) break;
        asked->body += as_text(piece->bytes);
      }
    }
    asked->copied = local.copied();
    asked->done = true;
  }

  SimulatedNode& sample_;
  io::Machine machine_;
  std::vector<std::unique_ptr<Asked>> asked_;
};

TEST(LocalCall, passes_the_whole_pipeline_without_a_connection) {
  SimulatedNode sample;
  Caller caller(sample);
  Asked& now = caller.ask(Method::get, "/now/a%20b", "X-Corr-ID: somebody-1");
  EXPECT_EQ(now.status, 200);
  EXPECT_EQ(now.body, "a b");
  EXPECT_EQ(now.corr, "somebody-1");
  EXPECT_EQ(caller.ask(Method::get, "/later").body, "done");
  EXPECT_EQ(sample.service.state.started, 1);
  const std::string text(5000, 'x');
  Asked& staged = caller.ask(Method::post, "/staged", {}, text);
  EXPECT_EQ(staged.body, text);
  EXPECT_EQ(staged.copied, 0u);
  EXPECT_EQ(caller.ask(Method::get, "/nowhere").status, 404);
  EXPECT_EQ(sample.node.connections(0), 0u);
  EXPECT_EQ(sample.metric(R"(inflight_requests{route="/staged"})"), 0);
  EXPECT_EQ(sample.metric(R"(http_requests_total{route="/staged",method="POST",status="200"})"), 1);
}

TEST(LocalCall, needs_the_capability_that_a_stranger_would) {
  SimulatedNode sample;
  Caller caller(sample);
  EXPECT_EQ(caller.ask(Method::post, "/guarded", {}, "text").status, 401);
  EXPECT_EQ(caller.ask(Method::post, "/guarded", bearer({"op = sample.read"}), "text").status, 403);
  EXPECT_EQ(caller.ask(Method::post, "/guarded", bearer(), "text").status, 200);
}

TEST(LocalCall, meets_the_caps_on_bodies_and_on_requests_in_flight) {
  SimulatedNode sample({{"server.max_inflight", "1"}, {"limits.max_body_bytes", "10B"}});
  Caller caller(sample);
  EXPECT_EQ(caller.ask(Method::post, "/staged", {}, "more than ten bytes").status, 413);
  Asked& job = caller.start(Method::get, "/job/1000");
  ASSERT_TRUE(sample.world.run_until([&] { return sample.service.state.started == 1; }));
  EXPECT_EQ(caller.ask(Method::get, "/now/x").status, 429);
  EXPECT_EQ(sample.connect().ask(get("/now/x")).status, 429);
  ASSERT_TRUE(sample.world.run_until([&] { return job.done; }));
  EXPECT_EQ(job.status, 200);
}

// As over a connection: the one who is asked says how long a head may be, and answers.
TEST(LocalCall, a_head_over_the_limits_of_the_service_is_refused_by_it) {
  SimulatedNode sample({{"limits.max_header_bytes", "1KiB"}});
  Caller caller(sample);
  EXPECT_EQ(caller.ask(Method::get, "/now/x", "X-Long: " + std::string(900, 'x')).status, 200);
  EXPECT_EQ(caller.ask(Method::get, "/now/x", "X-Long: " + std::string(1100, 'x')).status, 431);
  EXPECT_EQ(sample.connect().ask(get("/now/x", "X-Long: " + std::string(1100, 'x') + "\r\n")).status, 431);
}

// The first hop has counted them.
TEST(LocalCall, costs_no_rate_and_no_share) {
  SimulatedNode sample({{"server.max_rps", "1"}});
  Caller caller(sample);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(caller.ask(Method::get, "/now/x").status, 200);
  io::sim::Guest guest = sample.connect();
  EXPECT_EQ(guest.ask(get("/now/x")).status, 200);
  EXPECT_EQ(guest.ask(get("/now/x")).status, 429);
  EXPECT_EQ(caller.ask(Method::get, "/now/x").status, 200);
}

TEST(LocalCall, ends_with_its_callers_deadline) {
  SimulatedNode sample;
  Caller caller(sample);
  EXPECT_EQ(caller.ask(Method::get, "/job/5000", {}, {}, Duration::millis(100)).status, 0) << "an error";
  EXPECT_EQ(sample.metric(R"(http_requests_total{route="/job/{ms:Int}",method="GET",status="499"})"), 1);
  EXPECT_EQ(sample.service.state.stops, (std::vector{StopReason::deadline}));
  EXPECT_EQ(sample.metric(R"(inflight_requests{route="/job/{ms:Int}"})"), 0);
}

}  // namespace
}  // namespace cairn::serve
