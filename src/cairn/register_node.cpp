#include "cairn/register_node.h"

#include <fmt/format.h>

#include "base/endpoint.h"
#include "client/registry_client.h"
#include "codec/json_reader.h"
#include "codec/json_writer.h"
#include "crypto/blake3.h"
#include "io/process.h"

namespace cairn::cli {
namespace {

constexpr int tries = 3;  // another commit may come between the steps

// One registry, one node of each role set: its name follows from the genesis it belongs to.
std::string node_id(const client::RegistryVersion& genesis, const NodeRegistration& wanted) {
  const std::string seed = format_address(genesis.head.commit_b3) + wanted.roles.front();
  return "node-" + format_address(crypto::hash_object(as_bytes(seed))).substr(3, 12);
}

client::Outcome<std::string> make_descriptor(const std::string& id, const NodeRegistration& wanted) {
  std::string text;
  codec::JsonWriter json(text);
  json.begin_object()
      .field("type", "node")
      .field("id", id)
      .field("addr", wanted.addr)
      .field("region", "local")
      .field("weight", 1u)
      .key("roles")
      .begin_array();
  for (const std::string& role : wanted.roles) json.value(role);
  json.end_array().end_object().finish();
  codec::JsonReader reader;
  auto root = reader.parse(text);
  if (!root) return fail(client::Failure(root.error()));
  auto item = format::item_from_json(*root);
  if (!item) return fail(client::Failure(item.error()));
  return std::move(*item);
}

// Makes the head as wanted. `conflict` and the like when another commit came between the steps.
Task<client::Outcome<>> register_once(Call call, client::RegistryClient* registry,
                                      const NodeRegistration* wanted) {
  CO_TRY(const client::RegistryVersion genesis, co_await registry->version(call, 0));
  CO_TRY(const client::RegistryHead head, co_await registry->head(call));
  CO_TRY(client::RegistryVersion present, co_await registry->version(call, head.version));
  const std::string id = node_id(genesis, *wanted);
  CO_TRY(const std::string item, make_descriptor(id, *wanted));
  format::ProposalDraft draft;
  for (std::string& known : present.set.items) {
    if (known == item) co_return client::Outcome<>{};
    const format::ItemName name = format::name_of_item(as_bytes(known));
    if (name.type != "node" || name.id != id) draft.items.push_back(std::move(known));
  }
  draft.items.push_back(item);
  auto governance = format::read_governance(draft.items);
  if (!governance) co_return fail(client::Failure(governance.error()));
  if (governance->m > 1 || wanted->key == nullptr || governance->find(wanted->signer) == nullptr)
    co_return fail(client::Failure(
        ErrorCode::quorum_failed,
        fmt::format("the registry wants {} approval{} that this process cannot give; propose it by hand: "
                    "cairn registry propose --add",
                    governance->m, governance->m == 1 ? "" : "s")));
  draft.expiry = present.set.expiry;
  CO_TRY(const client::RegistryProposal proposal, co_await registry->propose(call, std::move(draft)));
  format::Approval approval =
      format::sign_approval(*wanted->key, std::string(wanted->signer), proposal.payload_b3, io::wall_clock());
  CO_TRY_VOID(co_await registry->approve(call, proposal.id, std::move(approval)));
  CO_TRY_VOID(co_await registry->commit(call, proposal.id));
  co_return client::Outcome<>{};
}

}  // namespace

Task<client::Outcome<>> register_node(Call call, io::Machine* machine, NodeRegistration wanted) {
  client::TransportOptions options;
  const auto endpoint = parse_peer(wanted.registry);
  if (!endpoint) co_return fail(client::Failure(ErrorCode::invalid, "the registry has no address"));
  options.endpoint = *endpoint;
  options.token = wanted.token;
  options.tls = wanted.tls;
  client::Transport transport(*machine, std::move(options));
  client::RegistryClient registry(transport);
  client::Outcome<> outcome;
  for (int i = 0; i < tries; ++i) {
    outcome = co_await register_once(call, &registry, &wanted);
    if (outcome || outcome.error().code() != ErrorCode::chain_mismatch) break;
  }
  co_await transport.close(call.unbounded());
  co_return outcome;
}

}  // namespace cairn::cli
