// The file in which a node of the DHT remembers others for its next start (docs/formats/dht-peers.md). It is
// a convenience: a file that does not read is as if there were none.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/dht.h"
#include "io/machine.h"

namespace cairn::index {

inline constexpr std::size_t dht_peers_most = 256;

std::string format_dht_peers(const std::vector<io::DhtPeer>& peers);
// Nothing: it is no such file, or one of a newer version.
std::vector<io::DhtPeer> parse_dht_peers(std::string_view text);

// Cancel: clean.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the machine outlives the call
Task<std::vector<io::DhtPeer>> read_dht_peers(Call call, io::Machine& machine, std::string path);
// Replaces the file as a whole; does nothing where there is no peer to remember. Cancel: partial — the old
// file or the new one is there.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): both outlive the call
Task<> write_dht_peers(Call call, io::Machine& machine, io::Dht& dht, std::string path);

}  // namespace cairn::index
