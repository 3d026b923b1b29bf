// Members: what the registry's newest version says to an index: who may change which names, and which nodes
// there are. A value, replaced as a whole.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/endpoint.h"
#include "format/descriptor_set.h"
#include "format/name_authority.h"
#include "io/dht.h"
#include "observe/log.h"
#include "runtime/broadcast.h"
#include "serve/events.h"
#include "serve/peers.h"

namespace cairn::index {

// Another index node.
struct IndexNode {
  std::string id;
  Endpoint at;
  std::string region;
  friend bool operator==(const IndexNode&, const IndexNode&) = default;
};

struct Members {
  bool known = false;  // a registry was read, or there is none to read
  format::NameAuthorities authorities;
  std::vector<IndexNode> index_nodes;                          // by id
  std::map<crypto::Ed25519PublicKey, std::string> regions_by;  // of every node key
  std::shared_ptr<io::DhtNode> dht;                            // none: it is not open yet
  std::uint32_t network = 0;                                   // the DHT's number

  // `own`: the key of this node, which is none of the others. Items that do not read are left out.
  static Members read(const format::DescriptorSet& set, const crypto::Ed25519PublicKey& own);
  friend bool operator==(const Members&, const Members&) = default;
};
using MembersPtr = std::shared_ptr<const Members>;

// The number of the network to which a registry with this first version belongs; never 0.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the peer outlives the call
Task<Result<std::uint32_t>> read_network(Call call, serve::Peer& registry);

// Reads the registry's newest version; nothing where it is the one with the number `known`.
// Cancel: clean.
struct NewestSet {
  std::uint64_t version = 0;
  format::DescriptorSet set;
};
// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the peer outlives the call
Task<Result<std::optional<NewestSet>>> read_newest_set(Call call, serve::Peer& registry,
                                                       std::optional<std::uint64_t> known);

// The body of an answer 200, of at most `most` bytes. Another answer is an error: `not_found` for 404,
// `degraded` for 429 and 5xx, else `not_allowed`. `accept` may be empty. Cancel: clean.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the peer outlives the call
Task<Result<std::string>> fetch(Call call, serve::Peer& peer, std::string target, std::string accept,
                                std::size_t most);

}  // namespace cairn::index
