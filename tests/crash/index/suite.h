// The suite of the index's ledger of names: its phases. Each goes on until it is done or something was found.
#pragma once

#include "crash/index/workload.h"

namespace cairn::crash {

// Every crash in the last step of every word.
std::optional<Found> explore_name_words(const Settings& settings, Totals& totals);
// One word, all of its steps.
std::optional<Found> explore_name_word(const Settings& settings, std::string_view word, Totals& totals);
// A process is killed at every step of several changes, the next one goes on, then the power goes.
std::optional<Found> explore_name_kills(const Settings& settings, Totals& totals);
// Every call of the disk fails once, and from then on, in every way.
std::optional<Found> explore_name_failures(const Settings& settings, Totals& totals);
// Long random sequences, with restarts and crashes in between, against the model.
std::optional<Found> explore_name_sequences(const Settings& settings, Totals& totals);

}  // namespace cairn::crash
