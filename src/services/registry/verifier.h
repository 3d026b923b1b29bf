// Verifier: verifies the whole chain again, in slices, trusting only the registry's roots.
#pragma once

#include <memory>
#include <optional>

#include "format/chain_verifier.h"
#include "io/machine.h"
#include "observe/log.h"
#include "services/registry/newest.h"
#include "services/registry/port.h"

namespace cairn::registry {

class Verifier {
 public:
  // `port` is of this shard. All outlive it.
  Verifier(Registry& registry, io::Machine& machine, observe::Logger log, Port& port, Newest& newest) noexcept
      : registry_(registry), machine_(machine), log_(log), port_(port), newest_(newest) {}

  // The task, until its call is stopped.
  Task<> run(Call call);
  // Verifies at most `most` further versions; true: it has reached the head. Cancel: clean.
  Task<Result<bool>> verify_some(Call call, std::uint64_t most);
  // How many versions this pass has verified.
  std::uint64_t verified() const noexcept { return deep_ ? deep_->size() : 0; }

 private:
  Task<bool> caught_up(Call call);
  std::uint64_t slice() const noexcept;
  Task<Result<std::unique_ptr<format::ChainVerifier>>> resume_verifier(Call call, std::uint64_t version);

  Registry& registry_;
  io::Machine& machine_;
  observe::Logger log_;
  Port& port_;
  Newest& newest_;
  std::unique_ptr<format::ChainVerifier> deep_;
  std::optional<std::uint64_t> deep_from_;  // where to go on; none: where a checkpoint says
};

}  // namespace cairn::registry
