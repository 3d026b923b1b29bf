// Workload: a short word over a small alphabet of steps, run against a store while every moment at which a
// crash would find something new is written down.
//
//   a put small            b put medium           g put two groups        z put nothing (an empty object)
//   u upload other         v an upload left open  x an upload, aborted    c upload small (a duplicate of a)
//   d remove small         e remove other         h remove two groups     n pin small       m unpin small
//   r end the segment      k end it, and compact  w several at once       y the same, two of one address
//   o close and open       q kill and open        s sweep
//   i the index is not trusted any more: a new one is made, while medium is put
//   K kill in the middle of putting medium, and open
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "crash/model.h"
#include "crash/oracle.h"

namespace cairn::crash {

inline constexpr std::string_view alphabet = "abguvxcdehnmrkwyoqi";

// A moment: what is on the disk, and what may be found there after a crash.
struct Moment {
  io::sim::DiskSnapshot disk;
  Expected expected;
};

store::StoreOptions options_for(std::string_view word);

class Workload {
 public:
  Workload(const Universe& universe, const store::StoreOptions& options, std::uint64_t seed = 1);
  ~Workload();

  // The store is opened first. Whether an error of the disk may be the answer.
  bool tolerant = false;
  // Moments are written down from here on.
  void record() { recording_ = true; }
  const std::vector<Moment>& moments() const noexcept { return moments_; }

  // What went wrong, if anything did.
  std::optional<Finding> open();
  std::optional<Finding> step(char letter);
  std::optional<Finding> apply(const Op& op);
  std::optional<Finding> kill_putting(std::uint32_t steps);
  std::optional<Finding> look();  // everything reads as one of the models says
  void close();                   // ends the tasks; nothing is flushed

  store::SimulatedStore& store() noexcept { return *store_; }
  Expected expected() const { return {possible_, tokens_, remade_}; }
  bool is_open() const noexcept { return store_->store != nullptr; }

 private:
  using Pending = std::shared_ptr<std::optional<Result<store::Outcome>>>;
  Pending start(const Op& op);
  std::optional<Finding> apply_all(const std::vector<Op>& ops);
  std::optional<Finding> answered(const Op& op, const Result<store::Outcome>& result);
  std::optional<Finding> upload(int content, bool part_only, bool abort);
  void note(const io::sim::SimDisk& disk);

  const Universe& universe_;
  std::unique_ptr<store::SimulatedStore> store_;
  Possible possible_;
  std::vector<Op> under_way_;
  Tokens tokens_;
  int uploads_ = 0;
  bool recording_ = false;
  bool remade_ = false;
  std::vector<Moment> moments_;
};

}  // namespace cairn::crash
