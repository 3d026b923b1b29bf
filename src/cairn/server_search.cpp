#include "cairn/server_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "cairn/data_directory.h"
#include "cairn/local_daemon.h"
#include "cairn/session.h"
#include "cairn/tls_file.h"
#include "crypto/secret_bytes.h"

namespace cairn::cli {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

// The first that is given of these: each a flag and its variable, flags first.
std::string find_told(const Invocation& invocation,
                      std::initializer_list<std::pair<std::string_view, const char*>> ways) {
  for (const auto& [flag, variable] : ways)
    if (const auto given = invocation.find(flag); given && !given->empty()) return std::string(*given);
  for (const auto& [flag, variable] : ways)
    if (std::string given = environment(variable); !given.empty()) return given;
  return {};
}

Search look_there(const std::string& told) {
  Search search;
  search.told = true;
  if (auto endpoint = parse_url(told))
    search.candidates.push_back({*endpoint, told});
  else
    search.wrong = told;
  return search;
}

void add_daemon(Search& search, const std::string& data, std::string_view service) {
  for (Endpoint& endpoint : find_daemon(data, service)) {
    std::string named = endpoint.path.empty() ? format_endpoint(endpoint) : endpoint.path;
    search.candidates.push_back({std::move(endpoint), std::move(named), service});
  }
}

void add_port(Search& search, std::uint16_t port) {
  search.candidates.push_back({{.host = "127.0.0.1", .port = port}, fmt::format("127.0.0.1:{}", port)});
}

// The service that has the routes, beside the gateway, which stands before all.
std::string_view service_of(Asks asks) noexcept {
  if (asks == Asks::registry) return "registry";
  return asks == Asks::index ? "index" : "storage";
}

std::vector<std::uint16_t> usual_ports(Asks asks) {
  switch (asks) {
    case Asks::registry:
      return {7400, 7430};
    case Asks::index:
      return {7400, 7420};
    case Asks::every:
      return {7410, 7420, 7430, 7400};
    case Asks::nobody:
    case Asks::storage:
      break;
  }
  return {7400, 7410};
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

}  // namespace

std::string_view name_of(Asks asks) noexcept {
  return asks == Asks::registry || asks == Asks::index ? service_of(asks) : "cairn";
}

bool has_names(std::string_view service) noexcept { return service == "gateway" || service == "index"; }

Search where_to_look(const Invocation& invocation, const std::string& data, Asks asks) {
  const std::string told = asks == Asks::index
                               ? find_told(invocation, {{"index", "CAIRN_INDEX"}, {"url", "CAIRN_URL"}})
                               : find_told(invocation, {{"url", "CAIRN_URL"}});
  if (!told.empty()) return look_there(told);
  Search search;
  for (const std::string_view service : {"gateway", "storage", "index", "registry"})
    if (asks == Asks::every || service == "gateway" || service == service_of(asks))
      add_daemon(search, data, service);
  search.own = invocation.has("data");
  if (search.own) return search;
  for (const std::uint16_t port : usual_ports(asks)) add_port(search, port);
  return search;
}

bool tells_index(const Invocation& invocation) {
  return !find_told(invocation, {{"index", "CAIRN_INDEX"}}).empty();
}

Search where_the_index_is(const Invocation& invocation, const std::string& data) {
  if (const std::string told = find_told(invocation, {{"index", "CAIRN_INDEX"}}); !told.empty())
    return look_there(told);
  Search search;
  add_daemon(search, data, "index");
  search.own = invocation.has("data");
  if (!search.own) add_port(search, usual_ports(Asks::index).back());
  return search;
}

client::Outcome<client::TransportOptions> options_for(const Invocation& invocation, const std::string& data,
                                                      const Candidate& candidate) {
  client::TransportOptions options;
  options.endpoint = candidate.endpoint;
  if (candidate.endpoint.tls) {
    TRY(options.tls, load_trust(invocation, data, !candidate.service.empty()));
  }
  Bearer bearer = find_bearer(candidate, data);
  options.token = std::move(bearer.token);
  options.anonymous_hint = std::move(bearer.hint);
  return options;
}

std::string hint_of_certificate(const client::Failure& why) {
  if (why.code() != ErrorCode::integrity) return {};
  if (why.message.find("mismatch") != std::string::npos)
    return "ask for a name that the server's certificate has";
  if (why.message.find("expired") != std::string::npos ||
      why.message.find("not yet valid") != std::string::npos)
    return "the server's certificate has to be renewed, or a clock is wrong";
  return "say who vouches for the server: --ca FILE; of cairn up --tls it is keys/tls/ca.pem in its data "
         "directory";
}

}  // namespace cairn::cli
