// crash: see run_suite().
#include "crash/suite.h"

int main(int count, char** arguments) {
  using namespace cairn::crash;  // NOLINT(google-build-using-namespace): this program is that suite
  const Universe universe;
  Settings settings;
  settings.most = 250'000;
  const auto with = [&](auto phase) {
    return
        [&universe, phase](const Settings& asked, Totals& totals) { return phase(universe, asked, totals); };
  };
  return run_suite(count, arguments, "crash", settings,
                   {{"failures", with(explore_failures)},
                    {"sequences", with(explore_sequences)},
                    {"kills", with(explore_kills)},
                    {"states", with(explore_words)}},
                   [&](const std::string& word, const Settings& asked, Totals& totals) {
                     return explore_word(universe, asked, word, true, totals);
                   });
}
