// A call of the disk fails: what was answered still holds after the next start.
#include <fmt/format.h>

#include "crash/suite.h"

namespace cairn::crash {
namespace {

// False: the call was never made, so there is nothing more to fail.
std::optional<Finding> run(const Universe& universe, std::string_view word, const Fault& fault,
                           bool at_opening, Reopener& reopener, bool& hit) {
  Workload workload(universe, options_for(word));
  workload.tolerant = true;
  io::sim::SimDisk& disk = workload.store().disk();
  if (!at_opening)
    if (auto finding = workload.open()) return finding;
  const std::uint64_t before = disk.calls(fault.call);
  disk.fail_call(fault.call, fault.nth, fault.how, fault.sticky);
  if (at_opening)
    if (auto finding = workload.open()) return finding;
  for (const char letter : word)
    if (auto finding = workload.step(letter)) return finding;
  hit = disk.calls(fault.call) >= before + fault.nth;
  // Room again, or a disk that was replaced under the same files: without a restart reads still go.
  disk.heal();
  workload.close();
  if (!hit) return std::nullopt;
  // What is in the page cache survives a killed process; a power cut leaves only what is durable, or all.
  for (const io::sim::Image* left : {&disk.view(), &disk.durable()}) {
    io::sim::Image image = *left;
    image.prune([](std::uint64_t) { return false; });
    if (auto finding = reopener.check(image, workload.expected())) return finding;
  }
  if (auto finding = reopener.check_continued(disk.durable(), workload.expected())) return finding;
  return std::nullopt;
}

std::optional<Found> run_word(const Universe& universe, std::string_view word, Reopener& reopener,
                              Totals& totals) {
  for (const bool at_opening : {false, true}) {
    if (at_opening && word.size() > 1) continue;
    auto found = each_fault([&](const Fault& fault, bool& hit) {
      ++totals.failures;
      return run(universe, word, fault, at_opening, reopener, hit);
    });
    if (!found) continue;
    found->where = fmt::format("failure:{}:{}{}", word, found->where, at_opening ? ":opening" : "");
    return found;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Found> explore_failures(const Universe& universe, const Settings& settings, Totals& totals) {
  Reopener reopener(universe, options_for(""));
  for (const std::string& word : words_up_to("abuxdnkwyo", settings.failure_length))
    if (auto found = run_word(universe, word, reopener, totals)) return found;
  return std::nullopt;
}

}  // namespace cairn::crash
