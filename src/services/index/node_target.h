// NodeTarget: another index node, as a target of a lookup. It is asked for the signed records that it has
// itself (`scope=local`) and never asks further, so that no question goes in circles.
#pragma once

#include "serve/peers.h"
#include "services/index/members.h"
#include "services/index/target.h"

namespace cairn::index {

class NodeTarget final : public Target {
 public:
  // `machine` outlives it. `tls`: who vouches for nodes at https://.
  NodeTarget(io::Machine& machine, const IndexNode& node, std::shared_ptr<const io::TlsClient> tls);

  Task<Result<Answer>> ask(Call call, Question question) override;
  // Closes the connections. Cancel: partial — idle connections are closed.
  Task<> close(Call call) { return peer_.close(call); }

 private:
  serve::Peer peer_;
};

// The answer to scope=local. Strangers' bytes: `upstream` when they are no such answer.
Result<Answer> read_records(const Question& question, std::string_view document);

}  // namespace cairn::index
