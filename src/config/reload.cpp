#include "config/reload.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "base/check.h"

namespace cairn::config {

Changes diff(const Snapshot& before, const Snapshot& after) {
  CHECK(&before.schema() == &after.schema());
  Changes changes;
  const auto entries = before.schema().entries();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (before.at(i).value == after.at(i).value) continue;
    (entries[i].spec.reload == Reload::live ? changes.live : changes.restart).push_back(i);
  }
  return changes;
}

std::expected<Reloaded, Problems> reload(const Snapshot& before, const Snapshot& after) {
  Changes changes = diff(before, after);
  std::vector<Snapshot::Held> held;
  for (std::size_t i = 0; i < before.schema().entries().size(); ++i) {
    const bool kept = std::ranges::find(changes.restart, i) != changes.restart.end();
    held.push_back(kept ? before.at(i) : after.at(i));
  }
  auto snapshot = std::make_shared<const Snapshot>(before.schema(), std::move(held), before.version() + 1);
  Problems problems = check_danger(*snapshot);
  std::ranges::move(check_rules(*snapshot), std::back_inserter(problems));
  if (!problems.empty()) return std::unexpected(std::move(problems));
  return Reloaded{std::move(snapshot), std::move(changes)};
}

}  // namespace cairn::config
