// RegistryScenario: worlds of one registry node, of people who propose, approve and commit, and of followers.
//   [RS-1] What anybody was told is what everybody is told, after any crash (witness.h).
//   [RS-2] Followers see heads in rising order, without a gap unless they were told that they lag.
//   [RS-3] The directory verifies after the last end, and holds all that was told.
//   [RS-4] Commits go on once the faults have stopped.
#pragma once

#include <optional>

#include "scenario.h"
#include "services/registry/service.h"
#include "services/registry/simulated_registry.h"
#include "witness.h"

namespace cairn::simulator {

class RegistryScenario final : public Scenario {
 public:
  RegistryScenario(std::uint64_t seed, Options options, io::sim::Probes& probes);

  std::unique_ptr<serve::Service> make_service(Server& server) override;
  const config::ServerKeys& server_keys() const noexcept override;
  config::SnapshotPtr load(const Limits& limits, std::uint64_t version) const override;
  void add_client(io::sim::Node& machine, unsigned number, std::uint64_t seed) override;
  void healed() override;
  void settle() override;
  void audit() override;
  bool may_fail_to_start() const noexcept override { return phase() == Phase::faults; }
  Duration overrun() const noexcept override { return Duration::millis(100); }

  const registry::Founding& founding() const noexcept { return founding_; }
  Witness& witness() noexcept { return witness_; }
  bool prunes() const noexcept { return prunes_; }
  bool proposals_expire() const noexcept { return ttl_ < Duration::seconds(3600); }
  // The newest version that was told when the faults had ended.
  std::uint64_t healed_at();

 private:
  const registry::Founding& founding_;
  Duration ttl_ = Duration::seconds(24 * 3600);
  bool prunes_ = false;
  std::int64_t channel_bound_ = 1024;
  std::uint64_t segment_size_ = 1u << 20;
  Witness witness_;
  std::optional<std::uint64_t> healed_at_;
};

}  // namespace cairn::simulator
