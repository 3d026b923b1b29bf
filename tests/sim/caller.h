// Caller: a client of any service: asks one thing after another and judges of every answer what holds for all
// of them. What it asks, and what must come of it, is its kind's own.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>

#include "answer.h"
#include "http/client.h"
#include "scenario.h"

namespace cairn::simulator {

// What an answer may be, beyond what every request may meet.
struct Expected {
  std::initializer_list<int> statuses;
  bool queued = false;       // goes through the work queue: 504 is possible
  bool reads_disk = false;   // 500 is possible
  bool writes_disk = false;  // as is 507, and 503 when writes are fenced
  bool bare = false;         // an error without the usual body
  bool admitted = true;      // goes through the limits: 429 is possible
  bool reserved = false;     // asks on one of the 16 connections for health, which others may hold
};

class Caller {
 public:
  Caller(Scenario& scenario, io::Machine machine, unsigned number, std::uint64_t seed);
  virtual ~Caller() = default;
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;
  Task<> live(Call call);

 protected:
  // Asks for something.
  virtual Task<> visit(Call call) = 0;
  // After the healing: one step towards being served by this node; empty: done, else why not.
  virtual unsigned converge_steps() const noexcept = 0;
  virtual Task<std::string> converge_with(Call call, Server& server, unsigned step) = 0;

  io::Endpoint endpoint_of(const Server& server) const { return {server.name(), server.port(), {}}; }
  http::ClientRequest make(const Server& server, http::Method method, std::string target, std::uint32_t id);
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
  // Which of the plan's weights.
  std::size_t draw_visit();
  Server& pick_server() { return *scenario_.servers()[below(scenario_.servers().size())]; }
  Instant now() const noexcept { return machine_.shard.now(); }

  Scenario& scenario_;
  io::Machine machine_;
  unsigned number_;
  Random random_;
  std::unique_ptr<http::Client> client_;

 private:
  Task<> converge(Call call);
};

// A body in pieces, with a pause now and then.
class Pieces final : public io::BodySource {
 public:
  Pieces(Slab& slab, std::string text, std::uint64_t seed)
      : slab_(slab), text_(std::move(text)), random_(seed) {}
  Task<Result<io::Piece>> next(Call call) override;

 private:
  Slab& slab_;
  std::string text_;
  std::size_t at_ = 0;
  Random random_;
};

std::string gzip(std::string_view text);

// Text that does not compress, the same in every run.
std::string_view noise(std::size_t offset, std::size_t size);
inline constexpr std::size_t noise_size = 3u << 20;

}  // namespace cairn::simulator
