#include "cairn/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "cairn/data_directory.h"
#include "cairn/local_daemon.h"
#include "cairn/tls_file.h"
#include "crypto/blake3.h"
#include "crypto/secret_bytes.h"
#include "io/process.h"
#include "runtime/scope.h"

namespace cairn::cli {
namespace {

constexpr Duration probe_patience = Duration::seconds(3);
// The time that a verb has to finish after a signal.
constexpr Duration interrupted_patience = Duration::seconds(5);

// A place where the server may be.
struct Candidate {
  Endpoint endpoint;
  std::string named;              // its name in messages
  std::string_view service = {};  // the data directory's service; empty: a guess, or given by --url
};

struct Search {
  std::vector<Candidate> candidates;
  bool told = false;  // by --url or CAIRN_URL: there and nowhere else
  bool own = false;   // by --data: only that directory's daemon
  std::optional<std::string> wrong;
};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

Search where_to_look(const Invocation& invocation, const std::string& data) {
  Search search;
  std::string told(invocation.get("url", ""));
  if (told.empty()) told = environment("CAIRN_URL");
  if (!told.empty()) {
    search.told = true;
    if (auto endpoint = parse_url(told))
      search.candidates.push_back({*endpoint, told});
    else
      search.wrong = told;
    return search;
  }
  const Asks asks = invocation.command->asks;
  // The gateway stands before the others.
  for (const std::string_view service : {"gateway", "storage", "registry"}) {
    const bool asked = service == "gateway" || (asks == Asks::registry) == (service == "registry");
    if (asks != Asks::every && !asked) continue;
    for (Endpoint& endpoint : find_daemon(data, service)) {
      std::string named = endpoint.path.empty() ? format_endpoint(endpoint) : endpoint.path;
      search.candidates.push_back({std::move(endpoint), std::move(named), service});
    }
  }
  search.own = invocation.has("data");
  if (search.own) return search;
  std::vector<std::uint16_t> ports{7400, 7410};
  if (asks == Asks::registry) ports = {7400, 7430};
  if (asks == Asks::every) ports = {7410, 7430, 7400};
  for (const std::uint16_t port : ports)
    search.candidates.push_back({{.host = "127.0.0.1", .port = port}, fmt::format("127.0.0.1:{}", port)});
  return search;
}

// The token that is sent to the server, and a hint if there is a capability that this server must not see.
struct Bearer {
  std::string token, hint;
};

Bearer find_bearer(const Candidate& candidate, const std::string& data) {
  if (std::string given = environment("CAIRN_CAP"); !given.empty()) return {std::move(given), {}};
  std::string own = read_token_file(admin_capability_path(data));
  if (own.empty() || is_daemon(data, candidate.endpoint)) return {std::move(own), {}};
  crypto::wipe(own);
  return {{},
          fmt::format("the capability of {} goes only to its own daemon, which is not at {}; give one in "
                      "CAIRN_CAP, or start it: cairn up --data {}",
                      printable(data), printable(candidate.named), printable(data))};
}

struct Run {
  const Invocation& invocation;
  const Terminal& terminal;
  Work work;
  Server server;
  io::Process& process;
  Search search;
  std::string data;
  Exit exit = Exit::failed;
  bool interrupted = false;
};

Task<Exit> use(Call call, Run* run, client::Transport* transport, client::ServerVersion version,
               std::string where) {
  client::StorageClient storage(*transport);
  client::RegistryClient registry(*transport);
  Session session{.machine = run->process.machine(0),
                  .invocation = run->invocation,
                  .terminal = run->terminal,
                  .data = run->data,
                  .storage = &storage,
                  .registry = &registry,
                  .server = std::move(version),
                  .where = std::move(where),
                  .unreachable = {}};
  co_return co_await run->work(call, &session);
}

// Whether the service is known not to have the routes of the verb. All have those of status and health.
bool is_another(const Run& run, std::string_view service) {
  if (run.server == Server::of_objects) return service == "registry";
  return run.invocation.command->asks == Asks::registry &&
         (service == "storage" || service == "index" || service == "edge");
}

Task<std::optional<Exit>> try_candidate(Call call, Run* run, Candidate candidate, client::Failure* why) {
  client::TransportOptions options;
  options.endpoint = candidate.endpoint;
  if (candidate.endpoint.tls) {
    auto trust = load_trust(run->invocation, run->data, !candidate.service.empty());
    if (!trust) {
      *why = std::move(trust.error());
      co_return std::nullopt;
    }
    options.tls = std::move(*trust);
  }
  Bearer bearer = find_bearer(candidate, run->data);
  options.token = std::move(bearer.token);
  options.anonymous_hint = std::move(bearer.hint);
  client::Transport transport(run->process.machine(0), std::move(options));
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
  // The one integrity error before any answer: the server's certificate is not accepted.
  if (why.code() == ErrorCode::integrity && why.message.find("mismatch") != std::string::npos)
    return "ask for a name that the server's certificate has";
  if (why.code() == ErrorCode::integrity && (why.message.find("expired") != std::string::npos ||
                                             why.message.find("not yet valid") != std::string::npos))
    return "the server's certificate has to be renewed, or a clock is wrong";
  if (why.code() == ErrorCode::integrity)
    return "say who vouches for the server: --ca FILE; of cairn up --tls it is keys/tls/ca.pem in its data "
           "directory";
  const bool registry = run.invocation.command->asks == Asks::registry;
  if (run.search.told)
    return registry ? "is the address right, and is it up? start it: cairn registry --data DIR"
                    : "is the address right, and is it up? cairn up starts one here";
  if (run.search.own)
    return fmt::format("start it: cairn {} --data {}; or name a server: --url http://HOST:PORT",
                       registry ? "registry" : "up", printable(run.data));
  return registry ? "start it: cairn registry --data DIR; or name one: --url http://HOST:PORT"
                  : "start one: cairn up; or name one: --url http://HOST:PORT";
}

// A service of the data directory that did not answer, when all are asked.
const Candidate* find_silent(const Run& run, const std::vector<std::string_view>& answered) {
  if (run.invocation.command->asks != Asks::every) return nullptr;
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
    if (outcome && (run->invocation.command->asks != Asks::every || candidate.service.empty())) break;
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
  const std::string_view who = run->invocation.command->asks == Asks::registry ? "registry" : "cairn";
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
  Search search = server == Server::none ? Search{} : where_to_look(invocation, data);
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
