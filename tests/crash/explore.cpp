#include "crash/explore.h"

#include <fmt/format.h>
#include <rapidcheck.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

namespace cairn::crash {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

[[noreturn]] void end_with(const Found& found) {
  fmt::print("FOUND in {}: oracle {}: {}\n", found.where, found.finding.oracle, found.finding.detail);
  std::fflush(stdout);
  std::_Exit(1);  // what was found may have left tasks that cannot be ended
}

}  // namespace

std::vector<std::string> words_up_to(std::string_view alphabet, std::size_t length) {
  std::vector<std::string> words{""}, all;
  for (std::size_t i = 0; i < length; ++i) {
    std::vector<std::string> longer;
    for (const std::string& word : words)
      for (const char letter : alphabet) longer.push_back(word + letter);
    words = std::move(longer);
    all.insert(all.end(), words.begin(), words.end());
  }
  return all;
}

std::string describe(const Fault& fault) {
  return fmt::format("call{}#{}:{}{}", static_cast<int>(fault.call), fault.nth, static_cast<int>(fault.how),
                     fault.sticky ? ":sticky" : "");
}

std::optional<Found> explore_random(
    std::string_view letters, const Settings& settings, Totals& totals,
    const std::function<std::optional<Finding>(const std::string& word, std::uint64_t seed)>& run) {
  std::optional<Found> last;
  rc::detail::TestParams params;
  params.seed = settings.seed;
  params.maxSuccess = static_cast<int>(settings.sequences);
  params.maxSize = 60;
  rc::detail::TestMetadata metadata;
  const auto result = rc::detail::checkTestable(
      [&](const std::vector<unsigned>& numbers, std::uint64_t any) {
        std::string word;
        for (const unsigned number : numbers) word += letters[number % letters.size()];
        const std::uint64_t seed = any % 1000 + 1;
        ++totals.sequences;
        const auto finding = run(word, seed);
        if (finding) last = Found{*finding, fmt::format("sequence:{}:seed{}", word, seed)};
        RC_ASSERT(!finding);
      },
      metadata, params);
  (void)result;
  return last;
}

int run_suite(int count, char** arguments, const char* name, Settings settings,
              const std::vector<Phase>& phases,
              const std::function<std::optional<Found>(const std::string& word, const Settings& settings,
                                                       Totals& totals)>& word) {
  std::string one_word, only;
  bool has_word = false;
  for (int i = 1; i < count; ++i) {
    const std::string_view argument = arguments[i];
    const auto next = [&] { return i + 1 < count ? arguments[++i] : "0"; };
    if (argument == "--soak") {
      settings.most *= 10;
      settings.length = 4;
      settings.exhaustive = 6;
      settings.random = 32;
      settings.sequences *= 10;
      settings.failure_length = 3;
    } else if (argument == "--quick") {
      settings.length = 2;
      settings.most /= 16;
      settings.sequences /= 10;
      settings.failure_length = 1;
      settings.quick = true;
    } else if (argument == "--word") {
      one_word = next();
      has_word = true;
    } else if (argument == "--most") {
      settings.most = std::strtoull(next(), nullptr, 10);
    } else if (argument == "--length") {
      settings.length = std::strtoull(next(), nullptr, 10);
    } else if (argument == "--seed") {
      settings.seed = std::strtoull(next(), nullptr, 10);
    } else if (argument == "--phase") {
      only = next();
    } else {
      fmt::print(stderr, "{}: what is {}?\n", name, argument);
      return 2;
    }
  }
  Totals totals;
  const auto start = std::chrono::steady_clock::now();
  double states_seconds = 0;
  if (has_word) {
    if (auto found = word(one_word, settings, totals)) end_with(*found);
  } else {
    for (const Phase& phase : phases) {
      if (!only.empty() && only != phase.name) continue;
      const auto phase_start = std::chrono::steady_clock::now();
      if (auto found = phase.run(settings, totals)) end_with(*found);
      if (std::string_view(phase.name) == "states") states_seconds = seconds_since(phase_start);
    }
  }
  const Counts& counts = totals.counts;
  fmt::print(
      "{}: {} distinct states ({} checked, {} opened, {} rebuilt, {} continued, {} inside a recovery) of {} "
      "moments in {} words, {:.0f} states/s; {} runs with a failing call; {} sequences; {:.0f} s\n",
      name, totals.images.size(), totals.checked.size(), counts.reopened, counts.rebuilt, counts.continued,
      counts.again, totals.moments, totals.words,
      totals.words > 0 && states_seconds > 0 ? static_cast<double>(totals.images.size()) / states_seconds
                                             : 0.0,
      totals.failures, totals.sequences, seconds_since(start));
  return 0;
}

}  // namespace cairn::crash
