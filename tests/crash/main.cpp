// crash [--soak] [--quick] [--word W] [--most N] [--length N] [--phase failures|sequences|kills|states]
// [--seed N]
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "crash/suite.h"

namespace {

using namespace cairn::crash;  // NOLINT(google-build-using-namespace): this program is that suite

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

int end_with(const Found& found) {
  fmt::print("FOUND in {}: oracle {}: {}\n", found.where, found.finding.oracle, found.finding.detail);
  std::fflush(stdout);
  std::_Exit(1);  // what was found may have left tasks that cannot be ended
}

}  // namespace

int main(int count, char** arguments) {
  Settings settings;
  settings.most = 250'000;
  std::string word, phase;
  std::size_t failure_length = 2;
  bool one_word = false;
  for (int i = 1; i < count; ++i) {
    const std::string_view argument = arguments[i];
    const auto next = [&] { return i + 1 < count ? arguments[++i] : "0"; };
    if (argument == "--soak") {
      settings.most = 2'500'000;
      settings.length = 4;
      settings.exhaustive = 6;
      settings.random = 32;
      settings.sequences = 30000;
      failure_length = 3;
    } else if (argument == "--quick") {
      settings.length = 2;
      settings.most = 15'000;
      settings.sequences = 300;
      failure_length = 1;
    } else if (argument == "--word") {
      word = next();
      one_word = true;
    } else if (argument == "--most") {
      settings.most = std::strtoull(next(), nullptr, 10);
    } else if (argument == "--length") {
      settings.length = std::strtoull(next(), nullptr, 10);
    } else if (argument == "--seed") {
      settings.seed = std::strtoull(next(), nullptr, 10);
    } else if (argument == "--phase") {
      phase = next();
    } else {
      fmt::print(stderr, "crash: what is {}?\n", argument);
      return 2;
    }
  }
  const Universe universe;
  Totals totals;
  const auto start = std::chrono::steady_clock::now();
  double states_seconds = 0;
  if (one_word) {
    if (auto found = explore_word(universe, settings, word, true, totals)) return end_with(*found);
  } else {
    if (phase.empty() || phase == "failures")
      if (auto found = explore_failures(universe, settings, failure_length, totals)) return end_with(*found);
    if (phase.empty() || phase == "sequences")
      if (auto found = explore_sequences(universe, settings, totals)) return end_with(*found);
    if (phase.empty() || phase == "kills")
      if (auto found = explore_kills(universe, settings, totals)) return end_with(*found);
    const auto states_start = std::chrono::steady_clock::now();
    if (phase.empty() || phase == "states")
      if (auto found = explore_words(universe, settings, totals)) return end_with(*found);
    states_seconds = seconds_since(states_start);
  }
  fmt::print(
      "crash: {} distinct states ({} checked, {} stores opened, {} rebuilt, {} continued, {} inside a "
      "recovery) "
      "of {} moments in {} words, {:.0f} states/s; {} runs with a failing call; {} sequences; {:.0f} s\n",
      totals.images.size(), totals.checked.size(), totals.counts.reopened, totals.counts.rebuilt,
      totals.counts.continued, totals.counts.again, totals.moments, totals.words,
      totals.words > 0 && states_seconds > 0 ? static_cast<double>(totals.images.size()) / states_seconds
                                             : 0.0,
      totals.failures, totals.sequences, seconds_since(start));
  return 0;
}
