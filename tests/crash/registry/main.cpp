// crash_registry: see run_suite().
#include "crash/registry/suite.h"

int main(int count, char** arguments) {
  using namespace cairn::crash;  // NOLINT(google-build-using-namespace): this program is that suite
  // One signer where states are many; two where there is time for them.
  const Founding one(1, {1}, 4), two(2, {1, 2, 3}, 4);
  Settings settings;
  settings.most = 201'000;
  settings.length = 4;
  settings.tears = 3;
  settings.rebuild_every = 16;
  settings.continue_every = 64;
  settings.sequences = 300;
  const auto with = [](const Founding& founding, auto phase) {
    return
        [&founding, phase](const Settings& asked, Totals& totals) { return phase(founding, asked, totals); };
  };
  return run_suite(count, arguments, "crash_registry", settings,
                   {{"failures", with(one, explore_failures)},
                    {"sequences", with(two, explore_sequences)},
                    {"kills", with(two, explore_kills)},
                    {"states", with(one, explore_words)}},
                   [&](const std::string& word, const Settings& asked, Totals& totals) {
                     return explore_word(one, asked, word, totals);
                   });
}
