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

// An answer whose head is there.
class Arriving {
 public:
  explicit Arriving(Answer answer) : head(std::move(answer)) {}
  virtual ~Arriving() = default;
  Arriving(const Arriving&) = delete;
  Arriving& operator=(const Arriving&) = delete;
  // The next bytes of the body; none at its end.
  virtual Task<Result<std::string>> next(Call call) = 0;

  const Answer head;
};

class H2Link;

class Caller {
 public:
  Caller(Scenario& scenario, io::Machine machine, unsigned number, std::uint64_t seed);
  virtual ~Caller() = default;
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;
  Task<> live(Call call);
  // Before its life: who keeps what it asks for behind the one that it asks, over which connection it asks
  // (null: one of its own, by HTTP/1), and what it asks for more and less often. They outlive it.
  void go_through(Server& keeper, H2Link* link, const std::vector<std::uint32_t>& weights) noexcept {
    keeper_ = &keeper;
    link_ = link;
    weights_ = &weights;
  }

 protected:
  // Asks for something.
  virtual Task<> visit(Call call) = 0;
  // After the healing: one step towards being served by this node; empty: done, else why not.
  virtual unsigned converge_steps() const noexcept = 0;
  virtual Task<std::string> converge_with(Call call, Server& server, unsigned step) = 0;

  io::Endpoint endpoint_of(const Server& server) const {
    return {server.name(), server.port(), {}, scenario_.tls_client() != nullptr};
  }
  http::ClientRequest make(const Server& server, http::Method method, std::string target, std::uint32_t id);
  Task<Result<Answer>> ask(Call call, http::ClientRequest request);
  // The same, without waiting for the body. What it gives does not outlive the client.
  Task<Result<std::unique_ptr<Arriving>>> begin(Call call, http::ClientRequest request);
  // The rest of it. `arriving` outlives the call.
  static Task<Result<Answer>> finish(Call call, Arriving* arriving);
  // Who keeps what that server is asked for.
  Server& keeper(Server& asked) const noexcept { return keeper_ != nullptr ? *keeper_ : asked; }
  const Server& keeper(const Server& asked) const noexcept { return keeper_ != nullptr ? *keeper_ : asked; }
  // Its service takes no changes any more until somebody starts it again.
  static bool is_fenced(const Answer& answer) noexcept;
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
  Server& pick_server() { return *scenario_.servers()[below(scenario_.doors())]; }
  Instant now() const noexcept { return machine_.shard.now(); }

  Scenario& scenario_;
  io::Machine machine_;
  unsigned number_;
  Random random_;
  std::unique_ptr<http::Client> client_;

 private:
  Task<> converge(Call call);
  // Connections that were made before are left.
  void renew(Instant since);

  Server* keeper_ = nullptr;
  H2Link* link_ = nullptr;
  const std::vector<std::uint32_t>* weights_;
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
