// Visitor: a client of the demo: polite, and not.
#pragma once

#include <string>
#include <string_view>

#include "caller.h"
#include "demo_scenario.h"
#include "wire.h"

namespace cairn::simulator {

class Visitor final : public Caller {
 public:
  Visitor(DemoScenario& scenario, io::Machine machine, unsigned number, std::uint64_t seed)
      : Caller(scenario, machine, number, seed), demo_(scenario) {}

 private:
  static constexpr unsigned steps = 4;
  Task<> visit(Call call) override;
  unsigned converge_steps() const noexcept override { return steps; }
  Task<std::string> converge_with(Call call, Server& server, unsigned step) override;

  // --- by the pooled client (visitor.cpp)
  Task<> ask_memory(Call call, Server& server);
  Task<> ask_file(Call call, Server& server);
  Task<> ask_published(Call call, Server& server);
  Task<> ask_echo(Call call, Server& server);
  Task<> ask_job(Call call, Server& server);
  Task<> ask_stream(Call call, Server& server);
  Task<> ask_health(Call call, Server& server);
  Task<> ask_metrics(Call call, Server& server);
  Task<> ask_unknown(Call call, Server& server);
  Task<> ask_wrong_method(Call call, Server& server);
  Task<> abandon(Call call, Server& server);
  // --- byte by byte (rudeness.cpp)
  Task<> send_malformed(Call call, Server& server);
  Task<> send_slow_head(Call call, Server& server);
  Task<> send_slow_body(Call call, Server& server);
  Task<> send_pipeline(Call call, Server& server);
  Task<> send_expecting(Call call, Server& server);
  Task<> send_half_close(Call call, Server& server);
  Task<> send_nothing(Call call, Server& server);
  Task<> send_oversized(Call call, Server& server);
  Task<> send_flood(Call call, Server& server);
  Task<> send_old_version(Call call, Server& server);

  std::string head_of(std::string_view line, std::string_view more, std::uint32_t id) const;

  DemoScenario& demo_;
};

}  // namespace cairn::simulator
