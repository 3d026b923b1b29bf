// Session: one verb that waits: a shard to run on, and the server it asks.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "cairn/exit_code.h"
#include "cairn/terminal.h"
#include "client/registry_client.h"
#include "client/storage_client.h"
#include "io/machine.h"

namespace cairn::cli {

struct Session {
  io::Machine& machine;
  const Invocation& invocation;
  const Terminal& terminal;
  std::string data;  // the data directory, there or not
  // The server's surfaces: one, and of it what the verb asks for.
  client::StorageClient* storage = nullptr;
  client::RegistryClient* registry = nullptr;
  client::ServerVersion server;
  std::string where;  // of the server, as people write it
  // Why there is no server; then the clients are null. Only for verbs that can do without.
  std::optional<client::Failure> unreachable;
};

// A plain function, or a lambda that only calls a coroutine.
using Work = std::function<Task<Exit>(Call call, Session* session)>;
enum class Server : std::uint8_t { needed, useful, none };

// Finds the server that the verb asks and runs `work` until it ends or a signal stops it (130; a second one
// leaves at once). `none`: asks nobody. The exit code of the process.
int run_session(const Invocation& invocation, Work work, Server server = Server::needed);

std::string data_directory(const Invocation& invocation);
// `http://HOST:PORT`, `HOST:PORT`, `unix:PATH`. Nothing when it is not that.
std::optional<Endpoint> parse_url(std::string_view text);
std::string format_url(const Endpoint& endpoint);

// Reads what follows the first words of a line: a token from a file or from stdin. Empty: none.
std::string read_token_file(const std::string& path);

}  // namespace cairn::cli
