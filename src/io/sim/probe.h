// Probes: which rare events a run has met. The code that can cause one declares it up front, so that a test
// can ask which were never reached: a fault that cannot happen tests nothing.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "io/sim/choice.h"

namespace cairn::io::sim {

class Probes {
 public:
  void declare(Tag tag) { entry(tag); }
  void declare(std::initializer_list<Tag> tags) {
    for (Tag tag : tags) declare(tag);
  }
  void hit(Tag tag) { ++entry(tag).count; }
  std::uint64_t count(Tag tag) const noexcept;
  // Adds the hits of another run: coverage is a property of many seeds together.
  void add(const Probes& other);
  // Names declared and never hit, sorted.
  std::vector<std::string> missed() const;

 private:
  struct Entry {
    Tag tag;
    std::uint64_t count;
  };
  Entry& entry(Tag tag);
  std::vector<Entry> entries_;  // a few dozen, and only faults look it up
};

}  // namespace cairn::io::sim

// PROBE(probes, "name"): this line was reached.
#define PROBE(probes, name) (probes).hit(name)
