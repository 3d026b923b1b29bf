// Naming: what the verbs that set and show names share.
#pragma once

#include <optional>
#include <string>

#include "cairn/session.h"
#include "client/index_client.h"

namespace cairn::cli {

// The change that --note, --if-match and --new ask for; where it leads is left open. `invalid`: the command
// line is wrong.
client::Outcome<client::SetName> read_wish(const Invocation& invocation, std::string name);
// The number of --if-match, if it is given.
client::Outcome<std::optional<std::uint64_t>> read_if_match(const Invocation& invocation);

// Lets the name lead to the object. `manifest`: the object's bytes, if it is one that the index can keep too;
// else empty. Cancel: partial — the server may have acted.
Task<client::Outcome<client::NameSet>> set_name(Call call, Session* session, client::SetName wish,
                                                std::string manifest);

}  // namespace cairn::cli
