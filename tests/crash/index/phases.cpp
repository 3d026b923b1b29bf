#include <fmt/format.h>

#include <array>

#include "crash/index/suite.h"

namespace cairn::crash {
namespace {

// One for each way to write: making a world costs more than opening a ledger in it.
class Reopeners {
 public:
  NamesReopener& get(bool ahead) { return all_.at(ahead ? 1 : 0); }
  Counts counts() const {
    Counts sum;
    for (const NamesReopener& one : all_) sum += one.counts;
    return sum;
  }

 private:
  std::array<NamesReopener, 2> all_{NamesReopener(false), NamesReopener(true)};
};

// Of a map that is written anew now and then, and of one that is with every batch.
constexpr store::LogKvOptions busy_map{.compact_above = 1500, .compact_factor = 2};
constexpr store::LogKvOptions restless_map{.compact_above = 1, .compact_factor = 1};

std::optional<Finding> run_all(NamesWorkload& workload, std::string_view word) {
  for (const char letter : word)
    if (auto finding = workload.step(letter)) return finding;
  return std::nullopt;
}

std::optional<Finding> check_moments(const NamesWorkload& workload, const Settings& settings,
                                     NamesReopener& reopener, Totals& totals) {
  for (const NamesMoment& moment : workload.moments())
    if (auto finding = check_moment(moment, settings, reopener, totals)) return finding;
  return std::nullopt;
}

std::optional<Found> explore(const Settings& settings, std::string_view word, bool whole,
                             Reopeners& reopeners, Totals& totals) {
  ++totals.words;
  const bool ahead = writes_ahead(word);
  NamesWorkload workload(ahead);
  const auto told = [&](Finding finding) { return Found{std::move(finding), "word:" + std::string(word)}; };
  if (whole || word.empty()) workload.record();
  if (auto finding = workload.open()) return told(*finding);
  for (std::size_t i = 0; i < word.size(); ++i) {
    if (i + 1 == word.size()) workload.record();
    if (auto finding = workload.step(word[i])) return told(*finding);
  }
  workload.close();
  if (auto finding = check_moments(workload, settings, reopeners.get(ahead), totals)) return told(*finding);
  return std::nullopt;
}

// --- failures

std::optional<Finding> run_fault(std::string_view word, const Fault& fault, bool at_opening,
                                 Reopeners& reopeners, bool& hit) {
  const bool ahead = writes_ahead(word);
  NamesWorkload workload(ahead, 1, restless_map);
  workload.tolerant = true;
  io::sim::SimDisk& disk = workload.place().disk();
  if (!at_opening)
    if (auto finding = workload.open()) return finding;
  const std::uint64_t before = disk.calls(fault.call);
  disk.fail_call(fault.call, fault.nth, fault.how, fault.sticky);
  if (at_opening)
    if (auto finding = workload.open()) return finding;
  if (auto finding = run_all(workload, word)) return finding;
  hit = disk.calls(fault.call) >= before + fault.nth;
  disk.heal();
  if (auto finding = workload.look_at_states()) return finding;
  workload.close();
  if (!hit) return std::nullopt;
  // What is in the page cache survives a killed process; a power cut leaves only what is durable, or all.
  NamesReopener& reopener = reopeners.get(ahead);
  for (const io::sim::Image* left : {&disk.view(), &disk.durable()}) {
    io::sim::Image image = *left;
    image.prune([](std::uint64_t) { return false; });
    if (auto finding = reopener.check(image, workload.expected())) return finding;
  }
  return reopener.check_continued(disk.durable(), workload.expected());
}

// --- sequences

// Letters of workload.h, and what only makes sense in a longer run.
constexpr std::string_view letters = "aaabbccCnnrreemmMgGwwyysooqqidKKK!!!";  // !: the power goes

std::optional<Finding> run_sequence(const std::string& word, std::uint64_t seed) {
  const bool ahead = writes_ahead(word);
  NamesWorkload workload(ahead, seed, seed % 2 == 0 ? busy_map : store::LogKvOptions{});
  if (auto finding = workload.open()) return finding;
  for (const char letter : word) {
    if (letter != '!') {
      if (auto finding = workload.step(letter)) return finding;
      continue;
    }
    workload.place().stop();
    workload.place().disk().lose_unsynced();
    if (auto finding = workload.open()) return finding;
    if (auto finding = workload.look()) return finding;
  }
  if (auto finding = workload.look()) return finding;
  workload.close();
  NamesReopener reopener(ahead);
  io::sim::Image image = workload.place().disk().durable();
  image.prune([](std::uint64_t) { return false; });
  if (auto finding = reopener.check_rebuilt(image, workload.expected())) return finding;
  return reopener.check_continued(image, workload.expected());
}

}  // namespace

std::optional<Found> explore_name_word(const Settings& settings, std::string_view word, Totals& totals) {
  Reopeners reopeners;
  auto found = explore(settings, word, true, reopeners, totals);
  totals.counts += reopeners.counts();
  return found;
}

std::optional<Found> explore_name_words(const Settings& settings, Totals& totals) {
  Reopeners reopeners;
  auto found = each_word(names_alphabet, settings, totals, [&](const std::string& word) {
    return explore(settings, word, false, reopeners, totals);
  });
  totals.counts += reopeners.counts();
  return found;
}

std::optional<Found> explore_name_kills(const Settings& settings, Totals& totals) {
  Reopeners reopeners;
  for (const std::string_view word : {"", "a", "amr", "wo"})
    for (std::uint32_t steps = 0; steps < 90; steps += settings.quick ? 13 : 1) {
      const auto told = [&](Finding finding) {
        return Found{std::move(finding), fmt::format("kill:{}:{}", word, steps)};
      };
      const bool ahead = writes_ahead(word);
      NamesWorkload workload(ahead, 1, busy_map);
      if (auto finding = workload.open()) return told(*finding);
      if (auto finding = run_all(workload, word)) return told(*finding);
      if (auto finding = workload.kill_changing(steps)) return told(*finding);
      if (auto finding = workload.open()) return told(*finding);
      workload.record();
      // What the page cache had is told to readers now.
      if (auto finding = run_all(workload, "cb")) return told(*finding);
      const NamesMoment last{workload.place().disk().snapshot(), workload.expected()};
      workload.close();
      if (auto finding = check_moments(workload, settings, reopeners.get(ahead), totals))
        return told(*finding);
      if (auto finding = check_moment(last, settings, reopeners.get(ahead), totals)) return told(*finding);
    }
  totals.counts += reopeners.counts();
  return std::nullopt;
}

std::optional<Found> explore_name_failures(const Settings& settings, Totals& totals) {
  Reopeners reopeners;
  const std::vector<std::string> few{"a", "w", "wi"};
  for (const std::string& word : settings.quick ? few : words_up_to("acremwsoid", settings.failure_length))
    for (const bool at_opening : {false, true}) {
      if (at_opening && word.size() > 1) continue;
      auto found = each_fault([&](const Fault& fault, bool& hit) {
        ++totals.failures;
        return run_fault(word, fault, at_opening, reopeners, hit);
      });
      if (!found) continue;
      found->where = fmt::format("failure:{}:{}{}", word, found->where, at_opening ? ":opening" : "");
      return found;
    }
  totals.counts += reopeners.counts();
  return std::nullopt;
}

std::optional<Found> explore_name_sequences(const Settings& settings, Totals& totals) {
  return explore_random(letters, settings, totals, run_sequence);
}

}  // namespace cairn::crash
