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

// What is known of a registry, whoever passes its requests on.
class Governance {
 public:
  explicit Governance(std::uint64_t seed);

  const registry::Founding& founding() const noexcept { return founding_; }
  Witness& witness() noexcept { return witness_; }
  bool prunes() const noexcept { return prunes_; }
  bool proposals_expire() const noexcept { return ttl_ < Duration::seconds(3600); }
  // The newest version that was told when the faults had ended.
  std::uint64_t healed_at();
  std::unique_ptr<serve::Service> make_registry(const Limits& limits) const;
  static const registry::Keys& keys();
  config::SnapshotPtr load_registry(const Limits& limits, std::uint64_t version) const;
  // After the end: what is on the server's disk.
  void audit_directory(Scenario& scenario, Server& server);

 private:
  const registry::Founding& founding_;
  Duration ttl_ = Duration::seconds(24 * 3600);
  bool prunes_ = false;
  std::int64_t channel_bound_ = 1024;
  std::uint64_t segment_size_ = 1u << 20;
  Witness witness_;
  std::optional<std::uint64_t> healed_at_;
};

class RegistryScenario final : public Scenario, public Governance {
 public:
  RegistryScenario(std::uint64_t seed, Options options, io::sim::Probes& probes);

  std::unique_ptr<serve::Service> make_service(Server& server) override;
  const config::ServerKeys& server_keys(unsigned) const noexcept override;
  config::SnapshotPtr load(unsigned, const Limits& limits, std::uint64_t version) const override;
  void add_client(io::sim::Node& machine, unsigned number, std::uint64_t seed) override;
  void healed() override;
  void settle() override;
  void audit() override { audit_directory(*this, *servers().front()); }
  bool may_fail_to_start() const noexcept override { return phase() == Phase::faults; }
  Duration overrun() const noexcept override { return Duration::millis(100); }
};

}  // namespace cairn::simulator
