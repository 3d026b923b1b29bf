// The registry's suite: its phases. Each goes on until it is done or something was found.
#pragma once

#include "crash/registry/workload.h"

namespace cairn::crash {

using registry::Founding;

// Every crash in the last step of every word.
std::optional<Found> explore_words(const Founding& founding, const Settings& settings, Totals& totals);
// One word, all of its steps.
std::optional<Found> explore_word(const Founding& founding, const Settings& settings, std::string_view word,
                                  Totals& totals);
// A process is killed at every step of a version, the next one goes on, then the power goes.
std::optional<Found> explore_kills(const Founding& founding, const Settings& settings, Totals& totals);
// Every call of the disk fails once, and from then on, in every way.
std::optional<Found> explore_failures(const Founding& founding, const Settings& settings, Totals& totals);
// Long random sequences, with retention, restarts and crashes in between, against the model.
std::optional<Found> explore_sequences(const Founding& founding, const Settings& settings, Totals& totals);

}  // namespace cairn::crash
