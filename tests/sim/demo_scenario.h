// DemoScenario: worlds of demo nodes, which keep nothing but a file that is published again and again.
//   [DS-1] What was published durably survives a power cut, whole; nothing half-written is ever seen.
#pragma once

#include <vector>

#include "config/schema.h"
#include "demo/declarations.h"
#include "publisher.h"
#include "scenario.h"

namespace cairn::simulator {

class DemoScenario final : public Scenario {
 public:
  DemoScenario(std::uint64_t seed, Options options, io::sim::Probes& probes);

  std::unique_ptr<serve::Service> make_service(Server& server) override;
  const config::ServerKeys& server_keys(unsigned) const noexcept override;
  config::SnapshotPtr load(unsigned, const Limits& limits, std::uint64_t version) const override;
  void add_client(io::sim::Node& machine, unsigned number, std::uint64_t seed) override;
  void furnish(io::sim::SimDisk& disk) override;
  bool accompanied() const noexcept override { return plan().publish; }
  Task<> accompany(Call call, Server& server, io::Machine& machine) override;
  void look_at_disk(Server& server, bool power) override;

  Publication& publication(const Server& server) noexcept { return publications_[server.number()]; }

 private:
  std::vector<Publication> publications_;  // of each node
};

// The file that every node serves.
const std::string& served_file();

}  // namespace cairn::simulator
