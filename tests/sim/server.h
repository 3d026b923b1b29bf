// Server: one node of the world through its lives: booted, reloaded, drained, crashed; and what must hold of
// it, whatever its service is.
//   [SV-1] Never more in flight, queued or connected than the configuration allows (plus the 16 connections
//         kept for health); lowered limits evict nobody.
//   [SV-2] A drain ends in time. Afterwards no task, no connection and no buffer is left.
//   [SV-3] No request is under way longer than its deadline allows, where its service promises that.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "config/snapshot.h"
#include "io/sim/world.h"
#include "plan.h"
#include "serve/service.h"

namespace cairn::simulator {

class Scenario;

class Server {
 public:
  Server(Scenario& scenario, unsigned number, unsigned shards, const Limits& limits);
  ~Server();
  void start();  // adds the node to the world

  const std::string& name() const noexcept { return name_; }
  unsigned number() const noexcept { return number_; }
  std::uint16_t port() const noexcept { return port_; }
  static constexpr std::uint16_t health_port = 9;
  io::sim::Node& node() noexcept { return *node_; }
  bool up() const noexcept { return life_ != nullptr; }
  bool draining() const noexcept;
  Instant last_drain() const noexcept { return last_drain_; }
  Instant last_abort() const noexcept { return last_abort_; }
  // It was still starting at some time since then.
  bool was_starting(Instant since) const noexcept { return serving_since_ >= since; }
  std::string describe() const;
  // What it holds now; empty: nothing is in flight, nothing waits, and nothing of its service's own is left.
  std::string find_left();
  std::string metrics_text() const;
  // Of one of its shards, while it is up; nullptr: its requests wait in the usual queue.
  const Turnstile* turnstile() const noexcept { return turnstile_; }

  void drain();          // the first signal
  void second_signal();  // aborts
  void reload(const Limits& limits);
  void rebind();  // to another port
  void crash(io::sim::Crash how);
  void restart();  // unless it is up, or the end has come
  // After the end: the machine runs this instead of its service.
  void inspect(std::function<void(io::sim::Node&)> program);
  void check_bounds();
  // For the time of a pause, nothing is promised about time.
  void disturbed() noexcept;

  // Over all configurations it had.
  const Limits& least() const noexcept { return least_; }
  const Limits& most() const noexcept { return most_; }
  unsigned lives() const noexcept { return lives_; }

  // --- from the audited service
  void seen(const serve::Request& asked);
  void started(const serve::Request& asked);
  void ended(const serve::Request& asked, const Result<>& outcome);
  // A part of a request's way has ended: in time?
  void clock(const serve::Request& request, const char* what);

 private:
  struct Life;
  class AuditedService;
  class AuditedShard;
  friend struct Life;

  void boot(io::sim::Node& node);
  void drained();  // the process has ended by itself
  void could_not_start(const Error& why);
  void remember(const Limits& limits);

  Scenario& scenario_;
  unsigned number_;
  unsigned shards_;
  std::string name_;
  Limits limits_;
  Limits least_, most_;
  std::uint64_t versions_ = 0;
  std::uint16_t port_ = 80;
  io::sim::Node* node_ = nullptr;
  Life* life_ = nullptr;
  const Turnstile* turnstile_ = nullptr;
  std::function<void(io::sim::Node&)> inspection_;
  unsigned lives_ = 0;
  Instant last_drain_{-1}, last_abort_{-1};
  Instant serving_since_ = Instant::never();
};

}  // namespace cairn::simulator
