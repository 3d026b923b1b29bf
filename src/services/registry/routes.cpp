// The registry's routes, and the function that answers each.
#include "services/registry/incoming.h"
#include "services/registry/shard.h"

namespace cairn::registry {
namespace {

// --- for the reference: what is sent and answered

constexpr std::string_view json = "application/json", cbor = "application/cbor";

constexpr serve::ParameterSpec conditions[] = {{"If-Match", "Tags; 412 where it has none of them"},
                                               {"If-None-Match", "Tags; 304 where it has one of them"}};

constexpr serve::ParameterSpec head_query[] = {
    {"after", "With `wait`: the version that the client has", "Int"},
    {"wait", "With `after`: how long to wait for a newer version, such as 30s; 60s at most"}};
constexpr serve::ParameterSpec tag_field[] = {{"ETag", "The tag of this version, in quotes", {}, true}};
constexpr serve::AnswerSpec head_answers[] = {
    {200, "The newest version; the present one where the wait is over", {json, "registry-head"}, tag_field},
    {304, "The client has it", {}, tag_field}};

constexpr serve::AnswerSpec version_answers[] = {{200,
                                                  "The version; as CBOR, the payload whose hash was approved",
                                                  {json, "http-registry-version"},
                                                  tag_field},
                                                 {200, "", {cbor}},
                                                 {304, "The client has it", {}, tag_field}};

constexpr serve::ParameterSpec log_query[] = {
    {"from", "The first version; 0 without", "Int"},
    {"limit", "How many at most; 100 without", "Int", false, 1, 1000}};
constexpr serve::AnswerSpec log_answers[] = {
    {200, "The heads of these versions; `next` where there are more", {json, "http-registry-log"}}};

constexpr serve::ParameterSpec stream_fields[] = {
    {"Last-Event-ID", "The version that the client has seen: the stream goes on after it", "Int"},
    {"Upgrade",
     "`websocket`, with the other fields of its handshake (RFC 6455): messages instead of events"}};
constexpr serve::ParameterSpec stream_query[] = {
    {"last_event_id", "As `Last-Event-ID`, for clients that cannot send that field", "Int"}};
constexpr serve::EventSpec stream_events[] = {
    {"head", "http-event-head"}, {"lagged", "http-event-lagged"}, {"rollback", "http-event-rollback"}};
constexpr serve::AnswerSpec stream_answers[] = {
    {101,
     "Asked for with `Upgrade: websocket`: each event as one text "
     "message, `{\"event\":…,\"id\":…,\"data\":…}`; messages of "
     "the client are ignored"},
    {200,
     "`event: head` for each version, `event: lagged` where some "
     "were missed, `event: rollback` where the client "
     "has seen more than there is",
     {"text/event-stream", {}, stream_events}}};

constexpr serve::AnswerSpec checkpoint_answers[] = {
    {200, "A signed note: origin, size and root of the tree", {"text/plain; charset=utf-8"}}};

constexpr serve::ParameterSpec inclusion_query[] = {
    {"version", "Which one", "Int", true}, {"size", "Of which tree; the present one without", "Int"}};
constexpr serve::AnswerSpec inclusion_answers[] = {
    {200, "The hashes that prove it, in base64", {json, "http-inclusion-proof"}}};
constexpr serve::ParameterSpec consistency_query[] = {
    {"from", "The size of the smaller tree", "Int", true},
    {"to", "The size of the larger tree; the present one without", "Int"}};
constexpr serve::AnswerSpec consistency_answers[] = {
    {200, "The hashes that prove it, in base64", {json, "http-consistency-proof"}}};

constexpr serve::AnswerSpec tile_answers[] = {
    {200, "The hashes of a tile, or a bundle of entries", {"application/octet-stream"}}};

constexpr serve::BodySpec proposal_bodies[] = {{json, "http-proposal-draft"}, {cbor}};
constexpr serve::ParameterSpec proposed_fields[] = {{"Location", "The proposal", {}, true}};
constexpr serve::AnswerSpec proposed_answers[] = {
    {202,
     "It waits for approvals of `payload_b3`, the hash of `payload`",
     {json, "registry-propose"},
     proposed_fields}};
constexpr serve::ParameterSpec proposals_query[] = {
    {"after", "The proposal after which the list goes on: `next` of the page before", "Id"},
    {"limit", "How many at most; 100 without", "Int", false, 1, 1000}};
constexpr serve::AnswerSpec proposals_answers[] = {
    {200, "The proposals that wait, oldest first; `next` where there are more", {json, "http-proposals"}}};
constexpr serve::AnswerSpec proposal_answers[] = {
    {200, "The proposal, with the payload whose hash is approved", {json, "http-proposal"}}};

constexpr serve::BodySpec approval_bodies[] = {{json, "http-approval"}, {cbor}};
constexpr serve::AnswerSpec approved_answers[] = {
    {200, "How many have approved, and how many are needed", {json, "http-approved"}}};
constexpr serve::BodySpec commit_bodies[] = {{json, "http-commit"}, {cbor}};
constexpr serve::ParameterSpec committed_fields[] = {{"Location", "The version", {}, true}};
constexpr serve::AnswerSpec committed_answers[] = {
    {201, "The new head; it is durable", {json, "registry-head"}, committed_fields},
    {200, "It was committed before", {json, "registry-head"}, committed_fields}};
constexpr serve::BodySpec supersede_bodies[] = {{json, "http-supersede"}, {cbor}};

constexpr serve::ParameterSpec audit_query[] = {
    {"after", "The event after which the list goes on: `next` of the page before; the newest ones without",
     "Int"},
    {"limit", "How many at most; 100 without", "Int", false, 1, 1000}};
constexpr serve::AnswerSpec audit_answers[] = {
    {200, "What was asked and what became of it; `next` where there is more", {json, "http-audit"}}};

}  // namespace

std::span<const serve::RouteSpec> RegistryShard::routes() {
  using http::Method;
  using serve::Asked;
  using serve::at_once;
  using serve::queued;
  using serve::staged;
  using serve::Takes;
  using Self = RegistryShard;
  constexpr http::MethodSet reading = Method::get | Method::head;
  static constexpr serve::RouteSpec table[] = {
      {.pattern = "/registry/head",
       .methods = reading,
       .summary = "The newest version, or the next one once it is there",
       .handlers = serve::open<&Self::try_head, &Self::wait_for_head>(),
       .op = "registry.read",
       .asked = Asked::of_reads,
       .query = head_query,
       .fields = conditions,
       .answers = head_answers},
      {.pattern = "/registry/{version:Int}",
       .methods = reading,
       .summary = "One version, with its approvals",
       .handlers = at_once<&Self::try_version, &Self::version>(),
       .op = "registry.read",
       .asked = Asked::of_reads,
       .fields = conditions,
       .answers = version_answers},
      {.pattern = "/registry/log",
       .methods = reading,
       .summary = "A range of versions",
       .handlers = at_once<&Self::log_range>(),
       .op = "registry.read",
       .asked = Asked::of_reads,
       .query = log_query,
       .answers = log_answers},
      {.pattern = "/registry/stream",
       .methods = Method::get,
       .summary = "Every new version as it comes",
       .handlers = serve::open<&Self::stream>(),
       .op = "registry.read",
       .asked = Asked::of_reads,
       .query = stream_query,
       .fields = stream_fields,
       .answers = stream_answers},
      {.pattern = "/registry/checkpoint",
       .methods = reading,
       .summary = "The newest signed checkpoint",
       .handlers = at_once<&Self::checkpoint>(),
       .op = "registry.read",
       .asked = Asked::of_reads,
       .answers = checkpoint_answers},
      {.pattern = "/registry/proof/inclusion",
       .methods = reading,
       .summary = "What proves that a tree has a version",
       .handlers = at_once<&Self::inclusion>(),
       .op = "registry.read",
       .asked = Asked::of_reads,
       .query = inclusion_query,
       .answers = inclusion_answers},
      {.pattern = "/registry/proof/consistency",
       .methods = reading,
       .summary = "What proves that a tree only grew",
       .handlers = at_once<&Self::consistency>(),
       .op = "registry.read",
       .asked = Asked::of_reads,
       .query = consistency_query,
       .answers = consistency_answers},
      {.pattern = "/registry/tile/{path:Rest}",
       .methods = reading,
       .summary = "A part of the tree, by the paths of C2SP tlog-tiles",
       .handlers = at_once<&Self::try_tile, &Self::entries>(),
       .op = "registry.read",
       .asked = Asked::of_reads,
       .answers = tile_answers},
      {.pattern = "/registry/proposals",
       .methods = Method::post,
       .summary = "Propose the next version: its whole set of items",
       .handlers = staged<&Self::take_document, &Self::propose>(),
       .takes = Takes::body,
       .op = "registry.propose",
       .bodies = proposal_bodies,
       .needs_body = true,
       .answers = proposed_answers},
      {.pattern = "/registry/proposals",
       .methods = reading,
       .summary = "The proposals that wait for approvals",
       .handlers = queued<&Self::proposals>(),
       .op = "registry.read",
       .asked = Asked::of_reads,
       .query = proposals_query,
       .answers = proposals_answers},
      {.pattern = "/registry/proposals/{id:Id}",
       .methods = reading,
       .summary = "One proposal",
       .handlers = queued<&Self::proposal>(),
       .op = "registry.read",
       .asked = Asked::of_reads,
       .answers = proposal_answers},
      {.pattern = "/registry/approvals/{id:Id}",
       .methods = Method::post,
       .summary = "Approve a proposal: Ed25519 over `cairn-registry-approval-v1`, a zero byte and the 32 "
                  "bytes of payload_b3",
       .handlers = staged<&Self::take_document, &Self::approve>(),
       .takes = Takes::body,
       .op = "registry.approve",
       .bodies = approval_bodies,
       .needs_body = true,
       .answers = approved_answers},
      {.pattern = "/registry/commit/{id:Id}",
       .methods = Method::post,
       .summary = "Make a proposal that has its quorum the next version",
       .handlers = staged<&Self::take_document, &Self::commit>(),
       .takes = Takes::body,
       .op = "registry.commit",
       .bodies = commit_bodies,
       .answers = committed_answers},
      {.pattern = "/registry/supersede",
       .methods = Method::post,
       .summary = "Commit a proposal that supersedes the present version",
       .handlers = staged<&Self::take_document, &Self::supersede>(),
       .takes = Takes::body,
       .op = "registry.govern",
       .bodies = supersede_bodies,
       .needs_body = true,
       .answers = committed_answers},
      {.pattern = "/registry/audit",
       .methods = reading,
       .summary = "Every change that was accepted or refused",
       .handlers = queued<&Self::audit>(),
       .op = "registry.admin",
       .query = audit_query,
       .answers = audit_answers},
  };
  return table;
}

std::span<const serve::RouteSpec> routes() { return RegistryShard::routes(); }

}  // namespace cairn::registry
