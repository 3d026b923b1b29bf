// Changes: propose, approve, commit, supersede.
#include "codec/base64.h"
#include "codec/cbor.h"
#include "codec/json_reader.h"
#include "codec/json_writer.h"
#include "serve/answer.h"
#include "services/registry/incoming.h"
#include "services/registry/render.h"
#include "services/registry/shard.h"

namespace cairn::registry {

using codec::JsonWriter;
using serve::Request;

namespace {

Result<Ulid> id_of(std::string_view text) {
  const auto id = parse_ulid(text);
  if (!id) return fail(ErrorCode::not_found, "there is no such proposal", Side::client);
  return *id;
}

// The audit trail's name for the requested change.
std::string_view op_of(const Request& request) {
  const std::string_view op = RegistryShard::routes()[request.route.id].op;
  return op == "registry.govern" ? "supersede" : op.substr(op.find('.') + 1);
}

// The approvals of a commit's body, which is empty or {"approvals":[…]?}.
Result<std::vector<format::Approval>> read_approvals(std::string_view document, bool cbor) {
  std::vector<format::Approval> approvals;
  if (document.empty()) return approvals;
  const auto take = [&](Result<format::Approval> approval) -> Result<> {
    if (!approval) return fail(approval.error());
    approvals.push_back(std::move(*approval));
    if (approvals.size() > format::signers_max)
      return fail(ErrorCode::malformed, "more approvals than there can be signers", Side::client);
    return {};
  };
  if (cbor) {
    codec::CborDecoder in(as_bytes(document));
    TRY(const std::size_t fields, in.read_map());
    if (fields > 0) {
      TRY_VOID(in.expect_text("approvals"));
      TRY(const std::size_t count, in.read_array());
      for (std::size_t i = 0; i < count; ++i) TRY_VOID(take(format::read_approval(in)));
    }
    TRY_VOID(in.finish());
    return approvals;
  }
  codec::JsonReader reader;
  TRY(const codec::JsonValue root, reader.parse(document));
  TRY(codec::JsonObject object, root.object());
  TRY(const auto list, object.optional_items("approvals"));
  TRY_VOID(object.finish());
  if (list)
    for (const codec::JsonValue one : *list) TRY_VOID(take(format::read_approval(one)));
  return approvals;
}

// {"proposal_id": text}
Result<Ulid> read_proposal_id(std::string_view document, bool cbor) {
  if (cbor) {
    codec::CborDecoder in(as_bytes(document));
    TRY(const std::size_t fields, in.read_map());
    if (fields != 1)
      return fail(ErrorCode::malformed, "proposal_id is asked for, and nothing else", Side::client);
    TRY_VOID(in.expect_text("proposal_id"));
    TRY(const std::string_view text, in.read_text());
    TRY_VOID(in.finish());
    return id_of(text);
  }
  codec::JsonReader reader;
  TRY(const codec::JsonValue root, reader.parse(document));
  TRY(codec::JsonObject object, root.object());
  TRY(const auto text, object.required_string("proposal_id"));
  TRY_VOID(object.finish());
  return id_of(text);
}

// Answers with what is wrong with a document, not only that it is malformed.
void answer_malformed(Request& request, const Error& error, const std::string& why) {
  if (error.code != ErrorCode::malformed || why.empty()) {
    serve::answer_error(request, error);
    return;
  }
  std::string details;
  JsonWriter json(details);
  json.begin_object().field("why", why).end_object().finish();
  serve::answer_error(request, error, details);
}

}  // namespace

// --- the audit trail

// Before the capability is granted the caller is not known. With open access it has whatever name it gives.
void RegistryShard::refused(const Request& request, std::string_view op, const Error& error) {
  if (!port_ || op == "registry.admin") return;
  if (request.principal() != nullptr) return note_refusal(request, error.code);
  AuditEvent event{
      machine_.shard.wall(), 1, std::string(op_of(request)), std::string(name_of(error.code)), {}, {}, {}};
  shared_.registry->audit().with([&](AuditTable& table) { table.count(std::move(event)); });
}

void RegistryShard::note_refusal(const Request& request, ErrorCode code) {
  AuditEvent event;
  event.at = machine_.shard.wall();
  event.op = op_of(request);
  event.code = name_of(code);
  event.who = request.who();
  if (request.route.count > 0) event.id = parse_ulid(request.route.at[0].text);
  shared_.registry->audit().with([&](AuditTable& table) { table.note(std::move(event)); });
}

// Refuses a change before the committer is asked, and notes that.
std::unexpected<Error> RegistryShard::not_asked(const Request& request, const Error& error) {
  note_refusal(request, error.code);
  return fail(error);
}

// --- bodies

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request's state outlives it
Task<Result<>> RegistryShard::take_document(Call call, Request& request, Incoming& incoming) {
  auto taken = co_await read_document(call, request, incoming);
  // A client that went away was not refused.
  if (!taken && taken.error().code != ErrorCode::cancelled) note_refusal(request, taken.error().code);
  co_return taken;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request's state outlives it
Task<Result<>> RegistryShard::read_document(Call call, Request& request, Incoming& incoming) {
  // Decoded or not, a document is no larger than a body may be.
  const auto most = static_cast<std::size_t>(context_.settings.max_body);
  const http::RequestHead& head = request.head();
  const bool plain =
      head.body == http::BodyKind::length && !head.fields.has(http::FieldName::content_encoding);
  const std::size_t wanted = plain ? std::min<std::uint64_t>(most, head.content_length) : most;
  const store::Taker taker{request.share, request.contested};
  if (!shared_.ingest.try_take(wanted, taker))
    co_return fail(ErrorCode::busy, "too many bodies are on their way in");
  incoming.bytes = store::BudgetHold(shared_.ingest, wanted, taker.slot);
  std::string_view type = request.fields().get(http::FieldName::content_type);
  type = type.substr(0, type.find(';'));
  incoming.cbor = type == "application/cbor";
  if (!type.empty() && !incoming.cbor && type != "application/json" &&
      type != "application/x-www-form-urlencoded")
    co_return fail(ErrorCode::unsupported_type, "send application/json or application/cbor", Side::client);
  serve::Body body(request, machine_.slab, context_.settings.decode);
  CO_TRY(incoming.document, co_await body.read_all(call, most));
  co_return Result<>{};
}

// The committer counts and notes the changes that reach it. A change that found no place in its queue is
// counted and noted here. A change that was not answered in time is noted as late, whatever its outcome.
std::unexpected<Error> RegistryShard::turned_away(const Request& request, const Error& error,
                                                  std::string_view queue) {
  const bool no_place = error.code == ErrorCode::busy && std::string_view(error.context) == queue_is_full;
  if (no_place) {
    ++shared_.registry->status().refused;
    context_.metrics.count_dropped(queue, slot_);
  }
  if (no_place || is_late_errand(error)) note_refusal(request, error.code);
  return fail(error);
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request's state outlives it
Task<Result<>> RegistryShard::propose(Call call, Request& request, Incoming& incoming) {
  std::string why;
  auto draft = incoming.cbor ? format::decode_proposal_cbor(as_bytes(incoming.document), &good_keys_)
                             : format::parse_proposal_json(incoming.document, why, &good_keys_);
  if (!draft) {
    note_refusal(request, draft.error().code);
    answer_malformed(request, draft.error(), why);
    co_return Result<>{};
  }
  auto proposed = co_await port_->propose(call, std::string(request.who()), std::move(*draft));
  if (!proposed) co_return turned_away(request, proposed.error(), "proposals");
  request.response.status = 202;
  request.response.add_field("Location", "/registry/proposals/" + format_ulid(proposed->id));
  JsonWriter json(request.response.text);
  json.begin_object()
      .field("proposal_id", format_ulid(proposed->id))
      .field("version", proposed->set.version)
      .field("prev", format_address(proposed->set.prev))
      .field("payload_b3", format_address(proposed->payload_b3))
      .field("payload", codec::encode_base64(as_bytes(proposed->payload)))
      .field("expires_at", format_rfc3339(proposed->expires))
      .end_object()
      .finish();
  request.response.answer_text("application/json");
  co_return Result<>{};
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request's state outlives it
Task<Result<>> RegistryShard::approve(Call call, Request& request, Incoming& incoming) {
  const auto id = id_of(request.route.at[0].text);
  if (!id) co_return not_asked(request, id.error());
  std::string why;
  auto approval = incoming.cbor ? format::decode_approval_cbor(as_bytes(incoming.document))
                                : format::parse_approval_json(incoming.document, why);
  if (!approval) {
    note_refusal(request, approval.error().code);
    answer_malformed(request, approval.error(), why);
    co_return Result<>{};
  }
  auto approved = co_await port_->approve(call, std::string(request.who()), *id, std::move(*approval));
  if (!approved) co_return turned_away(request, approved.error(), "approvals");
  JsonWriter json(request.response.text);
  json.begin_object()
      .field("approvals", approved->approvals)
      .key("quorum")
      .begin_object()
      .field("m", approved->m)
      .field("n", approved->n)
      .end_object()
      .end_object()
      .finish();
  request.response.answer_text("application/json");
  co_return Result<>{};
}

void RegistryShard::answer_committed(Request& request, const Outcome& outcome) {
  request.response.status = outcome.existed ? 200 : 201;
  request.response.add_field("Location", "/registry/" + std::to_string(outcome.head.version));
  JsonWriter json(request.response.text);
  write_head(json, outcome.head);
  json.finish();
  request.response.answer_text("application/json");
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request's state outlives it
Task<Result<>> RegistryShard::commit(Call call, Request& request, Incoming& incoming) {
  const auto id = id_of(request.route.at[0].text);
  if (!id) co_return not_asked(request, id.error());
  // The body may bring approvals: so the last signer needs one request less, and the registry one sync less.
  auto approvals = read_approvals(incoming.document, incoming.cbor);
  if (!approvals) co_return not_asked(request, approvals.error());
  auto done = co_await port_->commit(call, std::string(request.who()), *id, false, std::move(*approvals));
  if (!done) co_return turned_away(request, done.error(), "commits");
  answer_committed(request, *done);
  co_return Result<>{};
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request's state outlives it
Task<Result<>> RegistryShard::supersede(Call call, Request& request, Incoming& incoming) {
  const auto id = read_proposal_id(incoming.document, incoming.cbor);
  if (!id) co_return not_asked(request, id.error());
  auto done = co_await port_->commit(call, std::string(request.who()), *id, true);
  if (!done) co_return turned_away(request, done.error(), "commits");
  answer_committed(request, *done);
  co_return Result<>{};
}

}  // namespace cairn::registry
