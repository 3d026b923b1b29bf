#include <fmt/format.h>

#include <map>

#include "crash/suite.h"

namespace cairn::crash {
namespace {

// One reopener for each kind of options: making a world costs more than opening a store in it.
class Reopeners {
 public:
  explicit Reopeners(const Universe& universe) : universe_(universe) {}
  Reopener& get(const store::StoreOptions& options) {
    auto& one = by_segment_[options.segment_size];
    if (!one) one = std::make_unique<Reopener>(universe_, options);
    return *one;
  }
  Counts counts() const {
    Counts sum;
    for (const auto& [size, one] : by_segment_) sum += one->counts;
    return sum;
  }

 private:
  const Universe& universe_;
  std::map<std::uint64_t, std::unique_ptr<Reopener>> by_segment_;
};

std::optional<Found> explore(const Universe& universe, const Settings& settings, std::string_view word,
                             bool whole, Reopeners& reopeners, Totals& totals) {
  ++totals.words;
  Workload workload(universe, options_for(word));
  const auto told = [&](Finding finding) { return Found{std::move(finding), "word:" + std::string(word)}; };
  if (whole || word.empty()) workload.record();
  if (auto finding = workload.open()) return told(*finding);
  for (std::size_t i = 0; i < word.size(); ++i) {
    if (i + 1 == word.size()) workload.record();
    if (auto finding = workload.step(word[i])) return told(*finding);
  }
  workload.close();
  Reopener& reopener = reopeners.get(options_for(word));
  for (const Moment& moment : workload.moments())
    if (auto finding = check_moment(moment, settings, reopener, totals)) return told(*finding);
  totals.counts = reopeners.counts();
  return std::nullopt;
}

}  // namespace

std::optional<Found> explore_word(const Universe& universe, const Settings& settings, std::string_view word,
                                  bool whole, Totals& totals) {
  Reopeners reopeners(universe);
  return explore(universe, settings, word, whole, reopeners, totals);
}

std::optional<Found> explore_kills(const Universe& universe, const Settings& settings, Totals& totals) {
  Reopeners reopeners(universe);
  for (const std::string_view word : {"", "a", "ar", "bk"})
    for (std::uint32_t steps = 0; steps < 60; ++steps) {
      const auto told = [&](Finding finding) {
        return Found{std::move(finding), fmt::format("kill:{}:{}", word, steps)};
      };
      Workload workload(universe, options_for(word));
      if (auto finding = workload.open()) return told(*finding);
      for (const char letter : word)
        if (auto finding = workload.step(letter)) return told(*finding);
      if (auto finding = workload.kill_putting(steps)) return told(*finding);
      if (auto finding = workload.open()) return told(*finding);
      workload.record();
      if (auto finding = workload.step('b')) return told(*finding);
      // What is on the disk after the answer, also when nothing had to be written for it.
      const Moment last{workload.store().disk().snapshot(), workload.expected()};
      workload.close();
      Reopener& reopener = reopeners.get(options_for(word));
      for (const Moment& moment : workload.moments())
        if (auto finding = check_moment(moment, settings, reopener, totals)) return told(*finding);
      if (auto finding = check_moment(last, settings, reopener, totals)) return told(*finding);
    }
  return std::nullopt;
}

std::optional<Found> explore_words(const Universe& universe, const Settings& settings, Totals& totals) {
  Reopeners reopeners(universe);
  return each_word(alphabet, settings, totals, [&](const std::string& word) {
    return explore(universe, settings, word, false, reopeners, totals);
  });
}

}  // namespace cairn::crash
