// What became of the items of a model, and in which order a consumer sees them.
#pragma once

#include <fmt/format.h>

#include <array>
#include <string>

#include "model/explorer.h"

namespace cairn::model {

// Items are numbered by producer.
class Ledger {
 public:
  static constexpr std::size_t producers = 2, items_max = 4;
  static int item(std::size_t producer, int n) { return static_cast<int>(producer * items_max) + n; }

  void accepted(int item) { ++accepted_[static_cast<std::size_t>(item)]; }
  void received(int item) { ++received_[static_cast<std::size_t>(item)]; }
  // Each accepted once and received once, or neither.
  void judge(World& world) const {
    for (std::size_t i = 0; i < accepted_.size(); ++i) {
      world.expect(received_[i] <= 1, "doubled_item", "an item was received twice");
      world.expect(received_[i] <= accepted_[i], "phantom_item", "a refused item was received");
      world.expect(received_[i] == accepted_[i], "lost_item", "an accepted item was not received");
    }
  }
  std::string state() const {
    return fmt::format("{}/{}", fmt::join(accepted_, ""), fmt::join(received_, ""));
  }

 private:
  std::array<int, producers * items_max> accepted_{}, received_{};
};

// One consumer's view: the newest item of each producer.
struct Order {
  std::array<int, Ledger::producers> newest{-1, -1};
  bool follows(int item) {
    int& last = newest[static_cast<std::size_t>(item) / Ledger::items_max];
    const bool fine = item > last;
    last = item;
    return fine;
  }
};

}  // namespace cairn::model
