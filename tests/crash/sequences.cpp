// Long random sequences against the model.
#include "crash/suite.h"

namespace cairn::crash {
namespace {

// Letters of workload.h, and what only makes sense in a longer run.
constexpr std::string_view letters = "aaabbbzuvxcddeennmmrkkwyoqssiiKKK!!!";  // !: the power goes

std::optional<Finding> run(const Universe& universe, const std::string& word, std::uint64_t seed) {
  Workload workload(universe, options_for(""), seed);
  if (auto finding = workload.open()) return finding;
  for (const char letter : word) {
    if (letter != '!') {
      if (auto finding = workload.step(letter)) return finding;
      continue;
    }
    workload.store().stop();
    workload.store().forget_cached(universe.addresses);
    workload.store().disk().lose_unsynced();
    if (auto finding = workload.open()) return finding;
    if (auto finding = workload.look()) return finding;
  }
  workload.close();
  Reopener reopener(universe, options_for(""));
  io::sim::Image image = workload.store().disk().durable();
  image.prune([](std::uint64_t) { return false; });
  if (auto finding = reopener.check(image, workload.expected())) return finding;
  return reopener.check_rebuilt(image, workload.expected());
}

}  // namespace

std::optional<Found> explore_sequences(const Universe& universe, const Settings& settings, Totals& totals) {
  return explore_random(letters, settings, totals, [&](const std::string& word, std::uint64_t seed) {
    return run(universe, word, seed);
  });
}

}  // namespace cairn::crash
