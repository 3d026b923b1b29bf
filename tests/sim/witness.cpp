#include "witness.h"

#include <fmt/format.h>

#include <algorithm>

namespace cairn::simulator {

std::string Witness::take(const client::RegistryHead& head, Instant now, unsigned life) {
  const auto [at, fresh] = told_.try_emplace(head.version, Told{head, now, life});
  const client::RegistryHead& known = at->second.head;
  if (known.commit_b3 != head.commit_b3 || known.payload_b3 != head.payload_b3 ||
      known.committed_at != head.committed_at)
    return fmt::format("version {} is {}, and was {}", head.version, format_address(head.commit_b3),
                       format_address(known.commit_b3));
  if (!fresh) return {};
  if (losers_.contains({head.version, head.payload_b3}))
    return fmt::format("version {} is a proposal that had lost", head.version);
  if (at != told_.begin() && std::prev(at)->second.head.committed_at > head.committed_at)
    return fmt::format("version {} is older than {}", head.version, std::prev(at)->first);
  if (std::next(at) != told_.end() && std::next(at)->second.head.committed_at < head.committed_at)
    return fmt::format("version {} is younger than {}", head.version, std::next(at)->first);
  return {};
}

std::string Witness::take_root(std::uint64_t size, const crypto::MerkleHash& root) {
  const auto [at, fresh] = roots_.try_emplace(size, root);
  if (at->second != root) return fmt::format("two roots for size {}", size);
  return {};
}

std::string Witness::take_loser(std::uint64_t version, const Address& payload_b3) {
  losers_.emplace(version, payload_b3);
  const auto found = told_.find(version);
  if (found != told_.end() && found->second.head.payload_b3 == payload_b3)
    return fmt::format("a proposal has lost, and is version {}", version);
  return {};
}

std::uint64_t Witness::least(Instant when, unsigned life) const {
  for (auto at = told_.rbegin(); at != told_.rend(); ++at)
    if (at->second.first < when || at->second.life < life) return at->first;
  return 0;
}

}  // namespace cairn::simulator
