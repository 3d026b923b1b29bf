#include "cairn/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "cairn/server_search.h"
#include "crypto/blake3.h"
#include "io/process.h"
#include "runtime/scope.h"

namespace cairn::cli {
namespace {

// The time that a verb has to finish after a signal.
constexpr Duration interrupted_patience = Duration::seconds(5);

struct Run {
  const Invocation& invocation;
  const Terminal& terminal;
  Work work;
  Server server;
  io::Process& process;
  Search search;
  Asks asks;  // what the search is for
  std::string data;
  Exit exit = Exit::failed;
  bool interrupted = false;
};

Task<Exit> use(Call call, Run* run, client::Transport* transport, client::ServerVersion version,
               std::string where) {
  client::StorageClient storage(*transport);
  client::RegistryClient registry(*transport);
  const bool names_here =
      has_names(version.service) && (run->asks == Asks::index || !tells_index(run->invocation));
  IndexLink index(run->process.machine(0), run->invocation, run->data, names_here ? transport : nullptr);
  Session session{.machine = run->process.machine(0),
                  .invocation = run->invocation,
                  .terminal = run->terminal,
                  .data = run->data,
                  .storage = &storage,
                  .registry = &registry,
                  .index = &index,
                  .server = std::move(version),
                  .where = std::move(where),
                  .unreachable = {}};
  const Exit exit = co_await run->work(call, &session);
  co_await index.close(call.unbounded());
  co_return exit;
}

// Whether the service is known not to have the routes of the verb. All have those of status and health.
bool is_another(const Run& run, std::string_view service) {
  switch (run.asks) {
    case Asks::registry:
      return service == "storage" || service == "index" || service == "edge";
    case Asks::index:
      return service == "storage" || service == "registry" || service == "edge";
    case Asks::storage:
      return run.server == Server::of_objects && (service == "registry" || service == "index");
    case Asks::nobody:
    case Asks::every:
      break;
  }
  return false;
}

Task<std::optional<Exit>> try_candidate(Call call, Run* run, Candidate candidate, client::Failure* why) {
  auto options = options_for(run->invocation, run->data, candidate);
  if (!options) {
    *why = std::move(options.error());
    co_return std::nullopt;
  }
  client::Transport transport(run->process.machine(0), std::move(*options));
  std::optional<Exit> exit;
  {
    client::StorageClient storage(transport);
    auto version = co_await storage.version(call.within(probe_patience));
    if (version && is_another(*run, version->service))
      *why = client::Failure(ErrorCode::connection_lost,
                             fmt::format("there is {} at {}", printable(version->service), candidate.named));
    else if (version)
      exit = co_await use(call, run, &transport, std::move(*version), format_url(candidate.endpoint));
    else
      *why = std::move(version.error());
  }
  co_await transport.close(call.unbounded());
  co_return exit;
}

Task<Exit> work_alone(Call call, Run* run, std::optional<client::Failure> unreachable) {
  Session session{.machine = run->process.machine(0),
                  .invocation = run->invocation,
                  .terminal = run->terminal,
                  .data = run->data,
                  .server = {},
                  .where = {},
                  .unreachable = std::move(unreachable)};
  co_return co_await run->work(call, &session);
}

std::string hint_of_search(const Run& run, const client::Failure& why) {
  if (std::string hint = hint_of_certificate(why); !hint.empty()) return hint;
  const std::string_view who = name_of(run.asks);
  const bool one = who != "cairn";
  if (run.search.told)
    return one ? fmt::format("is the address right, and is it up? start it: cairn {} --data DIR", who)
               : "is the address right, and is it up? cairn up starts one here";
  if (run.search.own)
    return fmt::format("start it: cairn {} --data {}; or name a server: --url http://HOST:PORT",
                       one ? who : "up", printable(run.data));
  return one ? fmt::format("start it: cairn {} --data DIR; or name one: --url http://HOST:PORT", who)
             : "start one: cairn up; or name one: --url http://HOST:PORT";
}

// A service of the data directory that did not answer, when all are asked.
const Candidate* find_silent(const Run& run, const std::vector<std::string_view>& answered) {
  if (run.asks != Asks::every) return nullptr;
  for (const Candidate& one : run.search.candidates)
    if (!one.service.empty() && std::ranges::find(answered, one.service) == answered.end()) return &one;
  return nullptr;
}

Task<Exit> search_and_work(Call call, Run* run) {
  if (run->server == Server::none) co_return co_await work_alone(call, run, std::nullopt);
  client::Failure why;
  std::string asked;
  std::optional<Exit> outcome;  // of the services that answered: the first that is not well
  std::vector<std::string_view> answered;
  for (const Candidate& candidate : run->search.candidates) {
    // A guessed server is not asked once a service of the data directory has answered.
    if (outcome && (run->asks != Asks::every || candidate.service.empty())) break;
    if (std::ranges::find(answered, candidate.service) != answered.end()) continue;
    asked += (asked.empty() ? "" : ", ") + candidate.named;
    const auto exit = co_await try_candidate(call, run, candidate, &why);
    if (!exit && call.stopped()) co_return Exit::interrupted;
    if (!exit) continue;
    answered.push_back(candidate.service);
    if (!outcome || *outcome == Exit::ok) outcome = exit;
  }
  if (outcome) {
    const Candidate* silent = find_silent(*run, answered);
    if (silent == nullptr) co_return *outcome;
    run->terminal.complain("unreachable",
                           fmt::format("{} does not answer ({})", silent->service, why.message),
                           silent->named, {});
    co_return *outcome == Exit::ok ? Exit::unreachable : *outcome;
  }
  const std::string_view who = name_of(run->asks);
  const std::string own = fmt::format("no {} of {}", who == "cairn" ? "daemon" : who, printable(run->data));
  std::string what =
      fmt::format("{} answers ({})", run->search.own ? own : fmt::format("no {}", who), why.message);
  if (run->search.candidates.empty()) what = own + " is listening";
  client::Failure failure(ErrorCode::connection_lost, what);
  failure.asked = std::move(asked);
  failure.hint = hint_of_search(*run, why);
  if (run->server == Server::useful) co_return co_await work_alone(call, run, std::move(failure));
  run->terminal.complain("unreachable", what, failure.asked, failure.hint);
  co_return Exit::unreachable;
}

Task<> work_to_the_end(Call call, Run* run) {
  run->exit = co_await search_and_work(call, run);
  run->process.stop();
}

}  // namespace

std::string data_directory(const Invocation& invocation) {
  return std::string(invocation.get("data", "./cairn-data"));
}

std::optional<Endpoint> parse_url(std::string_view text) { return parse_peer(text); }

std::string format_url(const Endpoint& endpoint) {
  if (!endpoint.path.empty()) return format_endpoint(endpoint);
  return (endpoint.tls ? "https://" : "http://") + format_endpoint(endpoint);
}

std::string read_token_file(const std::string& path) {
  auto text = io::read_small_file(path, 64 << 10);
  if (!text) return {};
  while (!text->empty() && (text->back() == '\n' || text->back() == '\r' || text->back() == ' '))
    text->pop_back();
  return std::move(*text);
}

int run_session(const Invocation& invocation, Work work, Server server) {
  const Terminal terminal(invocation);
  const std::string data = data_directory(invocation);
  const Asks asks = server == Server::of_objects ? Asks::storage : invocation.command->asks;
  Search search = server == Server::none ? Search{} : where_to_look(invocation, data, asks);
  if (search.wrong) {
    terminal.complain("usage", fmt::format("`{}` is not the URL of a server", printable(*search.wrong)), {},
                      "http://HOST:PORT, https://HOST:PORT or unix:PATH");
    return code_of(Exit::usage);
  }
  crypto::warm_up();
  io::Process process(1);
  Run run{.invocation = invocation,
          .terminal = terminal,
          .work = std::move(work),
          .server = server,
          .process = process,
          .search = std::move(search),
          .asks = asks,
          .data = data};
  {
    Scope scope(process.machine(0).shard);
    scope.spawn("verb", work_to_the_end(scope.call(), &run));
    // A shard that waits for the reader of its result does not see the signal. The process still leaves.
    process.run(
        [&](io::Signal signal, Instant) {
          if (signal == io::Signal::reload) return;
          if (std::exchange(run.interrupted, true)) io::leave_now(code_of(Exit::interrupted));
          scope.cancel(StopReason::aborted);
        },
        {.patience = [] { return interrupted_patience; },
         .tell = {},
         .told = {},
         .code = code_of(Exit::interrupted)});
  }
  (void)flush_result();
  // A pool thread may still sit in a read of the terminal, which nothing ends: do not wait for it.
  if (run.interrupted) io::leave_now(code_of(Exit::interrupted));
  process.finish();
  return code_of(run.exit);
}

}  // namespace cairn::cli
