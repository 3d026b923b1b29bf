// Storage's routes, and the function that answers each.
#include "services/storage/incoming.h"
#include "services/storage/shard.h"

namespace cairn::storage {
namespace {

// --- for the reference: what is sent and answered

constexpr std::string_view json = "application/json";

constexpr serve::ParameterSpec object_fields[] = {
    {"Range", "1 to 8 ranges of bytes"},
    {"If-Range", "The tag that the ranges are of; with another one the whole object is answered"},
    {"If-Match", "Tags; 412 where the object has none of them"},
    {"If-None-Match", "Tags; 304 where the object has one of them"}};
constexpr serve::ParameterSpec tag = {"ETag", "The object's address, in quotes", {}, true};
constexpr serve::ParameterSpec tag_field[] = {tag};
constexpr serve::ParameterSpec ranges_fields[] = {
    tag, {"Content-Range", "The bytes, where one range was asked for: bytes FIRST-LAST/SIZE"}};
constexpr serve::AnswerSpec object_answers[] = {
    {200, "The object, with the media type of its first writer", {"*/*"}, tag_field},
    {206, "The ranges that were asked for", {"*/*"}, ranges_fields},
    {206, "", {"multipart/byteranges"}},
    {304, "The client has it", {}, tag_field}};
constexpr serve::ParameterSpec stored_fields[] = {{"Location", "Where the object is", {}, true}, tag};
constexpr serve::AnswerSpec stored_answers[] = {
    {201, "It is stored, and survives a loss of power", {json, "http-stored"}, stored_fields},
    {200, "It was there already", {json, "http-stored"}, stored_fields}};

constexpr serve::ParameterSpec proof_query[] = {
    {"range", "The bytes to prove, FIRST-LAST inclusive, or FIRST-; all of them without"}};
constexpr serve::AnswerSpec proof_answers[] = {{200,
                                                "The object's size as 8 bytes, little end first, then the "
                                                "parents of 64 bytes in pre-order that cover the "
                                                "range",
                                                {"application/vnd.cairn.outboard"},
                                                tag_field}};

constexpr serve::ParameterSpec list_query[] = {
    {"prefix", "The beginning of the addresses, with or without `b3:`"},
    {"after", "The address after which the list goes on: `next` of the page before"},
    {"limit", "How many at most; 1000 without", "Int", false, 1, 1000}};
constexpr serve::AnswerSpec list_answers[] = {
    {200,
     "The objects in the order of their addresses; `next` where there are more",
     {json, "http-objects"}}};

constexpr serve::BodySpec upload_bodies[] = {{json, "http-upload-begin"}};
constexpr serve::ParameterSpec begun_fields[] = {{"Location", "The upload", {}, true}};
constexpr serve::AnswerSpec upload_answers[] = {{201, "It has begun", {json, "http-upload"}, begun_fields}};
constexpr serve::ParameterSpec part_fields[] = {
    {"Upload-Offset", "Where the part belongs: a multiple of 1 MiB", "Int", true}};
constexpr serve::ParameterSpec stored_part_fields[] = {{"Upload-Offset", "The part's end", "Int", true}};
constexpr serve::AnswerSpec part_answers[] = {
    {204, "The part is durable; what is missing, HEAD tells", {}, stored_part_fields}};
constexpr serve::ParameterSpec upload_status_fields[] = {
    {"Upload-Offset", "Up to where nothing is missing", "Int", true},
    {"Upload-Length", "The size that was said, if one was", "Int"},
    {"Upload-Missing", "FIRST-LAST,…: the first gaps, if there are any"},
    {"Location", "The object, once it is committed"}};
constexpr serve::AnswerSpec upload_status_answers[] = {
    {200, "How far the upload is", {}, upload_status_fields}};
constexpr serve::BodySpec commit_bodies[] = {{json, "http-upload-commit"}};

constexpr serve::AnswerSpec removed_answers[] = {{204, "It is removed"}};
constexpr serve::AnswerSpec aborted_answers[] = {{204, "It is forgotten"}};
constexpr serve::AnswerSpec pinned_answers[] = {{204, "It is pinned"}};
constexpr serve::AnswerSpec unpinned_answers[] = {{204, "It is not pinned"}};
constexpr serve::AnswerSpec status_answers[] = {
    {200,
     "Objects, bytes, segments and the scrubber, of each data directory",
     {json, "http-storage-status"}}};
constexpr serve::AnswerSpec begun_answers[] = {{202, "It will be done"}};

}  // namespace

std::span<const serve::RouteSpec> StorageShard::routes() {
  using http::Method;
  using serve::Asked;
  using serve::queued;
  using serve::staged;
  using serve::Takes;
  using Self = StorageShard;
  constexpr http::MethodSet reading = Method::get | Method::head;
  static constexpr serve::RouteSpec table[] = {
      {.pattern = "/o/{address:Address}",
       .methods = reading,
       .summary = "Read an object, or ranges of it",
       .handlers = serve::at_once<&Self::try_get, &Self::get>(),
       .op = "storage.get",
       .asked = Asked::of_reads,
       .fields = object_fields,
       .answers = object_answers},
      {.pattern = "/o/{address:Address}",
       .methods = Method::put,
       .summary = "Store an object of up to `limits.max_body_bytes` (1 MiB) at its address; 409 if the bytes "
                  "have another",
       .handlers = staged<&Self::take_object, &Self::put_at>(),
       .takes = Takes::body,
       .op = "storage.put",
       .answers = stored_answers},
      {.pattern = "/o/{address:Address}",
       .methods = Method::del,
       .summary = "Remove an object that is not pinned",
       .handlers = queued<&Self::remove>(),
       .op = "storage.delete",
       .answers = removed_answers},
      {.pattern = "/o/{address:Address}/proof",
       .methods = reading,
       .summary = "What proves bytes of an object by its address",
       .handlers = queued<&Self::proof>(),
       .op = "storage.get",
       .asked = Asked::of_reads,
       .query = proof_query,
       .answers = proof_answers},
      {.pattern = "/o",
       .methods = reading,
       .summary = "List objects",
       .handlers = queued<&Self::list>(),
       .op = "storage.list",
       .query = list_query,
       .answers = list_answers},
      {.pattern = "/o",
       .methods = Method::post,
       .summary = "Store an object of up to `limits.max_body_bytes` (1 MiB) and learn its address; a larger "
                  "one is an upload",
       .handlers = staged<&Self::take_object, &Self::put_anywhere>(),
       .takes = Takes::body,
       .op = "storage.put",
       .answers = stored_answers},
      // To begin an upload is a write, although it has no bytes yet.
      {.pattern = "/uploads",
       .methods = Method::post,
       .summary = "Begin an upload of parts, for objects of any size",
       .handlers = staged<&Self::take_document, &Self::begin_upload>(),
       .takes = Takes::body,
       .op = "storage.put",
       .stores_least = 1,
       .bodies = upload_bodies,
       .answers = upload_answers},
      {.pattern = "/uploads/{id:Id}",
       .methods = Method::patch,
       .summary = "Store a part of 1 MiB, or of less at the end, in any order",
       .handlers = staged<&Self::take_part, &Self::put_part>(),
       .takes = Takes::body,
       .op = "storage.put",
       .fields = part_fields,
       .needs_body = true,
       .answers = part_answers},
      {.pattern = "/uploads/{id:Id}",
       .methods = Method::head,
       .summary = "What of an upload is there",
       .handlers = queued<&Self::upload_status>(),
       .op = "storage.put",
       .answers = upload_status_answers},
      {.pattern = "/uploads/{id:Id}",
       .methods = Method::del,
       .summary = "Give an upload up",
       .handlers = queued<&Self::abort_upload>(),
       .op = "storage.put",
       .answers = aborted_answers},
      {.pattern = "/uploads/{id:Id}/commit",
       .methods = Method::post,
       .summary = "Make an object of the parts; 409 if one is missing",
       .handlers = staged<&Self::take_document, &Self::commit_upload>(),
       .takes = Takes::body,
       .op = "storage.put",
       .bodies = commit_bodies,
       .answers = stored_answers},
      {.pattern = "/pins/{address:Address}",
       .methods = Method::put,
       .summary = "Pin an object: it cannot be removed",
       .handlers = queued<&Self::put_pin>(),
       .op = "storage.pin",
       .answers = pinned_answers},
      {.pattern = "/pins/{address:Address}",
       .methods = Method::del,
       .summary = "Pin an object no longer",
       .handlers = queued<&Self::remove_pin>(),
       .op = "storage.pin",
       .answers = unpinned_answers},
      {.pattern = "/admin/status",
       .methods = reading,
       .summary = "How the store is",
       .handlers = queued<&Self::status>(),
       .op = "storage.admin",
       .answers = status_answers},
      {.pattern = "/admin/scrub",
       .methods = Method::post,
       .summary = "Verify everything on the disk, from now on",
       .handlers = queued<&Self::scrub>(),
       .op = "storage.admin",
       .answers = begun_answers},
      {.pattern = "/admin/accept-loss",
       .methods = Method::post,
       .summary = "Give up what the log has lost",
       .handlers = queued<&Self::accept_losses>(),
       .op = "storage.admin",
       .answers = begun_answers},
  };
  return table;
}

std::span<const serve::RouteSpec> routes() { return StorageShard::routes(); }

}  // namespace cairn::storage
