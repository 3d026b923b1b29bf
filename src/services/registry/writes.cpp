// Changes: propose, approve, commit, supersede.
#include "codec/base64.h"
#include "codec/cbor.h"
#include "codec/json_reader.h"
#include "codec/json_writer.h"
#include "serve/answer.h"
#include "serve/authorizer.h"
#include "services/registry/incoming.h"
#include "services/registry/render.h"
#include "services/registry/shard.h"

namespace cairn::registry {

using codec::JsonWriter;
using http::Exchange;

namespace {

Result<Ulid> id_of(std::string_view text) {
  const auto id = parse_ulid(text);
  if (!id) return fail(ErrorCode::not_found, "there is no such proposal", Side::client);
  return *id;
}

// What a token says beyond its name is its own.
std::string who_asks(const Exchange& exchange) {
  return name_of_token(serve::find_bearer(exchange.request().fields));
}

// The change that is asked for, as the audit calls it.
std::string_view op_of(const Exchange& exchange) {
  const std::string_view op = RegistryShard::routes()[exchange.route.id].op;
  return op == "registry.govern" ? "supersede" : op.substr(op.find('.') + 1);
}

// Of a commit's body: none, or {"approvals":[…]?}.
Result<std::vector<client::Approval>> read_approvals(std::string_view document, bool cbor) {
  std::vector<client::Approval> approvals;
  if (document.empty()) return approvals;
  const auto take = [&](Result<client::Approval> approval) -> Result<> {
    if (!approval) return fail(approval.error());
    approvals.push_back(std::move(*approval));
    if (approvals.size() > client::signers_max)
      return fail(ErrorCode::malformed, "more approvals than there can be signers", Side::client);
    return {};
  };
  if (cbor) {
    codec::CborDecoder in(as_bytes(document));
    TRY(const std::size_t fields, in.read_map());
    if (fields > 0) {
      TRY_VOID(in.expect_text("approvals"));
      TRY(const std::size_t count, in.read_array());
      for (std::size_t i = 0; i < count; ++i) TRY_VOID(take(client::read_approval(in)));
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
    for (const codec::JsonValue one : *list) TRY_VOID(take(client::read_approval(one)));
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

// What is wrong with a document, beside that it is malformed.
void answer_malformed(Exchange& exchange, const Error& error, const std::string& why) {
  if (error.code != ErrorCode::malformed || why.empty()) {
    serve::answer_error(exchange, error);
    return;
  }
  std::string details;
  JsonWriter json(details);
  json.begin_object().field("why", why).end_object().finish();
  serve::answer_error(exchange, error, details);
}

}  // namespace

// --- the audit trail

// Nobody is known before the capability was granted; with open access everybody is whoever they say.
void RegistryShard::refused(const Exchange& exchange, std::string_view op, const Error& error) {
  if (!port_ || op == "registry.admin") return;
  if (exchange.capability) return note_refusal(exchange, error.code);
  AuditEvent event{
      machine_.shard.wall(), 1, std::string(op_of(exchange)), std::string(name_of(error.code)), {}, {}, {}};
  shared_.registry->audit().with([&](AuditTable& table) { table.count(std::move(event)); });
}

void RegistryShard::note_refusal(const Exchange& exchange, ErrorCode code) {
  AuditEvent event;
  event.at = machine_.shard.wall();
  event.op = op_of(exchange);
  event.code = name_of(code);
  event.who = who_asks(exchange);
  if (exchange.route.count > 0) event.id = parse_ulid(exchange.route.at[0].text);
  shared_.registry->audit().with([&](AuditTable& table) { table.note(std::move(event)); });
}

// The committer was not asked for it.
std::unexpected<Error> RegistryShard::not_asked(const Exchange& exchange, const Error& error) {
  note_refusal(exchange, error.code);
  return fail(error);
}

// --- bodies

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request's state outlives it
Task<Result<>> RegistryShard::take_document(Call call, Exchange& exchange, Incoming& incoming) {
  auto taken = co_await read_document(call, exchange, incoming);
  // Who went away was refused nothing.
  if (!taken && taken.error().code != ErrorCode::cancelled) note_refusal(exchange, taken.error().code);
  co_return taken;
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request's state outlives it
Task<Result<>> RegistryShard::read_document(Call call, Exchange& exchange, Incoming& incoming) {
  // Decoded or not, a document is no larger than a body may be.
  const auto most = static_cast<std::size_t>(context_.settings.max_body);
  const http::RequestHead& head = exchange.request();
  const bool plain =
      head.body == http::BodyKind::length && !head.fields.has(http::FieldName::content_encoding);
  const std::size_t wanted = plain ? std::min<std::uint64_t>(most, head.content_length) : most;
  const store::Taker taker{exchange.share, exchange.contested};
  if (!shared_.ingest.try_take(wanted, taker))
    co_return fail(ErrorCode::busy, "too many bodies are on their way in");
  incoming.bytes = store::BudgetHold(shared_.ingest, wanted, taker.slot);
  std::string_view type = exchange.request().fields.get(http::FieldName::content_type);
  type = type.substr(0, type.find(';'));
  incoming.cbor = type == "application/cbor";
  if (!type.empty() && !incoming.cbor && type != "application/json" &&
      type != "application/x-www-form-urlencoded")
    co_return fail(ErrorCode::unsupported_type, "send application/json or application/cbor", Side::client);
  serve::Body body(exchange, machine_.slab, context_.settings.decode);
  CO_TRY(incoming.document, co_await body.read_all(call, most));
  co_return Result<>{};
}

// The committer counts and notes what came to it. What found no place in its queue is counted here, and what
// was not answered in time is noted as that, whatever became of it.
std::unexpected<Error> RegistryShard::turned_away(const Exchange& exchange, const Error& error,
                                                  std::string_view queue) {
  const bool no_place = error.code == ErrorCode::busy && std::string_view(error.context) == queue_is_full;
  if (no_place) {
    ++shared_.registry->status().refused;
    context_.metrics.count_dropped(queue, slot_);
  }
  if (no_place || is_late_errand(error)) note_refusal(exchange, error.code);
  return fail(error);
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request's state outlives it
Task<Result<>> RegistryShard::propose(Call call, Exchange& exchange, Incoming& incoming) {
  std::string why;
  auto draft = incoming.cbor ? client::decode_proposal_cbor(as_bytes(incoming.document), &good_keys_)
                             : client::parse_proposal_json(incoming.document, why, &good_keys_);
  if (!draft) {
    note_refusal(exchange, draft.error().code);
    answer_malformed(exchange, draft.error(), why);
    co_return Result<>{};
  }
  auto proposed = co_await port_->propose(call, who_asks(exchange), std::move(*draft));
  if (!proposed) co_return turned_away(exchange, proposed.error(), "proposals");
  exchange.response.status = 202;
  exchange.response.add_field("Location", "/registry/proposals/" + format_ulid(proposed->id));
  JsonWriter json(exchange.response.text);
  json.begin_object()
      .field("proposal_id", format_ulid(proposed->id))
      .field("version", proposed->set.version)
      .field("prev", format_address(proposed->set.prev))
      .field("payload_b3", format_address(proposed->payload_b3))
      .field("payload", codec::encode_base64(as_bytes(proposed->payload)))
      .field("expires_at", format_rfc3339(proposed->expires))
      .end_object()
      .finish();
  exchange.response.answer_text("application/json");
  co_return Result<>{};
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request's state outlives it
Task<Result<>> RegistryShard::approve(Call call, Exchange& exchange, Incoming& incoming) {
  const auto id = id_of(exchange.route.at[0].text);
  if (!id) co_return not_asked(exchange, id.error());
  std::string why;
  auto approval = incoming.cbor ? client::decode_approval_cbor(as_bytes(incoming.document))
                                : client::parse_approval_json(incoming.document, why);
  if (!approval) {
    note_refusal(exchange, approval.error().code);
    answer_malformed(exchange, approval.error(), why);
    co_return Result<>{};
  }
  auto approved = co_await port_->approve(call, who_asks(exchange), *id, std::move(*approval));
  if (!approved) co_return turned_away(exchange, approved.error(), "approvals");
  JsonWriter json(exchange.response.text);
  json.begin_object()
      .field("approvals", approved->approvals)
      .key("quorum")
      .begin_object()
      .field("m", approved->m)
      .field("n", approved->n)
      .end_object()
      .end_object()
      .finish();
  exchange.response.answer_text("application/json");
  co_return Result<>{};
}

void RegistryShard::answer_committed(Exchange& exchange, const Outcome& outcome) {
  exchange.response.status = outcome.existed ? 200 : 201;
  exchange.response.add_field("Location", "/registry/" + std::to_string(outcome.head.version));
  JsonWriter json(exchange.response.text);
  write_head(json, outcome.head);
  json.finish();
  exchange.response.answer_text("application/json");
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request's state outlives it
Task<Result<>> RegistryShard::commit(Call call, Exchange& exchange, Incoming& incoming) {
  const auto id = id_of(exchange.route.at[0].text);
  if (!id) co_return not_asked(exchange, id.error());
  // Nothing, or approvals that come with it: the last signer needs one request less, and one sync.
  auto approvals = read_approvals(incoming.document, incoming.cbor);
  if (!approvals) co_return not_asked(exchange, approvals.error());
  auto done = co_await port_->commit(call, who_asks(exchange), *id, false, std::move(*approvals));
  if (!done) co_return turned_away(exchange, done.error(), "commits");
  answer_committed(exchange, *done);
  co_return Result<>{};
}

// NOLINTNEXTLINE(cppcoreguidelines-avoid-reference-coroutine-parameters): the request's state outlives it
Task<Result<>> RegistryShard::supersede(Call call, Exchange& exchange, Incoming& incoming) {
  const auto id = read_proposal_id(incoming.document, incoming.cbor);
  if (!id) co_return not_asked(exchange, id.error());
  auto done = co_await port_->commit(call, who_asks(exchange), *id, true);
  if (!done) co_return turned_away(exchange, done.error(), "commits");
  answer_committed(exchange, *done);
  co_return Result<>{};
}

}  // namespace cairn::registry
