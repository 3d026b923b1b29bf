#include "services/index/dht_peers.h"

#include <algorithm>
#include <charconv>

#include "base/network.h"

namespace cairn::index {
namespace {

constexpr std::string_view first_line = "cairn-dht-peers-v1\n";
constexpr std::size_t file_max = first_line.size() + dht_peers_most * 100;

// One line: the node's id in hex, its address in hex, its port.
std::optional<io::DhtPeer> parse_line(std::string_view line) {
  io::DhtPeer peer;
  const std::size_t id = 2 * peer.id.size(), ip = 2 * peer.ip.size();
  if (line.size() < id + ip + 3 || line[id] != ' ' || line[id + 1 + ip] != ' ') return std::nullopt;
  if (!parse_hex_to(line.substr(0, id), std::as_writable_bytes(std::span(peer.id))) ||
      !parse_hex_to(line.substr(id + 1, ip), std::as_writable_bytes(std::span(peer.ip))))
    return std::nullopt;
  const std::string_view port = line.substr(id + ip + 2);
  const auto [end, problem] = std::from_chars(port.data(), port.data() + port.size(), peer.port);
  if (problem != std::errc() || end != port.data() + port.size() || peer.port == 0) return std::nullopt;
  return peer;
}

}  // namespace

std::string format_dht_peers(const std::vector<io::DhtPeer>& peers) {
  std::string out(first_line);
  for (std::size_t i = 0; i < std::min(peers.size(), dht_peers_most); ++i)
    out.append(format_hex(std::as_bytes(std::span(peers[i].id))))
        .append(" ")
        .append(format_hex(std::as_bytes(std::span(peers[i].ip))))
        .append(" ")
        .append(std::to_string(peers[i].port))
        .append("\n");
  return out;
}

std::vector<io::DhtPeer> parse_dht_peers(std::string_view text) {
  std::vector<io::DhtPeer> peers;
  if (!text.starts_with(first_line)) return peers;
  text.remove_prefix(first_line.size());
  while (!text.empty() && peers.size() < dht_peers_most) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return {};
    const auto peer = parse_line(text.substr(0, end));
    if (!peer) return {};
    peers.push_back(*peer);
    text.remove_prefix(end + 1);
  }
  return peers;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the machine outlives the call
Task<std::vector<io::DhtPeer>> read_dht_peers(Call call, io::Machine& machine, std::string path) {
  std::vector<io::DhtPeer> none;
  auto file = co_await machine.disk.open(call, path, io::OpenMode::read);
  if (!file) co_return none;
  const auto size = (*file)->size();
  if (!size || *size == 0 || *size > file_max) co_return none;
  auto bytes = std::make_shared<HeapBytes>(static_cast<std::size_t>(*size));
  const auto got = co_await (*file)->read_into(call, 0, {bytes->room(), bytes});
  if (!got) co_return none;
  bytes->fill(*got);
  co_return parse_dht_peers(as_text(bytes->bytes()));
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): both outlive the call
Task<> write_dht_peers(Call call, io::Machine& machine, io::Dht& dht, std::string path) {
  const auto peers = co_await dht.export_peers(call);
  if (!peers || peers->empty()) co_return;
  const std::string text = format_dht_peers(*peers), fresh = path + ".new";
  (void)co_await machine.disk.unlink(call, fresh);
  auto file = co_await machine.disk.open(call, fresh, io::OpenMode::create_new);
  if (!file) co_return;
  std::vector<HeapBytes> blocks;
  blocks.emplace_back(text.size());
  blocks.back().append(as_bytes(text));
  if (!co_await (*file)->write_blocks(call, 0, std::move(blocks), io::Sync::data)) co_return;
  (void)co_await machine.disk.rename(call, fresh, path);
}

}  // namespace cairn::index
