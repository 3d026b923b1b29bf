// Visitor: a client that asks one thing after another and judges every answer.
#pragma once

#include <array>
#include <initializer_list>
#include <memory>
#include <string>

#include "answer.h"
#include "http/client.h"
#include "scenario.h"
#include "wire.h"

namespace cairn::simulator {

// What an answer may be, beyond what every request may meet.
struct Expected {
  std::initializer_list<int> statuses;
  bool queued = false;      // goes through the work queue: 504 is possible
  bool reads_disk = false;  // 500 is possible
  bool bare = false;        // an error without the usual body
  bool admitted = true;     // goes through the limits: 429 is possible
  bool reserved = false;    // asks on one of the 16 connections for health, which others may hold
};

class Visitor {
 public:
  Visitor(Scenario& scenario, io::Machine machine, unsigned number, std::uint64_t seed);
  Task<> live(Call call);

 private:
  Task<> visit(Call call, Visit what);
  Task<> converge(Call call);
  // One step towards it; empty: done, else why not.
  static constexpr unsigned converge_steps = 4;
  Task<std::string> converge_with(Call call, Server& server, unsigned step);

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

  io::Endpoint endpoint_of(const Server& server) const { return {server.name(), server.port(), {}}; }
  http::ClientRequest make(const Server& server, http::Method method, std::string target, std::uint32_t id);
  std::string head_of(std::string_view line, std::string_view more, std::uint32_t id) const;
  Task<Result<Answer>> ask(Call call, http::ClientRequest request);
  // True when the answer is one of those the request itself may have, to be looked at further.
  bool judge(std::uint32_t id, Result<Answer>& answer, http::Method method, const Expected& expected);
  void judge_silence(std::uint32_t id, const Error& error, http::Method method);
  void complain(std::uint32_t id, const std::string& what);
  void hit(io::sim::Tag probe) { scenario_.hit(probe); }
  std::uint64_t below(std::uint64_t bound) { return random_.below(bound); }
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(high - low + 1)));
  }
  Server& pick_server() { return *scenario_.servers()[below(scenario_.servers().size())]; }
  Instant now() const noexcept { return machine_.shard.now(); }

  Scenario& scenario_;
  io::Machine machine_;
  unsigned number_;
  Random random_;
  std::unique_ptr<http::Client> client_;
};

// Text that does not compress, the same in every run.
std::string_view noise(std::size_t offset, std::size_t size);
inline constexpr std::size_t noise_size = 3u << 20;

}  // namespace cairn::simulator
