#include "visitor.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/wait.h"

namespace cairn::simulator {
namespace {

using http::Method;

const std::string& kilobyte() {
  static const std::string text = [] {
    std::string bytes(1024, '\0');
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>('a' + i % 26);
    return bytes;
  }();
  return text;
}

}  // namespace

// --- its life

Task<> Visitor::visit(Call call) {
  const auto what = static_cast<Visit>(draw_visit());
  Server& server = pick_server();
  switch (what) {
    case Visit::memory:
      return ask_memory(call, server);
    case Visit::file:
      return scenario_.plan().publish && below(3) == 0 ? ask_published(call, server) : ask_file(call, server);
    case Visit::echo:
      return ask_echo(call, server);
    case Visit::job:
      return ask_job(call, server);
    case Visit::stream:
      return ask_stream(call, server);
    case Visit::health:
      return ask_health(call, server);
    case Visit::metrics:
      return ask_metrics(call, server);
    case Visit::unknown:
      return ask_unknown(call, server);
    case Visit::wrong_method:
      return ask_wrong_method(call, server);
    case Visit::malformed:
      return send_malformed(call, server);
    case Visit::slow_head:
      return send_slow_head(call, server);
    case Visit::slow_body:
      return send_slow_body(call, server);
    case Visit::pipeline:
      return send_pipeline(call, server);
    case Visit::expect:
      return send_expecting(call, server);
    case Visit::half_close:
      return send_half_close(call, server);
    case Visit::silent:
      return send_nothing(call, server);
    case Visit::oversized:
      return send_oversized(call, server);
    case Visit::flood:
      return send_flood(call, server);
    case Visit::abandon:
      return abandon(call, server);
    default:
      return send_old_version(call, server);
  }
}

Task<std::string> Visitor::converge_with(Call call, Server& server, unsigned step) {
  struct Step {
    Method method;
    const char* target;
    std::string_view body;
  };
  constexpr Step wanted_steps[steps] = {{Method::get, "/healthz", {}},
                                        {Method::get, "/mem/x", {}},
                                        {Method::post, "/echo", "hello"},
                                        {Method::get, "/job/1", {}}};
  const Step& wanted = wanted_steps[step];
  const std::uint32_t id = scenario_.open_request(server.number(), false);
  http::ClientRequest request = make(server, wanted.method, wanted.target, id);
  if (!wanted.body.empty()) request.set_view(wanted.body);
  auto answer = co_await ask(call.within(Duration::seconds(3)), std::move(request));
  if (!answer)
    co_return fmt::format("{}: {} ({})", wanted.target, name_of(answer.error().code), answer.error().context);
  scenario_.answered(static_cast<std::uint64_t>(answer->status));
  if (answer->status != 200) co_return fmt::format("{}: {} {}", wanted.target, answer->status, answer->body);
  if (!wanted.body.empty() && answer->body != wanted.body) co_return std::string("the echo differs");
  co_return std::string();
}

// --- what is asked

Task<> Visitor::ask_memory(Call call, Server& server) {
  const std::uint32_t id = scenario_.open_request(server.number(), false);
  const Method method = below(5) == 0 ? Method::head : Method::get;
  scenario_.request(id).unnamed = below(8) == 0;
  auto answer = co_await ask(call, make(server, method, fmt::format("/mem/{}", below(100)), id));
  if (judge(id, answer, method, {.statuses = {200}}) &&
      answer->body != (method == Method::get ? kilobyte() : ""))
    complain(id, "the answer from memory differs");
}

Task<> Visitor::ask_file(Call call, Server& server) {
  const std::string& whole = served_file();
  const std::uint32_t id = scenario_.open_request(server.number(), false);
  const std::uint64_t form = below(10);
  const Method method = form == 1 ? Method::head : Method::get;
  http::ClientRequest request = make(server, method, form == 9 ? "/file/nothing.bin" : "/file/a.bin", id);
  const auto first = static_cast<std::size_t>(below(whole.size()));
  const auto size = 1 + static_cast<std::size_t>(below(whole.size() - first));
  int status = 200;
  std::string_view body = whole;
  std::string range;
  switch (form) {
    case 1:
      body = {};
      break;
    case 2:
      request.add_field("Range", fmt::format("bytes={}-{}", first, first + size - 1));
      status = 206;
      body = body.substr(first, size);
      range = fmt::format("bytes {}-{}/{}", first, first + size - 1, whole.size());
      break;
    case 3:
      request.add_field("Range", fmt::format("bytes=-{}", size));
      status = 206;
      body = body.substr(whole.size() - size);
      range = fmt::format("bytes {}-{}/{}", whole.size() - size, whole.size() - 1, whole.size());
      break;
    case 4:
      request.add_field("Range", "bytes=10000-");
      status = 416;
      range = "bytes */10000";
      break;
    case 5:
      request.add_field("If-None-Match", "\"a.bin-10000\"");
      status = 304;
      body = {};
      break;
    case 6:
      request.add_field("Range", "bytes=0-9");
      request.add_field("If-Range", "\"another\"");
      break;
    case 7:
      request.add_field("Range", "bytes=0-9,20-29");
      break;
    case 8:
      request.add_field("If-Match", "\"another\"");
      status = 412;
      break;
    case 9:
      status = 404;
      break;
    default:
      break;
  }
  auto answer = co_await ask(call, std::move(request));
  if (!judge(id, answer, method, {.statuses = {status}, .queued = true, .reads_disk = true})) co_return;
  if (status >= 400) {
    if (answer->content_range != range) complain(id, "Content-Range is " + answer->content_range);
    co_return;
  }
  if (answer->etag != "\"a.bin-10000\"") complain(id, "ETag is " + answer->etag);
  if (answer->content_range != range) complain(id, "Content-Range is " + answer->content_range);
  if (answer->body.size() != body.size() || (!scenario_.plan().disk_lies && answer->body != body))
    complain(id, fmt::format("{} bytes of the file differ", answer->body.size()));
}

Task<> Visitor::ask_published(Call call, Server& server) {
  const std::uint32_t id = scenario_.open_request(server.number(), false);
  const bool published = demo_.publication(server).durable > 0;
  auto answer = co_await ask(call, make(server, Method::get, fmt::format("/file/{}", published_name), id));
  if (!judge(id, answer, Method::get, {.statuses = {200, 404}, .queued = true, .reads_disk = true}))
    co_return;
  if (answer->status == 404) {
    // Before the first one, or after a power cut took it back.
    if (published && scenario_.was_calm(scenario_.request(id)))
      complain(id, "what was published durably is not found");
    co_return;
  }
  if (scenario_.plan().disk_lies) co_return;
  const auto version = read_published(answer->body);
  if (!version || *version > demo_.publication(server).started) complain(id, "half a version was served");
}

Task<> Visitor::ask_echo(Call call, Server& server) {
  const bool put = below(4) == 0;
  const Method method = put ? Method::put : Method::post;
  const std::uint32_t id = scenario_.open_request(server.number(), !put);
  http::ClientRequest request = make(server, method, below(2) == 0 ? "/staged" : "/echo", id);
  const std::size_t size = below(std::uint64_t{1} << below(18));
  const std::string_view plain = noise(below(1024), size);
  std::string sent(plain);
  int also = 200;  // besides 200
  bool must = false;
  const std::uint64_t form = below(12);
  if (form < 3 || form == 9) {
    sent = gzip(plain);
    request.add_field("Content-Encoding", "gzip");
  } else if (form == 10) {
    sent = gzip(std::string(200'000, ' '));
    request.add_field("Content-Encoding", "gzip");
    also = 413;
    must = true;
  } else if (form == 11) {
    request.add_field("Content-Encoding", "compress");
    also = 415;
    must = true;
  }
  const auto length = static_cast<std::int64_t>(sent.size());
  if (form % 3 == 0)
    request.set_source(std::make_unique<Pieces>(machine_.slab, std::move(sent), random_.next()));
  else
    request.set_text(std::move(sent));
  auto answer = co_await ask(call, std::move(request));
  // By all the limits there were meanwhile.
  if (length > server.least().body) also = 413;
  if (length > server.most().body) must = true;
  if (!judge(id, answer, method, {.statuses = {200, also, 415}, .queued = true})) co_return;
  if (answer->status == 413) hit("sim.413");
  if (answer->status == 415) {
    if (form != 11) complain(id, "415 for a coding that is known");
    co_return;
  }
  if (answer->status != 200) co_return;
  if (must) complain(id, "a body over its limits was echoed");
  if (answer->body != plain) complain(id, fmt::format("{} bytes of the echo differ", answer->body.size()));
  if (!put && scenario_.request(id).done != 1)
    complain(id, fmt::format("echoed, but done {} times", scenario_.request(id).done));
}

Task<> Visitor::ask_job(Call call, Server& server) {
  const bool once = below(3) != 0;
  const Method method = once ? Method::post : Method::get;
  const std::uint32_t id = scenario_.open_request(server.number(), once);
  std::int64_t ms = below(8) == 0 ? between(100, 3000) : between(0, 40);
  http::ClientRequest request = make(server, method, fmt::format("/job/{}", ms), id);
  std::int64_t asked = 1'000'000;
  const std::uint64_t form = below(6);
  if (form < 2) {
    asked = between(1, 300);
    if (form == 0)
      request.add_field("X-Deadline-Ms", fmt::format("{}", asked));
    else
      request.add_field("Request-Timeout", fmt::format("0.{:03}", asked));
  } else if (form == 2) {
    // By this machine's clock: the node's may be another.
    request.add_field("Deadline", format_rfc3339({machine_.shard.wall().ms + between(0, 2000)}));
  }
  const Instant sent = now();
  auto answer = co_await ask(call, std::move(request));
  const std::int64_t took = (now() - sent).to_millis();
  if (!judge(id, answer, method, {.statuses = {200, 504}, .queued = true})) co_return;
  // A reload may have made it longer meanwhile.
  const std::int64_t deadline = std::min(asked, server.most().request_ms);
  constexpr std::int64_t slack = 500;
  if (scenario_.was_calm(scenario_.request(id)) && took > deadline + slack)
    complain(id, fmt::format("the answer took {} ms, the deadline was {} ms", took, deadline));
  if (answer->status == 504) {
    if (scenario_.request(id).done > 0 && once) complain(id, "504, but the job was done");
    co_return;
  }
  if (took < ms || !answer->body.starts_with(fmt::format("{{\"slept_ms\":{},", ms)))
    complain(id, fmt::format("a job of {} ms took {} ms and says {}", ms, took, answer->body));
  if (ms > deadline + 50)
    complain(id, fmt::format("a job of {} ms was done under a deadline of {} ms", ms, deadline));
  const unsigned done = scenario_.request(id).done;
  if (done < 1 || done > (once ? 1u : 2u)) complain(id, fmt::format("answered, but done {} times", done));
}

Task<> Visitor::ask_stream(Call call, Server& server) {
  const std::uint32_t id = scenario_.open_request(server.number(), false);
  const std::uint64_t parts = below(30);
  auto answer = co_await ask(call, make(server, Method::get, fmt::format("/stream/{}", parts), id));
  if (judge(id, answer, Method::get, {.statuses = {200}, .queued = true}) &&
      answer->body != std::string(parts * 1024, '.'))
    complain(id, fmt::format("a stream of {} parts has {} bytes", parts, answer->body.size()));
}

Task<> Visitor::ask_health(Call call, Server& server) {
  const std::uint32_t id = scenario_.open_request(server.number(), false);
  const std::uint64_t form = below(4);
  constexpr const char* targets[] = {"/healthz", "/readyz", "/version", "/healthz"};
  const Method method = form == 3 ? Method::head : Method::get;
  http::ClientRequest request = make(server, method, targets[form], id);
  const bool beside = below(3) == 0;
  if (beside) request.endpoint.port = Server::health_port;
  auto answer = co_await ask(call, std::move(request));
  if (answer && beside) hit("sim.health_listener");
  if (answer && answer->status == 503 && form == 1) {
    scenario_.answered(503);
    hit("sim.not_ready");
    if (server.last_drain() < Instant{0} && !server.was_starting(scenario_.request(id).issued))
      complain(id, "not ready, though nothing is wrong");
    co_return;
  }
  if (!judge(id, answer, method, {.statuses = {200}, .admitted = false, .reserved = beside})) co_return;
  if (form == 0 && answer->body != "ok\n") complain(id, "health says " + answer->body);
  if (form == 1 && !answer->body.starts_with("{\"ready\":true,"))
    complain(id, "readiness says " + answer->body);
  if (form == 2 && answer->body.find("\"demo\"") == std::string::npos)
    complain(id, "version says " + answer->body);
  if (form == 3 && !answer->body.empty()) complain(id, "a HEAD answer with a body");
}

Task<> Visitor::ask_metrics(Call call, Server& server) {
  const std::uint32_t id = scenario_.open_request(server.number(), false);
  const bool topology = below(3) == 0;
  auto answer = co_await ask(call, make(server, Method::get, topology ? "/debug/topology" : "/metrics", id));
  if (judge(id, answer, Method::get, {.statuses = {200}, .admitted = topology}) &&
      answer->body.find(topology ? "\"work\"" : "build_info{") == std::string::npos)
    complain(id, "the metrics or the topology are not there");
}

Task<> Visitor::ask_unknown(Call call, Server& server) {
  struct Row {
    const char* target;
    int status;
  };
  constexpr Row rows[] = {
      {"/nothing", 404}, {"/mem/a%2fb", 400}, {"/job/abc", 400}, {"/mem", 404}, {"/mem/../healthz", 400}};
  const Row& row = rows[below(std::size(rows))];
  const std::uint32_t id = scenario_.open_request(server.number(), false);
  auto answer = co_await ask(call, make(server, Method::get, row.target, id));
  (void)judge(id, answer, Method::get, {.statuses = {row.status}});
}

Task<> Visitor::ask_wrong_method(Call call, Server& server) {
  const std::uint32_t id = scenario_.open_request(server.number(), false);
  auto answer = co_await ask(call, make(server, Method::del, "/mem/x", id));
  if (judge(id, answer, Method::del, {.statuses = {405}}) && answer->allow != "GET, HEAD")
    complain(id, "Allow is " + answer->allow);
}

// Leaves while it is being served.
Task<> Visitor::abandon(Call call, Server& server) {
  const std::uint32_t id = scenario_.open_request(server.number(), false);
  scenario_.request(id).fragile = true;
  if (below(2) == 0) {
    auto answer = co_await ask(call.within(Duration::millis(between(1, 50))),
                               make(server, Method::get, "/job/2000", id));
    (void)judge(id, answer, Method::get, {.statuses = {200}, .queued = true});
    co_return;
  }
  auto response = co_await client_->send(call, make(server, Method::get, "/stream/200", id));
  if (!response) co_return;
  (void)co_await response->next(call);
}

}  // namespace cairn::simulator
