#include "io/sim/probe.h"

#include <algorithm>

namespace cairn::io::sim {

Probes::Entry& Probes::entry(Tag tag) {
  for (Entry& entry : entries_)
    if (entry.tag.hash == tag.hash) return entry;
  return entries_.emplace_back(tag, 0u);
}

std::uint64_t Probes::count(Tag tag) const noexcept {
  for (const Entry& entry : entries_)
    if (entry.tag.hash == tag.hash) return entry.count;
  return 0;
}

void Probes::add(const Probes& other) {
  for (const Entry& theirs : other.entries_) entry(theirs.tag).count += theirs.count;
}

std::vector<std::string> Probes::missed() const {
  std::vector<std::string> names;
  for (const Entry& entry : entries_)
    if (entry.count == 0) names.emplace_back(entry.tag.name);
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace cairn::io::sim
