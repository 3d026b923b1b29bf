// IndexLink: the way to the index of a verb that asks another server too: objects come from storage, and the
// names that people call them by from the index.
//
// Most invocations name an object by its address and ask no index, so nothing is sent before the first
// connect(). A gateway has the index's routes: then it is asked, over the connections that the verb has.
#pragma once

#include <memory>
#include <string>

#include "cairn/command.h"
#include "client/index_client.h"
#include "io/machine.h"

namespace cairn::cli {

class IndexLink {
 public:
  // All outlive it. `server`: the verb's own server, if it has names and no other index is given; else null.
  IndexLink(io::Machine& machine, const Invocation& invocation, std::string data, client::Transport* server);
  ~IndexLink();
  IndexLink(const IndexLink&) = delete;
  IndexLink& operator=(const IndexLink&) = delete;

  // The index, which has answered at least once; it is looked for by the first call. The client lives as long
  // as the link. Cancel: partial — as close().
  Task<client::Outcome<client::IndexClient*>> connect(Call call);
  // Must be awaited before the link goes. Cancel: partial — as client::Transport::close.
  Task<> close(Call call);

 private:
  Task<client::Outcome<>> search(Call call);

  io::Machine& machine_;
  const Invocation& invocation_;
  std::string data_;
  std::unique_ptr<client::Transport> own_;  // to an index that is not the verb's server
  std::unique_ptr<client::IndexClient> client_;
};

}  // namespace cairn::cli
