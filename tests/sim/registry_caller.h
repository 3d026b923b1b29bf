// RegistryCaller: one of those who govern a registry, and read and follow it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "caller.h"
#include "registry_scenario.h"

namespace cairn::simulator {

class RegistryCaller final : public Caller {
 public:
  static constexpr std::uint32_t usual_visits[] = {20, 8, 8, 8, 10, 10, 4, 6, 4, 3, 3};

  RegistryCaller(Scenario& scenario, Governance& governance, io::Machine machine, unsigned number,
                 std::uint64_t seed)
      : Caller(scenario, machine, number, seed), registry_(governance) {}

 private:
  static constexpr unsigned steps = 3;
  Task<> visit(Call call) override;
  unsigned converge_steps() const noexcept override { return steps; }
  Task<std::string> converge_with(Call call, Server& server, unsigned step) override;

  // --- registry_caller.cpp: changes
  // From a proposal to its commit; empty: committed, else where it ended.
  Task<std::string> govern(Call call, Server& server);
  Task<> help(Call call, Server& server);
  Task<> repeat(Call call, Server& server);
  Task<> forge(Call call, Server& server);
  Task<std::optional<client::RegistryProposal>> propose(Call call, Server& server, bool supersede);
  // Whether it counts now.
  Task<bool> approve(Call call, Server& server, client::RegistryProposal proposal, unsigned signer);
  // `approved`: by enough, as the answers say.
  Task<bool> commit(Call call, Server& server, client::RegistryProposal proposal, bool approved,
                    bool supersede);
  // --- registry_reads.cpp
  Task<> read_head(Call call, Server& server);
  Task<> poll(Call call, Server& server);
  Task<> follow(Call call, Server& server);
  Task<> read_version(Call call, Server& server);
  Task<> read_log(Call call, Server& server, std::uint64_t from);
  Task<> read_checkpoint(Call call, Server& server);
  Task<> prove(Call call, Server& server);

  // A head that this client was told; false: it does not fit what was told before, and was complained of.
  bool told(std::uint32_t id, const client::RegistryHead& head);
  bool told(std::uint32_t id, std::string_view json, client::RegistryHead& head);
  // It is the newest one, as far as anybody could know when the request was made.
  void must_be_newest(std::uint32_t id, std::uint64_t version);
  struct Asked {
    std::uint32_t id = 0;
    Result<Answer> answer = fail(ErrorCode::internal, "not asked");
    bool fine = false;
  };
  Task<Asked> tell(Call call, Server& server, std::string target, std::string body,
                   std::initializer_list<int> statuses);

  Governance& registry_;
  std::vector<client::RegistryProposal> committed_;  // a few of its own
  unsigned next_region_ = 0;
  std::optional<std::uint64_t> seen_;  // the newest version that a stream showed it
};

}  // namespace cairn::simulator
