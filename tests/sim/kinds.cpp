// The scenarios there are. The first is what is run when nobody says otherwise.
#include "demo_scenario.h"

namespace cairn::simulator {
namespace {

template <class T>
std::unique_ptr<Scenario> make(std::uint64_t seed, Options options, io::sim::Probes& probes) {
  return std::make_unique<T>(seed, options, probes);
}

constexpr std::string_view demo_not_used[] = {"pool.full"};

constexpr Kind all[] = {
    {"demo", "the demo service: everything that services share", make<DemoScenario>, 20, 100, demo_not_used},
};

}  // namespace

std::span<const Kind> kinds() { return all; }

const Kind* find_kind(std::string_view name) {
  for (const Kind& kind : all)
    if (kind.name == name) return &kind;
  return nullptr;
}

}  // namespace cairn::simulator
