#include <fmt/format.h>

#include "crash/registry/suite.h"

namespace cairn::crash {
namespace {

std::optional<Finding> run_all(ChainWorkload& workload, std::string_view word) {
  for (const char letter : word)
    if (auto finding = workload.step(letter)) return finding;
  return std::nullopt;
}

std::optional<Finding> check_moments(const ChainWorkload& workload, const Settings& settings,
                                     ChainReopener& reopener, Totals& totals) {
  reopener.begin_history();
  for (const ChainMoment& moment : workload.moments())
    if (auto finding = check_moment(moment, settings, reopener, totals)) return finding;
  return std::nullopt;
}

std::optional<Found> explore(const Founding& founding, const Settings& settings, std::string_view word,
                             bool whole, ChainReopener& reopener, Totals& totals) {
  ++totals.words;
  ChainWorkload workload(founding);
  const auto told = [&](Finding finding) { return Found{std::move(finding), "word:" + std::string(word)}; };
  if (whole || word.empty()) workload.record();
  if (auto finding = workload.open()) return told(*finding);
  if (auto finding = run_all(workload, prologue_of(word))) return told(*finding);
  for (std::size_t i = 0; i < word.size(); ++i) {
    if (i + 1 == word.size()) workload.record();
    if (auto finding = workload.step(word[i])) return told(*finding);
  }
  workload.close();
  if (auto finding = check_moments(workload, settings, reopener, totals)) return told(*finding);
  return std::nullopt;
}

// --- failures

std::optional<Finding> run_fault(const Founding& founding, std::string_view word, const Fault& fault,
                                 bool at_opening, ChainReopener& reopener, bool& hit) {
  ChainWorkload workload(founding);
  workload.tolerant = true;
  io::sim::SimDisk& disk = workload.place().disk();
  if (!at_opening) {
    if (auto finding = workload.open()) return finding;
    if (auto finding = run_all(workload, prologue_of(word))) return finding;
  }
  const std::uint64_t before = disk.calls(fault.call);
  disk.fail_call(fault.call, fault.nth, fault.how, fault.sticky);
  if (at_opening)
    if (auto finding = workload.open()) return finding;
  if (auto finding = run_all(workload, word)) return finding;
  hit = disk.calls(fault.call) >= before + fault.nth;
  disk.heal();
  workload.close();
  if (!hit) return std::nullopt;
  // What is in the page cache survives a killed process; a power cut leaves only what is durable, or all.
  reopener.begin_history();
  for (const io::sim::Image* left : {&disk.view(), &disk.durable()}) {
    io::sim::Image image = *left;
    image.prune([](std::uint64_t) { return false; });
    if (auto finding = reopener.check(image, workload.expected())) return finding;
  }
  return reopener.check_continued(disk.durable(), workload.expected());
}

// --- sequences

// Letters of workload.h, and what only makes sense in a longer run.
constexpr std::string_view letters = "ppffaaaadccCvvFFuwyekksttnoqqKK!!!";  // !: the power goes

std::optional<Finding> run_sequence(const Founding& founding, const std::string& word, std::uint64_t seed) {
  ChainWorkload workload(founding, seed);
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
  workload.close();
  ChainReopener reopener(founding);
  io::sim::Image image = workload.place().disk().durable();
  image.prune([](std::uint64_t) { return false; });
  if (auto finding = reopener.check_rebuilt(image, workload.expected())) return finding;
  return reopener.check_continued(image, workload.expected());
}

}  // namespace

std::optional<Found> explore_word(const Founding& founding, const Settings& settings, std::string_view word,
                                  Totals& totals) {
  ChainReopener reopener(founding);
  auto found = explore(founding, settings, word, true, reopener, totals);
  totals.counts += reopener.counts;
  return found;
}

std::optional<Found> explore_words(const Founding& founding, const Settings& settings, Totals& totals) {
  ChainReopener reopener(founding);
  auto found = each_word(chain_alphabet, settings, totals, [&](const std::string& word) {
    return explore(founding, settings, word, false, reopener, totals);
  });
  totals.counts += reopener.counts;
  return found;
}

std::optional<Found> explore_kills(const Founding& founding, const Settings& settings, Totals& totals) {
  ChainReopener reopener(founding);
  for (const std::string_view word : {"", "vk", "vs"})
    for (std::uint32_t steps = 0; steps < 110; steps += settings.quick ? 9 : 2) {
      const auto told = [&](Finding finding) {
        return Found{std::move(finding), fmt::format("kill:{}:{}", word, steps)};
      };
      ChainWorkload workload(founding);
      if (auto finding = workload.open()) return told(*finding);
      if (auto finding = run_all(workload, word)) return told(*finding);
      if (auto finding = workload.kill_advancing(steps)) return told(*finding);
      if (auto finding = workload.open()) return told(*finding);
      workload.record();
      // What the page cache had is told to readers now, and signed.
      if (auto finding = run_all(workload, "kv")) return told(*finding);
      workload.close();
      if (auto finding = check_moments(workload, settings, reopener, totals)) return told(*finding);
    }
  totals.counts += reopener.counts;
  return std::nullopt;
}

std::optional<Found> explore_failures(const Founding& founding, const Settings& settings, Totals& totals) {
  ChainReopener reopener(founding);
  reopener.excuse_tiles();
  for (const std::string& word : words_up_to(settings.quick ? "vks" : "pacvkso", settings.failure_length))
    for (const bool at_opening : {false, true}) {
      if (at_opening && word.size() > 1) continue;
      auto found = each_fault([&](const Fault& fault, bool& hit) {
        ++totals.failures;
        return run_fault(founding, word, fault, at_opening, reopener, hit);
      });
      if (!found) continue;
      found->where = fmt::format("failure:{}:{}{}", word, found->where, at_opening ? ":opening" : "");
      return found;
    }
  auto found = each_fault([&](const Fault& fault, bool& hit) {
    ++totals.failures;
    return run_fault(founding, "t", fault, false, reopener, hit);
  });
  if (found) found->where = "failure:t:" + found->where;
  totals.counts += reopener.counts;
  return found;
}

std::optional<Found> explore_sequences(const Founding& founding, const Settings& settings, Totals& totals) {
  return explore_random(letters, settings, totals, [&](const std::string& word, std::uint64_t seed) {
    return run_sequence(founding, word, seed);
  });
}

}  // namespace cairn::crash
