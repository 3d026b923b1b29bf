// Long random sequences against the model, shrunk when one fails.
#include <fmt/format.h>
#include <rapidcheck.h>

#include "crash/suite.h"

namespace cairn::crash {
namespace {

// Letters of workload.h, and what only makes sense in a longer run.
constexpr std::string_view letters = "aaabbbzuvxcddeennmmrkkwyoqssKKK!!!";  // !: the power goes

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
  if (auto finding = reopener.check(image, workload.possible(), workload.tokens())) return finding;
  return reopener.check_rebuilt(image, workload.possible(), workload.tokens());
}

}  // namespace

std::optional<Found> explore_sequences(const Universe& universe, const Settings& settings, Totals& totals) {
  std::optional<Found> last;
  rc::detail::TestParams params;
  params.seed = settings.seed;
  params.maxSuccess = static_cast<int>(settings.sequences);
  params.maxSize = 60;
  rc::detail::TestMetadata metadata;
  const auto result = rc::detail::checkTestable(
      [&](const std::vector<unsigned>& numbers, std::uint64_t seed) {
        std::string word;
        for (const unsigned number : numbers) word += letters[number % letters.size()];
        ++totals.sequences;
        const auto finding = run(universe, word, seed % 1000 + 1);
        if (finding) last = Found{*finding, fmt::format("sequence:{}:seed{}", word, seed % 1000 + 1)};
        RC_ASSERT(!finding);
      },
      metadata, params);
  (void)result;
  return last;
}

}  // namespace cairn::crash
