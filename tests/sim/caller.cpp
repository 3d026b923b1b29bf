#include "caller.h"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "h2_link.h"
#include "runtime/wait.h"

namespace cairn::simulator {

using http::Method;

namespace {

constexpr std::size_t body_cap = 16u << 20;

class H1Arriving final : public Arriving {
 public:
  explicit H1Arriving(http::ClientResponse response)
      : Arriving(read_head(response.head())), response_(std::move(response)) {}
  Task<Result<std::string>> next(Call call) override {
    CO_TRY(const Buffer slice, co_await response_.next(call));
    co_return std::string(as_text(slice.bytes()));
  }

 private:
  http::ClientResponse response_;
};

}  // namespace

std::string gzip(std::string_view text) {
  z_stream stream{};
  CHECK(deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

Task<Result<io::Piece>> Pieces::next(Call call) {
  if (random_.chance(1, 8))
    CO_TRY_VOID(co_await sleep_for(call, Duration::millis(static_cast<std::int64_t>(random_.below(20)))));
  const std::size_t left = text_.size() - at_;
  if (left == 0) co_return Buffer();
  Buffer part = slab_.take(Slab::medium - 64);
  const std::size_t size = 1 + random_.below(std::min(left, part.room().size()));
  std::memcpy(part.room().data(), text_.data() + at_, size);
  part.fill(size);
  at_ += size;
  co_return part;
}

std::string_view noise(std::size_t offset, std::size_t size) {
  static const std::string text = [] {
    constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string bytes(noise_size, '\0');
    Random random(1);
    for (std::size_t i = 0; i < bytes.size(); i += 8) {
      const std::uint64_t word = random.next();
      for (std::size_t k = 0; k < 8; ++k) bytes[i + k] = letters[(word >> (6 * k)) & 63];
    }
    return bytes;
  }();
  return std::string_view(text).substr(offset, size);
}

Caller::Caller(Scenario& scenario, io::Machine machine, unsigned number, std::uint64_t seed)
    : scenario_(scenario),
      machine_(machine),
      number_(number),
      random_(seed),
      weights_(&scenario.plan().weights) {}

Task<> Caller::live(Call call) {
  renew(scenario_.healed_since());
  while (!call.stopped() && scenario_.phase() != Phase::over) {
    if (scenario_.phase() == Phase::healing && !scenario_.has_converged(number_)) {
      co_await converge(call);
      continue;
    }
    const std::int64_t think = scenario_.plan().think.ns;
    const Duration pause{static_cast<std::int64_t>(below(static_cast<std::uint64_t>(2 * think)))};
    if (!co_await sleep_for(call, pause + scenario_.planted_noise())) break;
    if (scenario_.phase() == Phase::healing) continue;
    co_await visit(call.within(scenario_.plan().patience));
  }
  co_await client_->close(call);
  if (link_ != nullptr) link_->leave();
}

void Caller::renew(Instant since) {
  client_ = std::make_unique<http::Client>(machine_, http::ClientOptions{.tls = scenario_.tls_client()});
  if (link_ != nullptr) link_->renew(since);
}

// After the healing: every node serves this visitor again, in bounded time, or the run fails.
Task<> Caller::converge(Call call) {
  // Connections made in bad times keep their faults: leave them.
  co_await client_->close(call);
  renew(scenario_.healed_since());
  for (std::size_t i = 0; i < scenario_.doors(); ++i) {
    Server* const server = scenario_.servers()[i].get();
    for (unsigned step = 0; step < converge_steps();) {
      const std::string why = co_await converge_with(call, *server, step);
      if (why.empty()) {
        ++step;
        continue;
      }
      scenario_.explain(number_, server->name() + ": " + why);
      // Everybody asks; who is told to wait makes room for the others.
      if (!co_await sleep_for(call, Duration::millis(between(50, 1500)))) co_return;
    }
    // By others' requests too; each on a connection of its own, which may come to any shard.
    for (std::string why; !(why = scenario_.find_ill(keeper(*server))).empty();) {
      scenario_.explain(number_, server->name() + ": " + why);
      co_await client_->close(call);
      renew(now());
      (void)co_await converge_with(call, *server, converge_steps() - 1);
      if (!co_await sleep_for(call, Duration::millis(between(50, 1500)))) co_return;
    }
  }
  co_await client_->close(call);
  renew(scenario_.healed_since());
  scenario_.converged(number_);
}

std::size_t Caller::draw_visit() {
  std::uint64_t sum = 0;
  for (const std::uint32_t weight : *weights_) sum += weight;
  std::uint64_t drawn = below(sum);
  std::size_t what = 0;
  while (drawn >= (*weights_)[what]) drawn -= (*weights_)[what++];
  return what;
}

// --- asking

http::ClientRequest Caller::make(const Server& server, Method method, std::string target, std::uint32_t id) {
  http::ClientRequest request;
  request.endpoint = endpoint_of(server);
  request.method = method;
  request.target = std::move(target);
  request.host = "demo";
  if (scenario_.request(id).unnamed)
    request.add_field("X-Corr-ID", below(2) == 0 ? "short" : "not fit to be logged");
  else
    request.add_field("X-Corr-ID", format_corr(id));
  scenario_.dress(request, number_);
  return request;
}

Task<Result<std::unique_ptr<Arriving>>> Caller::begin(Call call, http::ClientRequest request) {
  if (link_ != nullptr) co_return co_await link_->begin(call, std::move(request));
  CO_TRY(http::ClientResponse response, co_await client_->send(call, std::move(request)));
  co_return std::unique_ptr<Arriving>(std::make_unique<H1Arriving>(std::move(response)));
}

Task<Result<Answer>> Caller::finish(Call call, Arriving* arriving) {
  Answer answer = arriving->head;
  for (;;) {
    CO_TRY(const std::string slice, co_await arriving->next(call));
    if (slice.empty()) co_return answer;
    answer.body += slice;
  }
}

Task<Result<Answer>> Caller::ask(Call call, http::ClientRequest request) {
  if (link_ != nullptr) {
    CO_TRY(const auto arriving, co_await link_->begin(call, std::move(request)));
    co_return co_await finish(call, arriving.get());
  }
  CO_TRY(http::ClientResponse response, co_await client_->send(call, std::move(request)));
  Answer answer = read_head(response.head());
  CO_TRY(answer.body, co_await response.read_text(call, body_cap));
  co_return answer;
}

void Caller::complain(std::uint32_t id, const std::string& what) {
  const Request& request = scenario_.request(id);
  scenario_.violate(fmt::format("visitor {} to {}, request {} of {} ms: {}", number_,
                                scenario_.servers()[request.server]->name(), format_corr(id),
                                request.issued.ns / 1'000'000, what));
}

bool Caller::is_fenced(const Answer& answer) noexcept {
  return answer.code == ErrorCode::degraded && !answer.message.starts_with("the gateway") &&
         answer.message != "sched queue is full";
}

// No answer. In good times somebody has to explain that.
void Caller::judge_silence(std::uint32_t id, const Error& error, Method method) {
  const Request& request = scenario_.request(id);
  // A head may be cut off by whatever cuts connections off here.
  const bool cut_off = error.context == std::string_view(http::head_cut_off);
  if ((error.code == ErrorCode::upstream && !cut_off) || error.code == ErrorCode::malformed)
    return complain(id, fmt::format("the answer is not HTTP: {}", error.context));
  if (!scenario_.was_calm(request) || request.fragile) return;
  Server& server = *scenario_.servers()[request.server];
  if (server.last_abort() >= request.issued) return;
  // What is behind it has left.
  if (scenario_.doors() < scenario_.servers().size() && scenario_.any_leaves()) return;
  if (error.code == ErrorCode::cancelled) return;
  if (error.code == ErrorCode::timeout) {
    hit("sim.client_gave_up");
    if (now() > request.issued + scenario_.answers_within())
      complain(id, fmt::format("no answer within {} ms", (now() - request.issued).to_millis()));
    return;
  }
  if (request.seen > 0)
    return complain(id, fmt::format("read by the node, yet not answered: {}", error.context));
  const bool leaving = server.last_drain() >= Instant{0} && (server.draining() || !server.up());
  // What has a body may not be sent twice, and may meet the end of an idle connection.
  const bool repeatable = method != Method::post && method != Method::put;
  if (!leaving && repeatable && !server.least().few_connections())
    complain(id, fmt::format("no answer in good times: {} ({})", error.context, name_of(error.code)));
}

bool Caller::judge(std::uint32_t id, Result<Answer>& answer, Method method, const Expected& expected) {
  if (!answer) {
    judge_silence(id, answer.error(), method);
    return false;
  }
  const Request& request = scenario_.request(id);
  Server& server = *scenario_.servers()[request.server];
  scenario_.answered((std::uint64_t{id} << 16) ^ static_cast<std::uint64_t>(answer->status) ^
                     (answer->body.size() << 40));
  answer->passed_on = keeper_ != nullptr;
  if (const std::string fault =
          find_fault(*answer, method, request.unnamed ? "" : format_corr(id), expected.bare);
      !fault.empty()) {
    complain(id, fmt::format("{}: {}", answer->status, fault));
    return false;
  }
  if (scenario_.explains(request, *answer)) return false;
  const int status = answer->status;
  if (status == 429) {
    const bool door = answer->message == "too many connections";
    hit(door ? answer->unread ? io::sim::Tag("sim.429_at_the_door") : io::sim::Tag("sim.429_reserved")
        : answer->code == ErrorCode::quota                 ? io::sim::Tag("sim.429_quota")
        : answer->message == "too many requests in flight" ? io::sim::Tag("sim.429_inflight")
                                                           : io::sim::Tag("sim.429_queue"));
    // A disk that stalls keeps reads from beginning.
    const bool disk = answer->message == "too many wait for the disk" && !scenario_.was_calm(request);
    if (!server.least().refuses() && !expected.reserved && !disk)
      complain(id, "429 under limits that nobody reached: " + answer->message);
    if (!door && !expected.admitted && method != Method::head)
      complain(id, "429 for what passes by every limit");
    if (request.once && request.started > 0) complain(id, "429, but it was started");
    return false;
  }
  if (status == 504 && answer->message == "the deadline passed in the queue") {
    hit("sim.504_queued");
    if (request.once && request.started > 0) complain(id, "504 from the queue, but it was started");
  } else if (status == 504) {
    hit("sim.504_running");
  }
  if (status == 408) hit("sim.408");
  if (std::find(expected.statuses.begin(), expected.statuses.end(), status) != expected.statuses.end())
    return true;
  if (status == 504 && expected.queued) return false;
  if (status == 408 && !scenario_.was_calm(request)) return false;
  const bool calm = scenario_.was_calm(request);
  if ((status == 500 || status == 507) && expected.reads_disk && scenario_.plan().disk_fails && !calm) {
    hit("sim.500_disk");
    return false;
  }
  if (expected.writes_disk && !calm) {
    if (status == 507) hit("sim.507");
    if (status == 507) return false;
    if (status == 503 && answer->code == ErrorCode::degraded) {
      hit("sim.503_degraded");
      scenario_.complained_of(keeper(server));
      return false;
    }
  }
  // The answer to a HEAD does not say which 503 it is.
  if (status == 503 && (answer->message == "still starting" ||
                        (method == Method::head && server.was_starting(request.issued)))) {
    hit("sim.503_starting");
    if (!server.was_starting(request.issued)) complain(id, "still starting, long after the start");
    if (!expected.admitted) complain(id, "still starting, said to what passes by every limit");
    if (request.once && request.started > 0) complain(id, "still starting, but it was started");
    return false;
  }
  // Whatever is asked on a connection that was idle when draining began, but for health.
  if (status == 503 && expected.admitted && server.last_drain() >= Instant{0}) {
    hit("sim.503_draining");
    return false;
  }
  complain(id, fmt::format("status {} ({})", status, answer->message));
  return false;
}

}  // namespace cairn::simulator
