// GatewayScenario: worlds of a gateway, of the storage and the registry behind it, and of tenants that ask
// both through it, by HTTP/1.1 and HTTP/2, and by TLS in one seed of ten. Wires between all of them are cut,
// and each of them crashes.
//   [GS-1] No wrong byte with a right end: what storage and the registry promise (SS-1 to SS-3, RS-1 to RS-4)
//         holds through the gateway.
//   [GS-2] A request that was read is answered, or its connection ends, by its deadline. A client that waits
//         in good times does not wait in vain.
//   [GS-3] What may not be repeated is passed on once at most.
//   [GS-4] After the faults the breakers close, nothing is shed any more, and everybody is served.
//   [GS-5] A gateway with nothing to do holds nothing: no turn, no place in a queue, nothing in flight.
#pragma once

#include <memory>
#include <vector>

#include "io/tls_context.h"
#include "registry_scenario.h"
#include "serve/authorizer.h"
#include "services/gateway/service.h"
#include "storage_scenario.h"

namespace cairn::simulator {

class H2Link;

class GatewayScenario final : public Scenario, public Holdings, public Governance {
 public:
  GatewayScenario(std::uint64_t seed, Options options, io::sim::Probes& probes);

  enum Place : unsigned { gateway_place, storage_place, registry_place, places };

  std::unique_ptr<serve::Service> make_service(Server& server) override;
  const config::ServerKeys& server_keys(unsigned server) const noexcept override;
  config::SnapshotPtr load(unsigned server, const Limits& limits, std::uint64_t version) const override;
  void add_client(io::sim::Node& machine, unsigned number, std::uint64_t seed) override;
  void healed() override;
  void settle() override;
  void audit() override { audit_directory(*this, *servers()[registry_place]); }
  bool may_fail_to_start() const noexcept override { return phase() == Phase::faults; }
  Duration overrun() const noexcept override { return Duration::millis(100); }
  bool may_have_forgotten(const Server&) const noexcept override { return false; }
  bool ranges_may_be_whole() const noexcept override { return verifies_; }

  std::size_t doors() const noexcept override { return 1; }
  std::vector<serve::PeerTarget> peers(const Server& server) override;
  serve::Access access(const Server& server) override;
  void prepare(const Server& server, serve::Node& node, unsigned shard) override;
  Limits draw_reload(const Server& server, Random& random) const override;
  void dress(http::ClientRequest& request, unsigned client) override;
  std::shared_ptr<const io::TlsClient> tls_client() override { return tls_client_; }
  bool explains(const Request& request, const Answer& answer) override;
  std::string find_ill(const Server& keeper) override;
  Duration answers_within() const noexcept override;
  std::string find_left(const Server& server, serve::Node& node, bool ended) override;
  unsigned life_behind(unsigned) const noexcept override;

 private:
  static constexpr std::uint16_t h2_port = 443;

  void draw_settings(Random& random);

  bool verifies_ = true;
  std::vector<config::Setting> settings_;
  std::vector<std::uint32_t> storage_weights_, registry_weights_;
  std::shared_ptr<const io::TlsServer> tls_server_;
  std::shared_ptr<const io::TlsClient> tls_client_, tls_client_h2_;
  serve::KeySnapshotPtr root_keys_;
  std::vector<std::string> tokens_;  // of the tenants; empty: known by the address
  // Of each machine with clients that speak HTTP/2, in its present life.
  std::vector<std::pair<std::uint32_t, H2Link*>> links_;
};

}  // namespace cairn::simulator
