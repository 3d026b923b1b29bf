// Health: named gates that decide whether reads and writes are served.
//
// Gates are opened and closed by their owners on any shard; readiness is computed when asked. Writes become
// unready first: a read needs only the gates that reads depend on, a write needs those and its own. A gate
// that neither needs is only shown: while it is closed the service is degraded.
#pragma once

#include <array>
#include <atomic>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/declaration.h"

namespace cairn::serve {

struct GateDeclaration {
  std::string_view name;
  bool reads = true;   // false: only writes need it
  bool writes = true;  // false: neither needs it
};

struct Readiness {
  bool ready = false;        // reads are served
  bool write_ready = false;  // writes too
  bool degraded = false;     // something is missing or shed, though reads are served
  std::vector<std::string_view> missing;
};

class Health {
 public:
  static constexpr std::size_t gates_max = 32;

  explicit Health(std::vector<GateDeclaration> gates);

  // Gates are closed until opened. The name must be declared.
  void set(std::string_view gate, bool open) noexcept;
  // A task stays down: closes the gate `tasks` or `background`, by its criticality.
  void task_stays_down(Criticality criticality) noexcept;
  void set_draining() noexcept { draining_.store(true, std::memory_order_relaxed); }
  bool draining() const noexcept { return draining_.load(std::memory_order_relaxed); }
  Readiness check() const;

 private:
  std::vector<GateDeclaration> gates_;
  std::array<std::atomic<bool>, gates_max> open_{};
  std::atomic<bool> draining_{false};
};

// {"ready","write_ready","degraded","missing":[…],"retry_after"?}
void write_readiness(const Readiness& readiness, std::string& out);

}  // namespace cairn::serve
