#include "client/registry_client.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/ulid.h"
#include "client/answer.h"
#include "client/registry_answer.h"
#include "codec/json_reader.h"
#include "codec/json_writer.h"
#include "runtime/wait.h"

namespace cairn::client {
namespace {

constexpr std::size_t small_answer_max = 4 << 20;
// The answer holds a set in base64, and in JSON beside it.
constexpr std::size_t answer_max = 6 * format::descriptor_set_size_max;
constexpr std::size_t list_answer_max = std::size_t{64} << 20;
constexpr std::size_t tile_max = 256 * (crypto::entry_size_max + 2);
constexpr BackoffPolicy follow_backoff{
    .base = Duration::millis(200), .cap = Duration::seconds(10), .tries = 0};

// Compares the proposal that the server made with the draft; returns the difference, if there is one.
std::optional<std::string> differs(const RegistryProposal& proposal, const format::ProposalDraft& draft) {
  auto set = format::decode_descriptor_set(as_bytes(proposal.payload));
  if (!set) return "the payload is not a descriptor set";
  if (set->version != proposal.version || set->prev != proposal.prev)
    return "the payload is of another version than the answer says";
  std::vector<std::string> asked = draft.items;
  std::ranges::sort(asked);
  std::ranges::sort(set->items);
  if (asked != set->items) return "the payload has other items than were proposed";
  if (set->expiry != draft.expiry || set->supersede_of != draft.supersede_of || set->reason != draft.reason)
    return "the payload has another expiry, supersede_of or reason than was proposed";
  return std::nullopt;
}

Failure rolled_back(std::uint64_t seen) {
  return Failure(
      ErrorCode::integrity,
      fmt::format("version {} was seen and is not there any more: the registry was rolled back", seen),
      Side::upstream);
}
Failure forked(std::uint64_t seen) {
  return Failure(
      ErrorCode::integrity,
      fmt::format("what comes does not follow version {} as it was seen: the registry has another history",
                  seen),
      Side::upstream);
}

Failure not_an_id() { return Failure(ErrorCode::invalid, "that is not the id of a proposal (a ULID)"); }

}  // namespace

bool is_proposal_id(std::string_view text) noexcept { return parse_ulid(text).has_value(); }

Outcome<RegistryProposal> parse_proposal_answer(std::string_view text) {
  codec::JsonReader reader({.bytes = answer_max});
  const auto root = reader.parse(text);
  if (!root) return fail(Failure(ErrorCode::malformed, reader.detail()));
  auto proposal = parse_proposal(*root);
  if (proposal) return std::move(*proposal);
  if (proposal.error().code == ErrorCode::integrity) return fail(Failure(proposal.error()));
  return fail(Failure(ErrorCode::malformed, reader.detail()));
}

Task<Outcome<RegistryHead>> RegistryClient::head(Call call) {
  Ask ask{.target = "/registry/head"};
  std::string asked = transport_.describe(ask);
  CO_TRY(const std::string text, co_await transport_.send_for_text(call, std::move(ask), small_answer_max));
  co_return read_answer(std::move(asked), text, parse_head, small_answer_max);
}

Task<Outcome<std::optional<RegistryHead>>> RegistryClient::head_after(Call call, std::uint64_t after,
                                                                      Duration wait) {
  // The server may answer at the very end of the wait. Such an answer must not look like silence.
  const Duration patience = transport_.options().first_byte - transport_.options().first_byte / 6;
  const std::int64_t seconds = std::max<std::int64_t>(1, std::min(wait, patience).to_millis() / 1000);
  Ask ask{.target = fmt::format("/registry/head?after={}&wait={}s", after, seconds)};
  std::string asked = transport_.describe(ask);
  auto text = co_await transport_.send_for_text(call, std::move(ask), small_answer_max);
  if (!text && text.error().status == 304) co_return std::nullopt;
  if (!text) co_return fail(std::move(text.error()));
  if (text->empty()) co_return std::nullopt;
  co_return read_answer(std::move(asked), *text, parse_head, small_answer_max);
}

Task<Outcome<RegistryVersion>> RegistryClient::version(Call call, std::uint64_t version) {
  Ask ask{.target = fmt::format("/registry/{}", version)};
  ask.fields.emplace_back("Accept", "application/json");
  std::string asked = transport_.describe(ask);
  CO_TRY(const std::string text, co_await transport_.send_for_text(call, std::move(ask), answer_max));
  CO_TRY(RegistryVersion found, read_answer(asked, text, parse_version, answer_max));
  if (found.head.version != version)
    co_return about_another(std::move(asked),
                            fmt::format("version {} was asked for, not {}", version, found.head.version));
  co_return found;
}

Task<Outcome<std::vector<RegistryHead>>> RegistryClient::log(Call call, std::uint64_t from,
                                                             std::uint64_t limit) {
  Ask ask{.target = fmt::format("/registry/log?from={}&limit={}", from, limit)};
  std::string asked = transport_.describe(ask);
  CO_TRY(const std::string text, co_await transport_.send_for_text(call, std::move(ask), list_answer_max));
  CO_TRY(std::vector<RegistryHead> heads, read_answer(asked, text, parse_heads, list_answer_max));
  if (!heads.empty() && heads.front().version < from)
    co_return about_another(std::move(asked), "the log's answer begins before what was asked for");
  co_return heads;
}

Task<Outcome<>> RegistryClient::check_kept(Call call, RegistryHead seen) {
  const auto heads = co_await log(call, seen.version, 1);
  // A pruned version cannot be compared.
  if (!heads && heads.error().code() == ErrorCode::pruned) co_return Outcome<>{};
  if (!heads) co_return fail(heads.error());
  if (heads->empty()) co_return fail(rolled_back(seen.version));
  if (heads->front().version != seen.version || heads->front().commit_b3 != seen.commit_b3)
    co_return fail(forked(seen.version));
  co_return Outcome<>{};
}

Task<Outcome<>> RegistryClient::check_grown(Call call, RegistryHead seen, RegistryHead now) {
  if (now.version < seen.version) co_return fail(rolled_back(seen.version));
  if (now.version == seen.version) {
    if (now.commit_b3 != seen.commit_b3) co_return fail(forked(seen.version));
    co_return Outcome<>{};
  }
  if (now.version == seen.version + 1 && now.prev) {
    if (*now.prev != seen.commit_b3) co_return fail(forked(seen.version));
    co_return Outcome<>{};
  }
  if (!seen.root || !now.root) co_return co_await check_kept(call, seen);
  CO_TRY(const std::vector<crypto::MerkleHash> proof,
         co_await consistency(call, seen.version + 1, now.version + 1));
  if (!crypto::verify_consistency(seen.version + 1, now.version + 1, proof, *seen.root, *now.root))
    co_return fail(forked(seen.version));
  co_return Outcome<>{};
}

Task<Outcome<ProposalPage>> RegistryClient::proposals(Call call, std::string after) {
  if (!after.empty() && !is_proposal_id(after)) co_return fail(not_an_id());
  Ask ask{.target = after.empty() ? "/registry/proposals" : "/registry/proposals?after=" + after};
  std::string asked = transport_.describe(ask);
  CO_TRY(const std::string text, co_await transport_.send_for_text(call, std::move(ask), answer_max));
  CO_TRY(ProposalPage page, read_answer(asked, text, parse_proposals, answer_max));
  // Ids only grow. Without this check a list that repeats ids would never end.
  if (!page.next.empty() && !after.empty() && *parse_ulid(page.next) <= *parse_ulid(after))
    co_return about_another(std::move(asked), "the server's list does not go on");
  co_return page;
}

Task<Outcome<AuditPage>> RegistryClient::audit(Call call, std::optional<std::uint64_t> after,
                                               std::uint64_t limit) {
  Ask ask{.target = "/registry/audit?limit=" + std::to_string(limit)};
  if (after) ask.target += "&after=" + std::to_string(*after);
  std::string asked = transport_.describe(ask);
  CO_TRY(const std::string text, co_await transport_.send_for_text(call, std::move(ask), answer_max));
  CO_TRY(AuditPage page, read_answer(asked, text, parse_audit, answer_max));
  if (page.next && *page.next <= after.value_or(0))
    co_return about_another(std::move(asked), "the server's list does not go on");
  co_return page;
}

Task<Outcome<RegistryProposal>> RegistryClient::proposal(Call call, std::string id) {
  if (!is_proposal_id(id)) co_return fail(not_an_id());
  Ask ask{.target = "/registry/proposals/" + id};
  std::string asked = transport_.describe(ask);
  CO_TRY(const std::string text, co_await transport_.send_for_text(call, std::move(ask), answer_max));
  CO_TRY(RegistryProposal found, read_answer(asked, text, parse_proposal, answer_max));
  if (parse_ulid(found.id) != parse_ulid(id))
    co_return about_another(std::move(asked), "the answer is about another proposal");
  if (found.payload.empty()) co_return about_another(std::move(asked), "the answer has no payload");
  co_return found;
}

Task<Outcome<RegistryProposal>> RegistryClient::propose(Call call, format::ProposalDraft draft) {
  Ask ask{.method = http::Method::post, .target = "/registry/proposals", .has_body = true};
  codec::JsonWriter json(ask.text);
  format::write_proposal_json(draft, json);
  json.finish();
  ask.fields.emplace_back("Content-Type", "application/json");
  std::string asked = transport_.describe(ask);
  CO_TRY(const std::string text, co_await transport_.send_for_text(call, std::move(ask), answer_max));
  CO_TRY(RegistryProposal made, read_answer(asked, text, parse_proposal, answer_max));
  if (auto why = differs(made, draft)) co_return about_another(std::move(asked), std::move(*why));
  co_return made;
}

Task<Outcome<ApprovalCount>> RegistryClient::approve(Call call, std::string id, format::Approval approval) {
  if (!is_proposal_id(id)) co_return fail(not_an_id());
  Ask ask{.method = http::Method::post, .target = "/registry/approvals/" + id, .has_body = true};
  codec::JsonWriter json(ask.text);
  format::write_approval_json(approval, json);
  json.finish();
  ask.fields.emplace_back("Content-Type", "application/json");
  std::string asked = transport_.describe(ask);
  CO_TRY(const std::string text, co_await transport_.send_for_text(call, std::move(ask), small_answer_max));
  co_return read_answer(std::move(asked), text, parse_approval_count, small_answer_max);
}

Task<Outcome<Committed>> RegistryClient::commit_by(Call call, Ask ask) {
  std::string asked = transport_.describe(ask);
  CO_TRY(http::ClientResponse response, co_await transport_.send(call, std::move(ask)));
  const bool fresh = response.status() == 201;
  auto text = co_await response.read_text(call.within(transport_.options().stall), small_answer_max);
  if (!text) {
    Failure failure(text.error());
    failure.asked = std::move(asked);
    co_return fail(std::move(failure));
  }
  CO_TRY(const RegistryHead head, read_answer(std::move(asked), *text, parse_head, small_answer_max));
  co_return Committed{head, fresh};
}

Task<Outcome<Committed>> RegistryClient::commit(Call call, std::string id,
                                                std::vector<format::Approval> approvals) {
  if (!is_proposal_id(id)) co_return fail(not_an_id());
  Ask ask{.method = http::Method::post, .target = "/registry/commit/" + id, .repeatable = true};
  if (!approvals.empty()) {
    codec::JsonWriter json(ask.text);
    json.begin_object().key("approvals").begin_array();
    for (const format::Approval& approval : approvals) format::write_approval_json(approval, json);
    json.end_array().end_object().finish();
    ask.has_body = true;
    ask.fields.emplace_back("Content-Type", "application/json");
  }
  co_return co_await commit_by(call, std::move(ask));
}

Task<Outcome<Committed>> RegistryClient::supersede(Call call, std::string id) {
  if (!is_proposal_id(id)) co_return fail(not_an_id());
  Ask ask{.method = http::Method::post, .target = "/registry/supersede", .has_body = true};
  codec::JsonWriter json(ask.text);
  json.begin_object().field("proposal_id", id).end_object().finish();
  ask.fields.emplace_back("Content-Type", "application/json");
  co_return co_await commit_by(call, std::move(ask));
}

Task<Outcome<std::string>> RegistryClient::checkpoint(Call call) {
  return transport_.send_for_text(call, {.target = "/registry/checkpoint"}, small_answer_max);
}

Task<Outcome<InclusionProof>> RegistryClient::inclusion(Call call, std::uint64_t version,
                                                        std::uint64_t size) {
  Ask ask{.target = fmt::format("/registry/proof/inclusion?version={}&size={}", version, size)};
  std::string asked = transport_.describe(ask);
  CO_TRY(const std::string text, co_await transport_.send_for_text(call, std::move(ask), small_answer_max));
  CO_TRY(std::vector<crypto::MerkleHash> hashes,
         read_answer(std::move(asked), text, parse_hashes, small_answer_max));
  co_return InclusionProof{version, size, std::move(hashes)};
}

Task<Outcome<std::vector<crypto::MerkleHash>>> RegistryClient::consistency(Call call, std::uint64_t from,
                                                                           std::uint64_t to) {
  Ask ask{.target = fmt::format("/registry/proof/consistency?from={}&to={}", from, to)};
  std::string asked = transport_.describe(ask);
  CO_TRY(const std::string text, co_await transport_.send_for_text(call, std::move(ask), small_answer_max));
  co_return read_answer(std::move(asked), text, parse_hashes, small_answer_max);
}

Task<Outcome<std::string>> RegistryClient::tile(Call call, crypto::TileId tile) {
  return transport_.send_for_text(call, {.target = "/registry/" + crypto::format_tile_path(tile)}, tile_max);
}

namespace {

// `head` is the newest one, to go on from.
Result<FollowEvent> parse_lagged(const codec::JsonValue& root) {
  FollowEvent event{.kind = FollowEvent::Kind::lagged};
  TRY(codec::JsonObject object, root.object());
  TRY(event.missed, object.required_uint("missed"));
  if (const auto head = object.find("head"); head && head->kind() == codec::JsonKind::object) {
    TRY(event.head, parse_head(*head));
  }
  return event;
}

Result<std::uint64_t> parse_rollback(const codec::JsonValue& root) {
  TRY(codec::JsonObject object, root.object());
  return object.required_uint("last");
}

}  // namespace

// The state that a follower keeps from one connection to the next.
struct RegistryClient::Following {
  std::optional<RegistryHead> seen;
  std::function<bool(const FollowEvent&)> take;
  Backoff backoff{follow_backoff};
  std::optional<std::uint64_t> retry_ms = {};
  bool again = false;  // it is connecting again
};

// False when `take` has enough. An event that cannot be parsed is an error: ignoring it would hide it.
Task<Outcome<bool>> RegistryClient::take_event(Call call, Following* following, http::SseEvent event) {
  following->backoff.reset();
  std::optional<RegistryHead>& seen = following->seen;
  FollowEvent told;
  if (event.event == "head") {
    CO_TRY(told.head, read_answer({}, event.data, parse_head, small_answer_max));
  } else if (event.event == "lagged") {
    CO_TRY(told, read_answer({}, event.data, parse_lagged, small_answer_max));
  } else if (event.event == "rollback") {
    CO_TRY(const std::uint64_t last, read_answer({}, event.data, parse_rollback, small_answer_max));
    co_return fail(rolled_back(last));
  } else {
    co_return true;
  }
  if (told.head) {
    if (seen) CO_TRY_VOID(co_await check_grown(call, *seen, *told.head));
    const bool known = seen && told.head->version == seen->version;
    // A head that was only read from the log has no root yet.
    if (!known || !seen->root) seen = told.head;
    if (known && told.kind == FollowEvent::Kind::head) co_return true;
  }
  co_return following->take(told);
}

Task<Outcome<bool>> RegistryClient::follow_once(Call call, Following* following) {
  Ask ask{.target = "/registry/stream", .patient = false};
  ask.fields.emplace_back("Accept", "text/event-stream");
  if (following->seen) ask.fields.emplace_back("Last-Event-ID", fmt::format("{}", following->seen->version));
  std::string asked = transport_.describe(ask);
  // The server that answers now may not be the one that answered before.
  if (std::exchange(following->again, true) && following->seen)
    CO_TRY_VOID(co_await check_kept(call, *following->seen));
  CO_TRY(http::ClientResponse response, co_await transport_.send(call, std::move(ask)));
  http::SseParser parser;
  for (;;) {
    auto slice = co_await transport_.next(call, response);
    if (!slice) {
      Failure failure(slice.error());
      failure.asked = std::move(asked);
      co_return fail(std::move(failure));
    }
    if (slice->empty()) co_return false;
    std::string_view bytes = as_text(slice->bytes());
    for (;;) {
      const auto whole = parser.next(bytes);
      if (!whole) co_return fail(not_understood(std::move(asked), whole.error(), {}));
      following->retry_ms = parser.retry_ms();
      if (!*whole) break;
      auto more = co_await take_event(call, following, parser.event());
      if (!more) {
        if (more.error().asked.empty()) more.error().asked = std::move(asked);
        co_return fail(std::move(more.error()));
      }
      if (!*more) co_return true;
    }
  }
}

Task<Outcome<>> RegistryClient::follow(Call call, std::optional<RegistryHead> after,
                                       std::function<bool(const FollowEvent&)> take) {
  Following following{.seen = after, .take = std::move(take)};
  for (;;) {
    auto ended = co_await follow_once(call, &following);
    if (ended && *ended) co_return Outcome<>{};
    if (call.stopped()) co_return fail(Failure(ErrorCode::cancelled, "stopped"));
    std::string why = "the server ended the stream";
    if (!ended) {
      // Streams have heartbeats, so silence means a lost connection: try again. An answer that cannot be
      // parsed is final.
      const Failure& failure = ended.error();
      const bool silent = failure.status == 0 && failure.code() == ErrorCode::timeout;
      const bool odd = failure.status == 0 && failure.code() == ErrorCode::upstream;
      if (!silent && (odd || !may_pass(failure))) co_return fail(std::move(ended.error()));
      why = ended.error().message;
    }
    if (!following.take({.kind = FollowEvent::Kind::lost, .why = std::move(why)})) co_return Outcome<>{};
    Duration wait = *following.backoff.next(transport_.machine().shard.random());
    if (following.retry_ms)
      wait = std::max(
          wait,
          Duration::millis(static_cast<std::int64_t>(std::min<std::uint64_t>(*following.retry_ms, 60'000))));
    if (!ended && ended.error().retry_after) wait = std::max(wait, *ended.error().retry_after);
    if (auto slept = co_await sleep_for(call, wait); !slept) co_return fail(Failure(slept.error()));
  }
}

}  // namespace cairn::client
