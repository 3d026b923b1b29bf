// Witness: what anybody was told by a registry, all in one place. Whatever was told once is true for ever.
//   [WI-1] A version has one commit, whoever asks and whenever; its time is not before that of the one below.
//   [WI-2] A size has one root.
//   [WI-3] A proposal that was answered as lost to another one never becomes a version.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "client/registry_client.h"
#include "crypto/merkle.h"

namespace cairn::simulator {

class Witness {
 public:
  struct Told {
    client::RegistryHead head;
    Instant first{};    // when somebody was told first
    unsigned life = 0;  // of the node
  };

  // Empty: it fits all that was told before.
  std::string take(const client::RegistryHead& head, Instant now, unsigned life);
  std::string take_root(std::uint64_t size, const crypto::MerkleHash& root);
  std::string take_loser(std::uint64_t version, const Address& payload_b3);

  const std::map<std::uint64_t, Told>& told() const noexcept { return told_; }
  const std::map<std::uint64_t, crypto::MerkleHash>& roots() const noexcept { return roots_; }
  std::uint64_t newest() const noexcept { return told_.empty() ? 0 : told_.rbegin()->first; }
  // What somebody was told before `when`, or by a process before `life`: nobody may be told less.
  std::uint64_t least(Instant when, unsigned life) const;

 private:
  std::map<std::uint64_t, Told> told_;
  std::map<std::uint64_t, crypto::MerkleHash> roots_;  // by size
  std::set<std::pair<std::uint64_t, Address>> losers_;
};

}  // namespace cairn::simulator
