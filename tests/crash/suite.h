// The suite's phases. Each goes on until it is done or something was found.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "crash/oracle.h"
#include "crash/workload.h"

namespace cairn::crash {

struct Settings {
  std::size_t length = 3;      // of words
  std::uint64_t most = 0;      // states, then it ends; 0: all
  std::size_t exhaustive = 5;  // pending changes of which every subset is tried
  std::size_t random = 16;     // subsets, of more
  std::uint64_t rebuild_every = 4;
  std::uint64_t continue_every = 16;
  std::uint64_t again_every = 64;
  std::uint64_t sequences = 3000;
  std::uint64_t seed = 1;
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

struct Found {
  Finding finding;
  std::string where;
};

// Every crash in the last step of every word.
std::optional<Found> explore_words(const Universe& universe, const Settings& settings, Totals& totals);
// One word, all of its steps.
std::optional<Found> explore_word(const Universe& universe, const Settings& settings, std::string_view word,
                                  bool whole, Totals& totals);
// A process is killed at every step of a put, the next one repeats it, then the power goes.
std::optional<Found> explore_kills(const Universe& universe, const Settings& settings, Totals& totals);
// Every call of the disk fails once, and from then on, in every way.
std::optional<Found> explore_failures(const Universe& universe, const Settings& settings, std::size_t length,
                                      Totals& totals);
// Long random sequences, with compaction, restarts and crashes in between, against the model.
std::optional<Found> explore_sequences(const Universe& universe, const Settings& settings, Totals& totals);

}  // namespace cairn::crash
