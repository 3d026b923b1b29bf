// crash_index: see run_suite().
#include "crash/index/suite.h"

int main(int count, char** arguments) {
  using namespace cairn::crash;  // NOLINT(google-build-using-namespace): this program is that suite
  Settings settings;
  settings.most = 130'000;
  settings.length = 4;
  settings.tears = 2;
  settings.sequences = 1000;
  return run_suite(count, arguments, "crash_index", settings,
                   {{"failures", explore_name_failures},
                    {"sequences", explore_name_sequences},
                    {"kills", explore_name_kills},
                    {"states", explore_name_words}},
                   [](const std::string& word, const Settings& asked, Totals& totals) {
                     return explore_name_word(asked, word, totals);
                   });
}
