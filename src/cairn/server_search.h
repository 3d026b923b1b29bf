// Where the server of a verb may be, and what it is told.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/endpoint.h"
#include "cairn/command.h"
#include "client/transport.h"

namespace cairn::cli {

// A place where the server may be.
struct Candidate {
  Endpoint endpoint;
  std::string named;              // its name in messages
  std::string_view service = {};  // the data directory's service; empty: a guess, or given by name
};

struct Search {
  std::vector<Candidate> candidates;
  bool told = false;  // by a flag or the environment: there and nowhere else
  bool own = false;   // by --data: only that directory's daemon
  std::optional<std::string> wrong;
};

// What the services of a search are called: `registry`, `index`, or `cairn` for those that have objects.
std::string_view name_of(Asks asks) noexcept;
// By --url and CAIRN_URL, and for verbs that ask the index by --index and CAIRN_INDEX before them; else the
// data directory's daemon; else the usual ports.
Search where_to_look(const Invocation& invocation, const std::string& data, Asks asks);
// The same for the index that a verb asks beside its server: by --index and CAIRN_INDEX; else the data
// directory's index; else its usual port.
Search where_the_index_is(const Invocation& invocation, const std::string& data);
// Whether --index or CAIRN_INDEX names the index.
bool tells_index(const Invocation& invocation);

// What is sent there: the token that may go to this server, and who vouches for it.
client::Outcome<client::TransportOptions> options_for(const Invocation& invocation, const std::string& data,
                                                      const Candidate& candidate);

// What to do about a certificate that was not accepted: the one integrity error before any answer. Empty: it
// is another failure.
std::string hint_of_certificate(const client::Failure& why);

// Whether the service has the routes of names.
bool has_names(std::string_view service) noexcept;

}  // namespace cairn::cli
