// ChainWorkload: a short word over a small alphabet of steps, run against a registry while every moment at
// which a crash would find something new is written down.
//
//   p propose               f propose, with a list that stands alone     a approve     d approve once more
//   c commit                C commit again what was committed            v a version   F one with such a list
//   u a version that supersedes the head          w several at once      y two commits race
//   e the pending ones expire                     k checkpoint           s snapshot    t checkpoint and prune
//   o close and open        q stop and open       n snapshot and a version at once
//   K kill in the middle of a version, and open
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "crash/registry/oracle.h"

namespace cairn::crash {

inline constexpr std::string_view chain_alphabet = "pfacdvFuwyekstnoq";

// A moment: what is on the disk, and what may be found there after a crash.
struct ChainMoment {
  io::sim::DiskSnapshot disk;
  ChainExpected expected;
};

// What happened before a word begins: words that prune need something to prune.
std::string_view prologue_of(std::string_view word);

class ChainWorkload {
 public:
  explicit ChainWorkload(const registry::Founding& founding, std::uint64_t seed = 1);
  ~ChainWorkload();

  // Whether an error of the disk may be the answer.
  bool tolerant = false;
  // Moments are written down from here on.
  void record() { recording_ = true; }
  const std::vector<ChainMoment>& moments() const noexcept { return moments_; }

  // What went wrong, if anything did.
  std::optional<Finding> open();
  std::optional<Finding> step(char letter);
  std::optional<Finding> kill_advancing(std::uint32_t steps);
  std::optional<Finding> look();  // everything is as one of the models says
  void close();                   // ends the tasks; nothing is flushed

  registry::SimulatedRegistry& place() noexcept { return *place_; }
  ChainExpected expected() const { return {possible_, names_}; }

 private:
  using Answer = std::shared_ptr<std::optional<Result<registry::Outcome>>>;
  Answer start(const ChainOp& op);
  std::optional<Finding> apply(const ChainOp& op) { return apply_all({op}); }
  std::optional<Finding> apply_all(const std::vector<ChainOp>& ops);
  std::optional<Finding> answered(const ChainOp& op, const Result<registry::Outcome>& result);
  std::optional<Finding> chore(const ChainOp& op);
  std::optional<Finding> advance(bool full, bool supersede);
  std::optional<Finding> race();
  std::optional<Finding> snapshot_meanwhile();
  std::optional<Finding> restart(char letter);
  ChainOp propose_op(bool full, bool supersede = false);
  int pick_pending(bool approved) const;
  void note(const io::sim::SimDisk& disk);

  const registry::Founding& founding_;
  std::unique_ptr<registry::SimulatedRegistry> place_;
  ChainObserver observer_;
  PossibleChains possible_;
  ChainNames names_;
  std::vector<ChainOp> under_way_;
  int proposals_ = 0;
  int last_committed_ = -1;
  bool recording_ = false;
  std::vector<ChainMoment> moments_;
};

}  // namespace cairn::crash
