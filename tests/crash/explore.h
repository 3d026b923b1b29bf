// What the crash suites share: what they count and find, and the ways through words, moments and failing
// calls. What is run, and what may be found after it, each suite says itself:
//   Moment    {DiskSnapshot disk; Expected expected}; expected.hash()
//   Reopener  check, check_rebuilt, check_continued, check_again (image, expected); counts
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "io/sim/disk.h"
#include "runtime/random.h"

namespace cairn::crash {

struct Settings {
  std::size_t length = 3;      // of words
  std::uint64_t most = 0;      // states, then it ends; 0: all
  std::size_t exhaustive = 5;  // pending changes of which every subset is tried
  std::size_t random = 16;     // subsets, of more
  unsigned tears = 1;          // how often they are drawn, each time in other places
  std::uint64_t rebuild_every = 4;
  std::uint64_t continue_every = 16;
  std::uint64_t again_every = 64;
  std::uint64_t sequences = 3000;
  std::size_t failure_length = 2;  // of words with a failing call
  bool quick = false;              // something of everything, for one mutant among many
  std::uint64_t seed = 1;
};

struct Finding {
  std::string oracle;  // one word: which promise was broken
  std::string detail;
};

struct Found {
  Finding finding;
  std::string where;
};

struct Counts {
  std::uint64_t reopened = 0;
  std::uint64_t rebuilt = 0;    // with what is derived taken away
  std::uint64_t continued = 0;  // written to after the recovery, and opened once more
  std::uint64_t again = 0;      // crashed once more inside the recovery
  Counts& operator+=(const Counts& other) {
    reopened += other.reopened;
    rebuilt += other.rebuilt;
    continued += other.continued;
    again += other.again;
    return *this;
  }
};

struct Totals {
  std::uint64_t words = 0;
  std::uint64_t moments = 0;
  std::uint64_t failures = 0;  // runs with a call of the disk that failed
  std::uint64_t sequences = 0;
  Counts counts;
  std::unordered_set<std::uint64_t> images;   // distinct ones, by hash
  std::unordered_set<std::uint64_t> checked;  // image and what may be there
};

// Every state that a crash at this moment may leave, each once.
template <class Moment, class Reopener>
std::optional<Finding> check_moment(const Moment& moment, const Settings& settings, Reopener& reopener,
                                    Totals& totals) {
  ++totals.moments;
  std::optional<Finding> found;
  io::sim::CrashOptions options;
  options.exhaustive = settings.exhaustive;
  options.random = settings.random;
  const std::uint64_t expected = moment.expected.hash();
  const auto visit = [&](const io::sim::CrashState& state) {
    totals.images.insert(state.hash);
    if (!totals.checked.insert(state.hash ^ (expected * 0x9e3779b97f4a7c15u)).second) return true;
    const std::uint64_t number = totals.checked.size();
    if (number % settings.rebuild_every == 0) found = reopener.check_rebuilt(state.image, moment.expected);
    if (!found && number % settings.continue_every == 1)
      found = reopener.check_continued(state.image, moment.expected);
    else if (!found)
      found = reopener.check(state.image, moment.expected);
    if (!found && number % settings.again_every == 2)
      found = reopener.check_again(state.image, moment.expected);
    return !found;
  };
  for (unsigned i = 0; i < settings.tears && !found; ++i) {
    options.seed = settings.seed + 1000 * i;
    io::sim::crash_states(moment.disk, visit, options);
  }
  return found;
}

// Crashes inside `run`, which begins on the disk as it is: a few states of every moment.
template <class Run, class Check>
std::optional<Finding> crash_inside(io::sim::SimDisk& disk, Run&& run, Check&& check) {
  std::vector<io::sim::DiskSnapshot> snapshots;
  disk.set_observer([&](const io::sim::SimDisk& now) { snapshots.push_back(now.snapshot()); });
  std::optional<Finding> found = run();
  disk.set_observer({});
  if (found) return found;
  io::sim::CrashOptions few;
  few.exhaustive = 2;
  few.random = 4;
  few.tears = false;
  for (const io::sim::DiskSnapshot& snapshot : snapshots) {
    io::sim::crash_states(
        snapshot,
        [&](const io::sim::CrashState& state) {
          found = check(state.image);
          return !found;
        },
        few);
    if (found) return Finding{"again_" + found->oracle, found->detail};
  }
  return std::nullopt;
}

// Words over an alphabet, the short ones first, until there are states enough.
template <class Explore>
std::optional<Found> each_word(std::string_view alphabet, const Settings& settings, Totals& totals,
                               Explore&& explore) {
  std::vector<std::string> words{""};
  for (std::size_t length = 0;; ++length) {
    // In an order without pattern, so that whoever ends it early has seen something of everything.
    Random random(settings.seed + length);
    for (std::size_t i = words.size(); i > 1; --i) std::swap(words[i - 1], words[random.next() % i]);
    for (const std::string& word : words) {
      if (settings.most != 0 && totals.images.size() >= settings.most) return std::nullopt;
      if (auto found = explore(word)) return found;
    }
    if (length == settings.length) return std::nullopt;
    std::vector<std::string> longer;
    for (const std::string& word : words)
      for (const char letter : alphabet) longer.push_back(word + letter);
    words = std::move(longer);
  }
}

// All words of 1 to `length` letters.
std::vector<std::string> words_up_to(std::string_view alphabet, std::size_t length);

// A call of the disk that fails, the nth from when it is set.
struct Fault {
  io::sim::DiskCall call;
  std::uint64_t nth;
  io::sim::DiskFailure how;
  bool sticky;
};
std::string describe(const Fault& fault);

// Every call of every kind fails in every way, once and for good. `run` sets `hit` to whether the call was
// made: there is nothing more to fail when it was not.
template <class Run>
std::optional<Found> each_fault(Run&& run) {
  using io::sim::DiskCall;
  using io::sim::DiskFailure;
  for (const DiskCall call : {DiskCall::open, DiskCall::read, DiskCall::write, DiskCall::sync_data,
                              DiskCall::rename, DiskCall::truncate, DiskCall::unlink, DiskCall::list,
                              DiskCall::make_directory, DiskCall::sync_directory, DiskCall::free_space})
    for (const DiskFailure how : {DiskFailure::error, DiskFailure::full, DiskFailure::partial}) {
      if (how == DiskFailure::partial && call != DiskCall::write) continue;
      if (how == DiskFailure::full && (call == DiskCall::read || call == DiskCall::list)) continue;
      for (const bool sticky : {false, true}) {
        bool hit = true;
        for (std::uint64_t nth = 1; hit; ++nth) {
          const Fault fault{call, nth, how, sticky};
          if (std::optional<Finding> finding = run(fault, hit)) return Found{*finding, describe(fault)};
        }
      }
    }
  return std::nullopt;
}

// Random words against the model, shrunk when one fails. `run(word, seed)`.
std::optional<Found> explore_random(
    std::string_view letters, const Settings& settings, Totals& totals,
    const std::function<std::optional<Finding>(const std::string& word, std::uint64_t seed)>& run);

// --- a suite as a program
struct Phase {
  const char* name;
  std::function<std::optional<Found>(const Settings& settings, Totals& totals)> run;
};
// NAME [--soak] [--quick] [--word W] [--most N] [--length N] [--phase P] [--seed N]
// `word` runs one word, all of its steps. The phase "states" is the one whose speed is told.
int run_suite(int count, char** arguments, const char* name, Settings settings,
              const std::vector<Phase>& phases,
              const std::function<std::optional<Found>(const std::string& word, const Settings& settings,
                                                       Totals& totals)>& word);

}  // namespace cairn::crash
