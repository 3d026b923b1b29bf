// The scenarios there are. The first is what is run when nobody says otherwise.
#include "demo_scenario.h"
#include "gateway_scenario.h"
#include "registry_scenario.h"
#include "storage_scenario.h"

namespace cairn::simulator {
namespace {

template <class T>
std::unique_ptr<Scenario> make(std::uint64_t seed, Options options, io::sim::Probes& probes) {
  return std::make_unique<T>(seed, options, probes);
}

constexpr std::string_view demo_not_used[] = {"pool.full", "pool.commit_refused", "pool.room_told",
                                              "pool.withdrawn"};

constexpr std::string_view storage_not_used[] = {"disk.misdirected_read", "disk.misdirected_write",
                                                 "disk.stale_read"};

constexpr std::string_view registry_not_used[] = {
    "pool.full", "pool.commit_refused",   "pool.room_told",         "pool.withdrawn",
    "disk.rot",  "disk.misdirected_read", "disk.misdirected_write", "disk.stale_read"};

constexpr std::string_view gateway_not_used[] = {
    "pool.full", "pool.commit_refused",   "pool.room_told",         "pool.withdrawn",
    "disk.rot",  "disk.misdirected_read", "disk.misdirected_write", "disk.stale_read"};

constexpr Kind all[] = {
    {"demo", "the demo service: everything that services share", make<DemoScenario>, 20, 100, demo_not_used},
    {"storage", "the storage service: what was acknowledged is there, byte for byte", make<StorageScenario>,
     5, 50, storage_not_used},
    {"registry", "the registry service: one commit per version, told to everybody", make<RegistryScenario>, 5,
     50, registry_not_used},
    {"gateway", "the gateway before storage and registry: what they promise holds through it",
     make<GatewayScenario>, 5, 20, gateway_not_used},
};

}  // namespace

std::span<const Kind> kinds() { return all; }

const Kind* find_kind(std::string_view name) {
  for (const Kind& kind : all)
    if (kind.name == name) return &kind;
  return nullptr;
}

}  // namespace cairn::simulator
