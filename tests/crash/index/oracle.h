// What a ledger of names must be after a crash: the observer that compares, and the reopener that brings it
// back.
//
// Oracles: opens, no_damage (a crash is taken for rot), acknowledged, told (a change that was answered is
// another one), halves (state, history and list do not agree, a sequence is missing, a change is not signed),
// reads, totals, nothing_else (the map has keys of nobody), equal (made anew from the log it is another map),
// continues.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "crash/explore.h"
#include "crash/index/model.h"
#include "services/index/simulated_ledger.h"

namespace cairn::crash {

// Names and manifests that operations are about. The last of each is for what comes after a recovery.
inline constexpr int names_most = 3, manifests_most = 3;
inline constexpr int fresh_name = names_most - 1, fresh_manifest = manifests_most - 1;
std::string name_of(int number);
struct SampleManifest {
  std::string bytes;
  Address address;
};
const std::vector<SampleManifest>& sample_manifests();

// The answers that changes had, by name and sequence.
using ToldStates = std::map<std::pair<int, std::uint64_t>, index::NameState>;

// What may be found after a crash.
struct NamesExpected {
  PossibleNames possible;
  ToldStates told;
  std::uint64_t hash() const { return possible.hash(); }
};

// How the ledger keeps its log; the same for all that open one directory. Without zeros written ahead every
// append changes the file's size.
index::LedgerOptions ledger_options(bool ahead, const index::LedgerOptions& with_key);

// Looks at a ledger that is open. It remembers which signatures it has checked.
class NamesObserver {
 public:
  std::optional<Finding> compare(index::SimulatedLedger& place, const NamesExpected& expected);

 private:
  struct Seen;
  std::optional<Finding> look(index::SimulatedLedger& place, Seen& seen);
  std::optional<Finding> look_at_name(index::SimulatedLedger& place, int name, Seen& seen);
  std::optional<Finding> look_at_lists(index::SimulatedLedger& place, const Seen& seen);
  std::optional<Finding> look_at_manifests(index::SimulatedLedger& place, Seen& seen);
  std::optional<Finding> look_at_map(index::SimulatedLedger& place, const Seen& seen);
  bool is_signed(index::SimulatedLedger& place, const std::string& change);

  std::unordered_set<std::string> signed_;
};

// One world that opens image after image.
class NamesReopener {
 public:
  explicit NamesReopener(bool ahead);

  // Is what `image` holds one of the possible?
  std::optional<Finding> check(const io::sim::Image& image, const NamesExpected& expected);
  // The same without its map, which must come out equal to the one that was kept.
  std::optional<Finding> check_rebuilt(const io::sim::Image& image, const NamesExpected& expected);
  // Goes on with it: what is written after the recovery must be there after the next.
  std::optional<Finding> check_continued(const io::sim::Image& image, const NamesExpected& expected);
  // Crashes inside the recovery, everywhere.
  std::optional<Finding> check_again(const io::sim::Image& image, const NamesExpected& expected);

  Counts counts;

 private:
  void load(const io::sim::Image& image);
  std::optional<Finding> open(const io::sim::Image& image, bool with_committer);

  NamesObserver observer_;
  std::unique_ptr<index::SimulatedLedger> place_;
};

}  // namespace cairn::crash
