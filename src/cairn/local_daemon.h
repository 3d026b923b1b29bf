// The daemon of a data directory, as the verbs on the same machine find it, and the capabilities that may be
// sent to it.
//
//   [LD-1] A capability that is kept in a data directory goes only to that directory's daemon: to a socket
//          that is in the directory or that a lock file of it names, or to a loopback address that a lock
//          file of it names. A lock file counts while its service holds it (io/lock_file.h), and, like a
//          socket, only if it belongs to the owner of the capability.
// Between the look at the lock and the connection, the daemon may die and another user's process may take its
// port. Only the socket in the directory is safe from that, so it is tried first.
// Everything here blocks: never on a shard that serves.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/endpoint.h"

namespace cairn::cli {

// The endpoints where a service of the data directory listens now and that LD-1 allows; the best first.
std::vector<Endpoint> find_daemon(const std::string& data, std::string_view service);
// Whether a service of the data directory listens there, so that its capability may be sent there.
bool is_daemon(const std::string& data, const Endpoint& endpoint);

}  // namespace cairn::cli
