#include "services/index/members.h"

#include <algorithm>
#include <cstring>

#include "codec/json_reader.h"
#include "crypto/blake3.h"
#include "format/node_item.h"

namespace cairn::index {
namespace {

constexpr std::size_t head_max = 4096;
constexpr std::size_t set_max = std::size_t{64} << 20;
constexpr std::string_view index_role = "index";

std::unexpected<Error> bad_answer(const char* why) { return fail(ErrorCode::upstream, why, Side::upstream); }

}  // namespace

Members Members::read(const format::DescriptorSet& set, const crypto::Ed25519PublicKey& own) {
  Members out;
  out.known = true;
  if (auto authorities = format::NameAuthorities::read(set.items)) out.authorities = std::move(*authorities);
  for (const std::string& item : set.items) {
    if (format::name_of_item(as_bytes(item)).type != format::node_item_type) continue;
    const auto node = format::read_node_item(as_bytes(item));
    if (!node) continue;
    for (const crypto::Ed25519PublicKey& key : node->keys) out.regions_by[key] = node->region;
    const auto at = parse_peer(node->addr);
    const bool is_own = std::ranges::find(node->keys, own) != node->keys.end();
    if (at && !is_own && node->has_role(index_role))
      out.index_nodes.push_back({std::string(node->id), *at, std::string(node->region)});
  }
  std::ranges::sort(out.index_nodes, {}, &IndexNode::id);
  return out;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the peer outlives the call
Task<Result<std::string>> fetch(Call call, serve::Peer& peer, std::string target, std::string accept,
                                std::size_t most) {
  serve::Peer::Handle passed = peer.call();
  passed->start(http::Method::get, target, {});
  if (!accept.empty()) passed->add_field("Accept", accept);
  CO_TRY_VOID(co_await passed->ask(call));
  const int status = passed->status();
  if (status == 404) co_return fail(ErrorCode::not_found, "the peer does not have it", Side::upstream);
  if (status == 429 || status >= 500)
    co_return fail(ErrorCode::degraded, "the peer cannot now", Side::upstream);
  if (status != 200) co_return fail(ErrorCode::not_allowed, "the peer refuses", Side::upstream);
  std::string body;
  while (!passed->done()) {
    CO_TRY(const io::Piece piece, co_await passed->next(call));
    if (piece.empty()) break;
    if (piece.size() > most - body.size()) co_return bad_answer("the peer's answer is too long");
    body.append(as_text(piece.bytes));
  }
  co_return body;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the peer outlives the call
Task<Result<std::uint32_t>> read_network(Call call, serve::Peer& registry) {
  CO_TRY(const std::string genesis,
         co_await fetch(call, registry, "/registry/0", "application/cbor", set_max));
  const Address hash = crypto::hash_object(as_bytes(genesis));
  std::uint32_t network = 0;
  std::memcpy(&network, hash.bytes.data(), sizeof network);
  co_return network == 0 ? 1 : network;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the peer outlives the call
Task<Result<std::optional<NewestSet>>> read_newest_set(Call call, serve::Peer& registry,
                                                       std::optional<std::uint64_t> known) {
  CO_TRY(const std::string head, co_await fetch(call, registry, "/registry/head", "", head_max));
  codec::JsonReader reader;
  const auto root = reader.parse(head);
  if (!root) co_return bad_answer("the registry's head is no JSON");
  auto object = root->object();
  const auto version = object ? object->required_uint("version") : fail(ErrorCode::malformed, "no object");
  if (!version) co_return bad_answer("the registry's head has no version");
  if (known == *version) co_return std::optional<NewestSet>();
  CO_TRY(const std::string payload, co_await fetch(call, registry, "/registry/" + std::to_string(*version),
                                                   "application/cbor", set_max));
  auto set = format::decode_descriptor_set(as_bytes(payload));
  if (!set) co_return bad_answer("the registry's version does not decode");
  co_return NewestSet{*version, std::move(*set)};
}

}  // namespace cairn::index
