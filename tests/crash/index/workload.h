// NamesWorkload: a short word over a small alphabet of steps, run against a ledger of names while every
// moment at which a crash would find something new is written down.
//
//   a set docs             b set docs/a            c set docs, if it is as it was seen
//   C the same, under a tag that is old            n set docs, if it is not there
//   r remove docs          e remove docs/a, if it is as it was seen
//   m put a manifest       M put a large one       g forget it      G forget it, where another one replaced
//   it w several at once      y writers race for one tag, a removal and a set among them s end the segment o
//   close and open       q stop and open         i the same without the map d the map is found damaged, and
//   the ledger is opened again K kill in the middle of several, and open
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "crash/index/oracle.h"

namespace cairn::crash {

inline constexpr std::string_view names_alphabet = "abcCnremMgGwysoqid";

// A moment: what is on the disk, and what may be found there after a crash.
struct NamesMoment {
  io::sim::DiskSnapshot disk;
  NamesExpected expected;
};

// Half of the words write zeros ahead.
bool writes_ahead(std::string_view word) noexcept;

class NamesWorkload {
 public:
  explicit NamesWorkload(bool ahead, std::uint64_t seed = 1, store::LogKvOptions kv = {});
  ~NamesWorkload();

  // Whether an error of the disk may be the answer.
  bool tolerant = false;
  // Moments are written down from here on.
  void record() { recording_ = true; }
  const std::vector<NamesMoment>& moments() const noexcept { return moments_; }

  // What went wrong, if anything did.
  std::optional<Finding> open();
  std::optional<Finding> step(char letter);
  std::optional<Finding> kill_changing(std::uint32_t steps);
  std::optional<Finding> look();  // everything is as one of the models says
  // The same of the newest states alone, also while the disk fails.
  std::optional<Finding> look_at_states();
  void close();  // ends the tasks; nothing is flushed

  index::SimulatedLedger& place() noexcept { return *place_; }
  NamesExpected expected() const;

 private:
  using Answer = std::shared_ptr<std::optional<Result<index::Outcome>>>;
  Answer start(const NameOp& op);
  bool start_all(std::vector<NameOp> ops, const std::function<bool()>& killed);
  bool all_answered() const;
  std::optional<Finding> conclude();
  SaidOfOp said(std::size_t number) const;
  std::optional<Finding> apply(const NameOp& op) { return apply_all({op}); }
  std::optional<Finding> apply_all(const std::vector<NameOp>& ops);
  std::optional<Finding> forget(bool stale);
  std::optional<Finding> restart(char letter);
  std::vector<NameOp> several();
  NameOp set(int name, NameOp::If condition = NameOp::If::any, std::uint64_t tag = 0);
  std::uint64_t seen(int name) const;
  std::optional<store::Position> place_of(int manifest);
  void note(const io::sim::SimDisk& disk);

  std::unique_ptr<index::SimulatedLedger> place_;
  NamesObserver observer_;
  PossibleNames possible_;
  ToldStates told_;
  std::vector<NameOp> under_way_;
  std::vector<Answer> answers_;                  // of the first of them
  std::map<int, store::Position> first_places_;  // of manifests
  int targets_ = 0;
  bool recording_ = false;
  std::vector<NamesMoment> moments_;
};

}  // namespace cairn::crash
