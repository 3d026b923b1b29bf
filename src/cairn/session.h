// Session: the surroundings of one asynchronous verb: a shard to run on, and the server that it asks.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cairn/exit_code.h"
#include "cairn/index_link.h"
#include "cairn/terminal.h"
#include "client/registry_client.h"
#include "client/storage_client.h"
#include "io/machine.h"

namespace cairn::cli {

struct Session {
  io::Machine& machine;
  const Invocation& invocation;
  const Terminal& terminal;
  std::string data;  // the data directory, which may not exist
  // Clients of the one server, for the parts of its API that the verb uses.
  client::StorageClient* storage = nullptr;
  client::RegistryClient* registry = nullptr;
  IndexLink* index = nullptr;  // the same server's, or another's
  client::ServerVersion server;
  std::string where;  // the server's address, as people write it
  // Why there is no server; then the clients are null. Only for verbs that can do without a server.
  std::optional<client::Failure> unreachable;
};

// A plain function, or a lambda that only calls a coroutine.
using Work = std::function<Task<Exit>(Call call, Session* session)>;
enum class Server : std::uint8_t { needed, of_objects, useful, none };

// The time in which a server that is looked for says what it is.
inline constexpr Duration probe_patience = Duration::seconds(3);
// The time in which an index says what a name stands for.
inline constexpr Duration resolve_patience = Duration::seconds(10);

// Finds the server that the verb asks, and runs `work` until it ends or a signal stops it (exit code 130; a
// second signal leaves at once). `of_objects`: needed, one that has objects, whatever the verb asks
// otherwise. `none`: the verb asks no server. Returns the process's exit code.
int run_session(const Invocation& invocation, Work work, Server server = Server::needed);

std::string data_directory(const Invocation& invocation);
// `http://HOST:PORT`, `https://HOST:PORT`, `HOST:PORT`, `unix:PATH`. Nothing for any other text.
std::optional<Endpoint> parse_url(std::string_view text);
std::string format_url(const Endpoint& endpoint);

// Reads a token from a file, without the space and line ends behind it. Empty: none.
std::string read_token_file(const std::string& path);

}  // namespace cairn::cli
