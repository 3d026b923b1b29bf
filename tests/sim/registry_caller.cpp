#include "registry_caller.h"

#include <fmt/format.h>

#include <algorithm>

#include "client/registry_answer.h"
#include "codec/json_writer.h"

namespace cairn::simulator {

using client::RegistryHead;
using client::RegistryProposal;
using http::Method;

Task<> RegistryCaller::visit(Call call) {
  Server& server = pick_server();
  switch (draw_visit()) {
    case 0:
      (void)co_await govern(call, server);
      co_return;
    case 1:
      co_return co_await help(call, server);
    case 2:
      co_return co_await read_head(call, server);
    case 3:
      co_return co_await poll(call, server);
    case 4:
      co_return co_await follow(call, server);
    case 5:
      co_return co_await read_version(call, server);
    case 6:
      co_return co_await read_log(call, server, below(registry_.witness().newest() + 1));
    case 7:
      co_return co_await read_checkpoint(call, server);
    case 8:
      co_return co_await prove(call, server);
    case 9:
      co_return co_await repeat(call, server);
    default:
      co_return co_await forge(call, server);
  }
}

// Somebody commits something new, and everybody gets to see it.
Task<std::string> RegistryCaller::converge_with(Call call, Server& server, unsigned step) {
  if (step == 1) {
    const std::uint64_t before = registry_.healed_at();
    if (registry_.witness().newest() > before) co_return std::string();
    // Where few requests are let in, one after the other: it takes several to come to a commit.
    const std::int64_t turn = now().ns / 1'500'000'000 % scenario_.plan().visitors;
    if (scenario_.plan().tiny && turn != number_) co_return std::string("its turn");
    const std::string why = co_await govern(call.within(Duration::seconds(6)), server);
    if (registry_.witness().newest() > before) co_return std::string();
    co_return why.empty() ? std::string("no new version") : why;
  }
  const std::string target = step == 0 ? "/healthz" : "/registry/head";
  const std::uint32_t id = scenario_.open_request(server.number(), false);
  auto answer = co_await ask(call.within(Duration::seconds(3)), make(server, Method::get, target, id));
  if (!answer)
    co_return fmt::format("{}: {} ({})", target, name_of(answer.error().code), answer.error().context);
  scenario_.answered(static_cast<std::uint64_t>(answer->status));
  if (answer->status != 200) co_return fmt::format("{}: {} {}", target, answer->status, answer->body);
  if (step == 0) co_return std::string();
  RegistryHead head;
  if (!told(id, answer->body, head)) co_return std::string("a head that does not fit");
  if (head.version <= registry_.healed_at()) co_return fmt::format("the head is {}", head.version);
  co_return std::string();
}

// --- what all have in common

bool RegistryCaller::told(std::uint32_t id, const RegistryHead& head) {
  const Server& server = keeper(*scenario_.servers()[scenario_.request(id).server]);
  const std::string wrong = registry_.witness().take(head, now(), server.lives());
  if (!wrong.empty()) complain(id, wrong);
  return wrong.empty();
}

bool RegistryCaller::told(std::uint32_t id, std::string_view json, RegistryHead& head) {
  codec::JsonReader reader;
  const auto root = reader.parse(json);
  const auto parsed = root ? client::parse_head(*root) : fail(root.error());
  if (!parsed) {
    complain(id, "the head is " + std::string(json));
    return false;
  }
  head = *parsed;
  return told(id, head);
}

Task<RegistryCaller::Asked> RegistryCaller::tell(Call call, Server& server, std::string target,
                                                 std::string body, std::initializer_list<int> statuses) {
  Asked asked;
  asked.id = scenario_.open_request(server.number(), true);
  http::ClientRequest request = make(server, Method::post, std::move(target), asked.id);
  if (!body.empty()) {
    request.add_field("Content-Type", "application/json");
    request.set_text(std::move(body));
  }
  Expected expected{.statuses = statuses, .queued = true, .reads_disk = true, .writes_disk = true};
  asked.answer = co_await ask(call, std::move(request));
  asked.fine = judge(asked.id, asked.answer, Method::post, expected);
  co_return asked;
}

// --- changes

Task<std::string> RegistryCaller::govern(Call call, Server& server) {
  const registry::Founding& founding = registry_.founding();
  const bool supersede = below(6) == 0 && registry_.witness().newest() > 0;
  const auto proposal = co_await propose(call, server, supersede);
  if (!proposal) co_return std::string("no proposal");
  std::vector<unsigned> signers = founding.signers();
  const std::size_t rotate = below(signers.size());
  std::rotate(signers.begin(), signers.begin() + static_cast<std::ptrdiff_t>(rotate), signers.end());
  unsigned counted = 0;
  for (const unsigned signer : signers) {
    if (counted == founding.m()) break;
    const bool counts = co_await approve(call, server, *proposal, signer);
    counted += counts ? 1 : 0;
  }
  if (counted < founding.m() && below(4) != 0) co_return std::string("not enough approvals");
  const bool done = co_await commit(call, server, *proposal, counted >= founding.m(), supersede);
  co_return done ? std::string() : std::string("no commit");
}

// The whole of the next version: what genesis has, and some regions, of which nobody else has the first.
Task<std::optional<RegistryProposal>> RegistryCaller::propose(Call call, Server& server, bool supersede) {
  format::ProposalDraft draft;
  draft.items = registry_.founding().items;
  // A list that has little in common with an older one stands alone, and lets that one be pruned.
  if (registry_.prunes()) draft.items.resize(1);
  const std::uint64_t regions = registry_.prunes() ? 4 : 1 + below(3);
  for (std::uint64_t i = 0; i < regions; ++i)
    draft.items.push_back(registry::sample_region(1000 * (number_ + 1) + next_region_++ % 50));
  if (supersede) {
    draft.supersede_of = registry_.witness().newest();
    draft.reason = "a mistake";
  }
  std::string body;
  codec::JsonWriter json(body);
  format::write_proposal_json(draft, json);
  json.finish();
  Asked asked = co_await tell(call, server, "/registry/proposals", std::move(body), {202, 409});
  if (!asked.fine) co_return std::nullopt;
  if (asked.answer->status == 409) {
    if (!supersede) complain(asked.id, "refused: " + asked.answer->message);
    co_return std::nullopt;
  }
  codec::JsonReader reader;
  const auto root = reader.parse(asked.answer->body);
  auto proposal = root ? client::parse_proposal(*root) : fail(root.error());
  const auto set =
      proposal ? format::decode_descriptor_set(as_bytes(proposal->payload)) : fail(proposal.error());
  if (!set || set->items.size() != draft.items.size() || set->version != proposal->version) {
    complain(asked.id, "the proposal is " + asked.answer->body);
    co_return std::nullopt;
  }
  hit("registry.proposed");
  co_return std::move(*proposal);
}

Task<bool> RegistryCaller::approve(Call call, Server& server, RegistryProposal proposal, unsigned signer) {
  const format::Approval approval =
      format::sign_approval(format::sample_key(signer), format::sample_signer_id(signer), proposal.payload_b3,
                            machine_.shard.wall());
  std::string body;
  codec::JsonWriter json(body);
  format::write_approval_json(approval, json);
  json.finish();
  const Asked asked =
      co_await tell(call, server, "/registry/approvals/" + proposal.id, std::move(body), {200, 404, 409});
  if (!asked.fine) co_return false;
  if (asked.answer->status == 200) {
    hit("registry.approved");
    co_return true;
  }
  if (asked.answer->status == 404) {
    hit("registry.proposal_gone");
    if (!registry_.proposals_expire()) complain(asked.id, "a proposal that was acknowledged is not there");
    co_return false;
  }
  if (asked.answer->code == ErrorCode::duplicate_approval) {
    hit("registry.approved_again");
    co_return true;
  }
  if (asked.answer->code == ErrorCode::chain_mismatch) {
    const std::string wrong = registry_.witness().take_loser(proposal.version, proposal.payload_b3);
    if (!wrong.empty()) complain(asked.id, wrong);
    co_return false;
  }
  if (asked.answer->code != ErrorCode::conflict) complain(asked.id, "refused: " + asked.answer->message);
  co_return false;
}

Task<bool> RegistryCaller::commit(Call call, Server& server, RegistryProposal proposal, bool approved,
                                  bool supersede) {
  std::string target = supersede ? "/registry/supersede" : "/registry/commit/" + proposal.id;
  std::string body = supersede ? fmt::format("{{\"proposal_id\":\"{}\"}}", proposal.id) : std::string();
  const Asked asked = co_await tell(call, server, std::move(target), std::move(body), {200, 201, 404, 409});
  if (!asked.fine) co_return false;
  const Answer& answer = *asked.answer;
  if (answer.status == 404) {
    hit("registry.proposal_gone");
    if (!registry_.proposals_expire()) complain(asked.id, "a proposal that was acknowledged is not there");
    co_return false;
  }
  if (answer.status == 409) {
    if (answer.code == ErrorCode::chain_mismatch) {
      hit("registry.lost_the_race");
      const std::string wrong = registry_.witness().take_loser(proposal.version, proposal.payload_b3);
      if (!wrong.empty()) complain(asked.id, wrong);
    } else if (answer.code == ErrorCode::quorum_failed) {
      hit("registry.no_quorum");
      if (approved) complain(asked.id, "enough approvals were acknowledged: " + answer.message);
    } else if (!registry_.proposals_expire()) {
      complain(asked.id, "refused: " + answer.message);
    }
    co_return false;
  }
  RegistryHead head;
  if (!told(asked.id, answer.body, head)) co_return false;
  if (head.version != proposal.version || head.payload_b3 != proposal.payload_b3)
    complain(asked.id,
             fmt::format("the commit of {} answers with version {}", proposal.version, head.version));
  hit(answer.status == 201 ? io::sim::Tag("registry.committed") : io::sim::Tag("registry.committed_before"));
  if (supersede) hit("registry.superseded");
  if (!supersede) committed_.push_back(std::move(proposal));
  if (committed_.size() > 8) committed_.erase(committed_.begin());
  co_return true;
}

// Brings on what somebody else proposed.
Task<> RegistryCaller::help(Call call, Server& server) {
  const std::uint32_t id = scenario_.open_request(server.number(), false);
  auto answer = co_await ask(call, make(server, Method::get, "/registry/proposals", id));
  if (!judge(id, answer, Method::get, {.statuses = {200}, .queued = true})) co_return;
  codec::JsonReader reader;
  const auto root = reader.parse(answer->body);
  auto page = root ? client::parse_proposals(*root) : fail(root.error());
  if (!page) co_return complain(id, "the proposals are " + answer->body.substr(0, 200));
  if (page->proposals.empty()) co_return;
  const RegistryProposal chosen = page->proposals[below(page->proposals.size())];
  const auto& signers = registry_.founding().signers();
  (void)co_await approve(call, server, chosen, signers[below(signers.size())]);
  // It may be one that supersedes: then this is not how it is committed, and that is said.
  if (below(2) == 0 && registry_.proposals_expire())
    (void)co_await commit(call, server, chosen, false, false);
}

// Asks for a commit again that was done: the same answer.
Task<> RegistryCaller::repeat(Call call, Server& server) {
  if (committed_.empty()) co_return;
  const RegistryProposal proposal = committed_[below(committed_.size())];
  const Asked asked = co_await tell(call, server, "/registry/commit/" + proposal.id, "", {200, 404});
  if (!asked.fine) co_return;
  if (asked.answer->status == 404) {
    if (!registry_.prunes()) complain(asked.id, "a commit that was acknowledged is not there");
    co_return;
  }
  RegistryHead head;
  if (told(asked.id, asked.answer->body, head) && head.version != proposal.version)
    complain(asked.id, fmt::format("it was version {}, now {}", proposal.version, head.version));
  hit("registry.committed_before");
}

// A signature over something else.
Task<> RegistryCaller::forge(Call call, Server& server) {
  const auto proposal = co_await propose(call, server, false);
  if (!proposal) co_return;
  format::Approval approval = format::sign_approval(format::sample_key(1), format::sample_signer_id(1),
                                                    proposal->prev, machine_.shard.wall());
  std::string body;
  codec::JsonWriter json(body);
  format::write_approval_json(approval, json);
  json.finish();
  const Asked asked =
      co_await tell(call, server, "/registry/approvals/" + proposal->id, std::move(body), {400, 404, 409});
  if (!asked.fine) co_return;
  if (asked.answer->status == 400 && asked.answer->code != ErrorCode::invalid_sig)
    complain(asked.id, "refused as " + asked.answer->message);
  if (asked.answer->status == 400) hit("registry.bad_signature");
  if (asked.answer->status == 409 && asked.answer->code != ErrorCode::chain_mismatch &&
      asked.answer->code != ErrorCode::conflict)
    complain(asked.id, "refused as " + asked.answer->message);
}

}  // namespace cairn::simulator
