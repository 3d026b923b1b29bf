// The object store's suite: its phases. Each goes on until it is done or something was found.
#pragma once

#include "crash/explore.h"
#include "crash/oracle.h"
#include "crash/workload.h"

namespace cairn::crash {

// Every crash in the last step of every word.
std::optional<Found> explore_words(const Universe& universe, const Settings& settings, Totals& totals);
// One word, all of its steps.
std::optional<Found> explore_word(const Universe& universe, const Settings& settings, std::string_view word,
                                  bool whole, Totals& totals);
// A process is killed at every step of a put, the next one repeats it, then the power goes.
std::optional<Found> explore_kills(const Universe& universe, const Settings& settings, Totals& totals);
// Every call of the disk fails once, and from then on, in every way.
std::optional<Found> explore_failures(const Universe& universe, const Settings& settings, Totals& totals);
// Long random sequences, with compaction, restarts and crashes in between, against the model.
std::optional<Found> explore_sequences(const Universe& universe, const Settings& settings, Totals& totals);

}  // namespace cairn::crash
