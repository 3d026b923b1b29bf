#include "serve/health.h"

#include "base/check.h"
#include "codec/json_writer.h"

namespace cairn::serve {

Health::Health(std::vector<GateDeclaration> gates) : gates_(std::move(gates)) {
  CHECK(gates_.size() <= gates_max);
}

void Health::set(std::string_view gate, bool open) noexcept {
  for (std::size_t i = 0; i < gates_.size(); ++i)
    if (gates_[i].name == gate) {
      open_[i].store(open, std::memory_order_relaxed);
      return;
    }
  CHECK(false && "an undeclared gate");
}

void Health::task_stays_down(Criticality criticality) noexcept {
  if (criticality == Criticality::essential) set("tasks", false);
  if (criticality == Criticality::degrading) set("background", false);
}

Readiness Health::check() const {
  Readiness result{.ready = !draining(), .write_ready = !draining(), .degraded = draining(), .missing = {}};
  if (draining()) result.missing.push_back("draining");
  for (std::size_t i = 0; i < gates_.size(); ++i) {
    if (open_[i].load(std::memory_order_relaxed)) continue;
    result.missing.push_back(gates_[i].name);
    if (gates_[i].writes) result.write_ready = false;
    result.degraded = true;
    if (gates_[i].reads) result.ready = false;
  }
  return result;
}

void write_readiness(const Readiness& readiness, std::string& out) {
  codec::JsonWriter json(out);
  json.begin_object();
  json.field("ready", readiness.ready)
      .field("write_ready", readiness.write_ready)
      .field("degraded", readiness.degraded);
  json.key("missing").begin_array();
  for (std::string_view gate : readiness.missing) json.value(gate);
  json.end_array();
  if (!readiness.ready) json.field("retry_after", 1);
  json.end_object().finish();
}

}  // namespace cairn::serve
