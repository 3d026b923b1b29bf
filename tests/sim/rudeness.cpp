// Visits that no client library would make: malformed, slow, half closed, too many, too much.
#include <fmt/format.h>

#include <algorithm>

#include "runtime/wait.h"
#include "visitor.h"

namespace cairn::simulator {
namespace {

using http::Method;

struct Malformed {
  std::string_view text;
  int status;
};
constexpr Malformed malformed[] = {
    {"POST /echo HTTP/1.1\r\nHost: d\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     400},
    {"POST /echo HTTP/1.1\r\nHost: d\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcde", 400},
    {"POST /echo HTTP/1.1\r\nHost: d\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400},
    {"GET /mem/x HTTP/1.1\nHost: d\n\n", 400},
    {"GET /mem/x HTTP/1.1\r\nHost: d\r\nA: b\r\n c\r\n\r\n", 400},
    {"GET /mem/x HTTP/1.1\r\nHost: d\r\nA : b\r\n\r\n", 400},
    {"GET /mem/x HTTP/1.1\r\n\r\n", 400},
    {"GET /mem/x HTTP/1.1\r\nHost: d\r\nHost: d\r\n\r\n", 400},
    {"GET /mem/x HTTP/2.0\r\nHost: d\r\n\r\n", 505},
    {"BREW /mem/x HTTP/1.1\r\nHost: d\r\n\r\n", 501},
    {"GET  /mem/x HTTP/1.1\r\nHost: d\r\n\r\n", 400},
    {"SSH-2.0-OpenSSH_9.2\r\n", 400},
    {"POST /echo HTTP/1.1\r\nHost: d\r\nExpect: 200-ok\r\nContent-Length: 3\r\n\r\nabc", 400},
};
// Refused while the body is read.
constexpr std::string_view malformed_chunks[] = {"g\r\nabc\r\n0\r\n\r\n", "3\r\nabcd\r\n0\r\n\r\n",
                                                 "10000000000000000\r\nabc\r\n0\r\n\r\n",
                                                 "3\nabc\r\n0\r\n\r\n"};

}  // namespace

std::string Visitor::head_of(std::string_view line, std::string_view more, std::uint32_t id) const {
  return fmt::format("{}\r\nHost: demo\r\nX-Corr-ID: {}\r\n{}\r\n", line, format_corr(id), more);
}

Task<> Visitor::send_malformed(Call call, Server& server) {
  const std::uint32_t id = scenario_.open_request(server.number(), false);
  const std::size_t which = below(std::size(malformed) + std::size(malformed_chunks) + 1);
  std::string text;
  int status = 400;
  bool queued = false;
  if (which < std::size(malformed)) {
    text = malformed[which].text;
    status = malformed[which].status;
  } else if (which < std::size(malformed) + std::size(malformed_chunks)) {
    text = "POST /echo HTTP/1.1\r\nHost: d\r\nTransfer-Encoding: chunked\r\n\r\n";
    text += malformed_chunks[which - std::size(malformed)];
    queued = true;
  } else {
    text = "GET /mem/x HTTP/1.1\r\nHost: d\r\nA: " +
           std::string(static_cast<std::size_t>(server.most().head), 'a') + "\r\n\r\n";
    status = 431;
  }
  Wire wire(machine_);
  if (!co_await wire.open(call, endpoint_of(server))) co_return;
  if (!co_await wire.send(call, text)) co_return;
  auto answer = co_await wire.receive(call, Method::get);
  if (!answer) {
    judge_silence(id, answer.error(), Method::post);
    co_return;
  }
  scenario_.answered(static_cast<std::uint64_t>(answer->status));
  if (const std::string fault = find_fault(*answer, Method::get, "", false); !fault.empty())
    co_return complain(id, fmt::format("{}: {}", answer->status, fault));
  const bool refused = answer->status == 429 && server.least().refuses();
  const bool late = queued && (answer->status == 504 || answer->status == 503);
  const bool slow = answer->status == 408 && !scenario_.was_calm(scenario_.request(id));
  const bool raised = status == 431 && static_cast<std::size_t>(server.most().head) > text.size();
  if (answer->status != status && !refused && !late && !slow && !raised)
    complain(
        id, fmt::format("malformed request {} was answered {} ({})", which, answer->status, answer->message));
  if (status == 431) hit("sim.431");
  if (answer->status == status && !answer->last)
    complain(id, "the connection stays open behind a malformed request");
  if (!co_await wire.wait_end(call)) co_return;
  hit("sim.closed_behind_malformed");
}

// Bytes of a head, slower than the node has patience.
Task<> Visitor::send_slow_head(Call call, Server& server) {
  const std::uint32_t id = scenario_.open_request(server.number(), false);
  scenario_.request(id).fragile = true;
  Wire wire(machine_);
  if (!co_await wire.open(call, endpoint_of(server))) co_return;
  const std::string text = head_of("GET /mem/x HTTP/1.1", "A: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n", id);
  const Duration gap = Duration::millis(server.most().read_ms / 5);
  for (std::size_t at = 0; at < 12; at += 2) {
    if (!co_await wire.send(call, std::string_view(text).substr(at, 2))) break;
    if (!co_await sleep_for(call, gap)) co_return;
  }
  auto answer = co_await wire.receive(call, Method::get);
  if (!answer) co_return;
  scenario_.answered(static_cast<std::uint64_t>(answer->status));
  if (answer->status == 408) hit("sim.408");
  // The id stands in the part that never came.
  if (const std::string fault = find_fault(*answer, Method::get, "", false); !fault.empty())
    co_return complain(id, fmt::format("{}: {}", answer->status, fault));
  if (answer->status != 408 && answer->status != 429)
    complain(id, fmt::format("a slow head was answered {} ({})", answer->status, answer->message));
}

Task<> Visitor::send_slow_body(Call call, Server& server) {
  const std::uint32_t id = scenario_.open_request(server.number(), true);
  scenario_.request(id).fragile = true;
  Wire wire(machine_);
  if (!co_await wire.open(call, endpoint_of(server))) co_return;
  const bool chunked = below(2) == 0;
  const std::string text =
      head_of(below(2) == 0 ? "POST /staged HTTP/1.1" : "POST /echo HTTP/1.1",
              chunked ? "Transfer-Encoding: chunked\r\n" : "Content-Length: 1000\r\n", id);
  if (!co_await wire.send(call, text)) co_return;
  const Duration gap = Duration::millis(server.most().read_ms / 3);
  for (int i = 0; i < 5; ++i) {
    if (!co_await wire.send(call, chunked ? "1\r\nx\r\n" : "x")) break;
    if (!co_await sleep_for(call, gap)) co_return;
  }
  auto answer = co_await wire.receive(call, Method::post);
  if (answer) (void)judge(id, answer, Method::post, {.statuses = {408, 413}, .queued = true});
}

// Many requests in one write; answers come in order, until one says that it is the last.
Task<> Visitor::send_pipeline(Call call, Server& server) {
  struct Sent {
    std::uint32_t id;
    std::uint64_t form;
  };
  std::vector<Sent> sent;
  std::string text;
  const std::uint64_t count = 2 + below(20);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t form = below(5);
    const std::uint32_t id = scenario_.open_request(server.number(), true);
    sent.push_back({id, form});
    switch (form) {
      case 0:
        text += head_of("GET /healthz HTTP/1.1", "", id);
        break;
      case 1:
        text += head_of("POST /echo HTTP/1.1", "Content-Length: 5\r\n", id) + "hello";
        break;
      case 2:
        text += head_of("POST /echo HTTP/1.1", "Transfer-Encoding: chunked\r\n", id) +
                "3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n";
        break;
      case 3:
        text += head_of("POST /job/3 HTTP/1.1", "", id);
        break;
      default:
        text += head_of("GET /mem/x HTTP/1.1", "", id);
        break;
    }
  }
  // Some leave in the middle.
  const bool leaves = below(6) == 0;
  if (leaves)
    for (const Sent& one : sent) scenario_.request(one.id).fragile = true;
  Wire wire(machine_);
  if (!co_await wire.open(call, endpoint_of(server))) co_return;
  if (!co_await wire.send(call, text)) co_return;
  if (leaves) {
    if (below(2) == 0) (void)co_await sleep_for(call, Duration::micros(between(1, 5000)));
    wire.close(below(2) == 0);
    co_return;
  }
  std::size_t answered = 0;
  for (const Sent& one : sent) {
    auto answer = co_await wire.receive(call, Method::get);
    const bool queued = one.form >= 1 && one.form <= 3;
    const bool fine =
        judge(one.id, answer, Method::get, {.statuses = {200}, .queued = queued, .admitted = one.form != 0});
    if (!answer) co_return;
    ++answered;
    if (fine && (one.form == 1 || one.form == 2) && answer->body != "hello")
      complain(one.id, "the echo differs");
    if (fine && one.form == 0 && answer->body != "ok\n") complain(one.id, "health says " + answer->body);
    if (answer->last) break;
  }
  if (answered == sent.size()) hit("sim.pipelined");
}

Task<> Visitor::send_expecting(Call call, Server& server) {
  const std::uint32_t id = scenario_.open_request(server.number(), true);
  const std::size_t size = 1 + below(5000);
  const std::string text =
      head_of("POST /echo HTTP/1.1", fmt::format("Expect: 100-continue\r\nContent-Length: {}\r\n", size), id);
  Wire wire(machine_);
  if (!co_await wire.open(call, endpoint_of(server))) co_return;
  if (!co_await wire.send(call, text)) co_return;
  auto answer = co_await wire.receive(call, Method::post, true);
  const std::string_view body = noise(0, size);
  if (answer && answer->status == 100) {
    hit("sim.100_continue");
    if (!co_await wire.send(call, body)) co_return;
    answer = co_await wire.receive(call, Method::post);
  }
  if (judge(id, answer, Method::post, {.statuses = {200, 413}, .queued = true}) && answer->status == 200 &&
      answer->body != body)
    complain(id, "the echo differs");
}

// Says that it has nothing more to say while it waits for its answer.
Task<> Visitor::send_half_close(Call call, Server& server) {
  const std::uint32_t id = scenario_.open_request(server.number(), true);
  scenario_.request(id).fragile = true;
  Wire wire(machine_);
  if (!co_await wire.open(call, endpoint_of(server))) co_return;
  if (!co_await wire.send(call, head_of("POST /job/50 HTTP/1.1", "", id))) co_return;
  wire.shutdown_send();
  auto answer = co_await wire.receive(call, Method::post);
  if (!answer) co_return;
  hit("sim.half_closed_answered");
  (void)judge(id, answer, Method::post, {.statuses = {200, 503}, .queued = true});
}

// Takes a connection and says nothing, or half a line, for longer or shorter than the node waits.
Task<> Visitor::send_nothing(Call call, Server& server) {
  Wire wire(machine_);
  if (!co_await wire.open(call, endpoint_of(server))) co_return;
  if (below(2) == 0) {
    // Or asks late, perhaps of a node that has begun to leave meanwhile.
    const std::uint32_t id = scenario_.open_request(server.number(), true);
    scenario_.request(id).fragile = true;
    if (!co_await sleep_for(call, Duration::millis(between(1, 600)))) co_return;
    if (!co_await wire.send(call, head_of("GET /readyz HTTP/1.1", "", id))) co_return;
    auto answer = co_await wire.receive(call, Method::get);
    if (!judge(id, answer, Method::get,
               {.statuses = {200, 503}, .bare = answer && answer->status == 503, .admitted = false}))
      co_return;
    if (answer->status == 200) co_return;
    hit("sim.not_ready");
    if (server.last_drain() < Instant{0} && !server.was_starting(scenario_.request(id).issued))
      complain(id, "not ready, though nothing is wrong");
    co_return;
  }
  if (below(2) == 0 && !co_await wire.send(call, "GET /mem/x HT")) co_return;
  if (co_await wire.wait_end(call.within(Duration::millis(between(10, 3000))))) hit("sim.silent_closed");
}

// Announces more than is taken and sends on after the refusal: the answer must arrive, not a reset.
Task<> Visitor::send_oversized(Call call, Server& server) {
  const std::uint32_t id = scenario_.open_request(server.number(), true);
  const std::size_t size = static_cast<std::size_t>(server.most().body) + 1 + below(1000);
  Wire wire(machine_);
  if (!co_await wire.open(call, endpoint_of(server))) co_return;
  if (!co_await wire.send(call,
                          head_of("POST /staged HTTP/1.1", fmt::format("Content-Length: {}\r\n", size), id)))
    co_return;
  const std::size_t part = std::min<std::size_t>(size - 1, below(200'000));
  const Result<> sent = co_await wire.send(call, noise(0, part));
  auto answer = co_await wire.receive(call, Method::post);
  const bool must = scenario_.was_calm(scenario_.request(id)) && !server.least().few_connections() &&
                    server.last_drain() < Instant{0};
  if (!answer && must && answer.error().code != ErrorCode::timeout)
    complain(id, fmt::format("the refusal of a large body did not arrive: {} after sending {}",
                             answer.error().context, sent ? "all" : "a part"));
  // A reload may have raised the limit meanwhile; then the body is waited for.
  if (!judge(id, answer, Method::post, {.statuses = {413, 408}, .queued = true}) || answer->status != 413)
    co_return;
  hit("sim.413");
  if (co_await wire.wait_end(call)) hit("sim.linger");
}

// More connections than there are.
Task<> Visitor::send_flood(Call call, Server& server) {
  if (!server.least().few_connections()) co_return;
  std::vector<std::unique_ptr<Wire>> wires;
  std::vector<std::uint32_t> ids;
  const std::uint64_t count = 4 + below(36);
  for (std::uint64_t i = 0; i < count; ++i) {
    wires.push_back(std::make_unique<Wire>(machine_));
    ids.push_back(scenario_.open_request(server.number(), true));
    scenario_.request(ids.back()).fragile = true;
    if (!co_await wires.back()->open(call, endpoint_of(server))) co_return;
    const bool health = i % 4 == 0;
    const std::string text =
        head_of(health ? "GET /healthz HTTP/1.1" : "GET /mem/x HTTP/1.1", "", ids.back());
    if (!co_await wires.back()->send(call, text)) ids.back() = 0;
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] == 0) continue;
    auto answer = co_await wires[i]->receive(call, Method::get);
    if (judge(ids[i], answer, Method::get, {.statuses = {200}, .admitted = i % 4 != 0}) && i % 4 == 0)
      hit("sim.flood_health_answered");
  }
}

Task<> Visitor::send_old_version(Call call, Server& server) {
  const std::uint32_t id = scenario_.open_request(server.number(), true);
  const bool streams = below(2) == 0;
  const std::uint64_t parts = below(5);
  const std::string line = streams ? fmt::format("GET /stream/{} HTTP/1.0", parts) : "GET /mem/x HTTP/1.0";
  Wire wire(machine_);
  if (!co_await wire.open(call, endpoint_of(server))) co_return;
  if (!co_await wire.send(call, head_of(line, "", id))) co_return;
  auto answer = co_await wire.receive(call, Method::get);
  if (!judge(id, answer, Method::get, {.statuses = {200}, .queued = streams})) co_return;
  // Where the end of the connection is the end of the body, a killed process looks like one.
  if (!scenario_.was_calm(scenario_.request(id)) && streams) co_return;
  if (answer->body.size() != (streams ? parts * 1024 : 1024))
    complain(id, fmt::format("{} bytes", answer->body.size()));
  if (co_await wire.wait_end(call)) hit("sim.http_1_0");
}

}  // namespace cairn::simulator
