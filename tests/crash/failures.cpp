// A call of the disk fails: what was answered still holds after the next start.
#include <fmt/format.h>

#include <array>

#include "crash/suite.h"

namespace cairn::crash {
namespace {

using io::sim::DiskCall;
using io::sim::DiskFailure;

constexpr std::array calls = {DiskCall::open,           DiskCall::read,      DiskCall::write,
                              DiskCall::sync_data,      DiskCall::rename,    DiskCall::truncate,
                              DiskCall::unlink,         DiskCall::list,      DiskCall::make_directory,
                              DiskCall::sync_directory, DiskCall::free_space};

struct Fault {
  DiskCall call;
  std::uint64_t nth;
  DiskFailure how;
  bool sticky;
};

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
    if (auto finding = reopener.check(image, workload.possible(), workload.tokens())) return finding;
  }
  if (auto finding = reopener.check_continued(disk.durable(), workload.possible(), workload.tokens()))
    return finding;
  return std::nullopt;
}

std::optional<Found> run_word(const Universe& universe, std::string_view word, Reopener& reopener,
                              Totals& totals) {
  for (const bool at_opening : {false, true}) {
    if (at_opening && word.size() > 1) continue;
    for (const DiskCall call : calls)
      for (const DiskFailure how : {DiskFailure::error, DiskFailure::full, DiskFailure::partial}) {
        if (how == DiskFailure::partial && call != DiskCall::write) continue;
        if (how == DiskFailure::full && (call == DiskCall::read || call == DiskCall::list)) continue;
        for (const bool sticky : {false, true}) {
          bool hit = true;
          for (std::uint64_t nth = 1; hit; ++nth) {
            ++totals.failures;
            if (auto finding = run(universe, word, {call, nth, how, sticky}, at_opening, reopener, hit))
              return Found{*finding, fmt::format("failure:{}:call{}#{}:{}{}{}", word, static_cast<int>(call),
                                                 nth, static_cast<int>(how), sticky ? ":sticky" : "",
                                                 at_opening ? ":opening" : "")};
          }
        }
      }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Found> explore_failures(const Universe& universe, const Settings& settings, std::size_t length,
                                      Totals& totals) {
  (void)settings;
  std::vector<std::string> words{""};
  std::vector<std::string> chosen;
  for (std::size_t i = 0; i < length; ++i) {
    std::vector<std::string> longer;
    for (const std::string& word : words)
      for (const char letter : std::string_view("abuxdnkwyo")) longer.push_back(word + letter);
    words = std::move(longer);
    chosen.insert(chosen.end(), words.begin(), words.end());
  }
  Reopener reopener(universe, options_for(""));
  for (const std::string& word : chosen)
    if (auto found = run_word(universe, word, reopener, totals)) return found;
  return std::nullopt;
}

}  // namespace cairn::crash
