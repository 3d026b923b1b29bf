// The index's routes, and the function that answers each.
#include "services/index/incoming.h"
#include "services/index/shard.h"

namespace cairn::index {
namespace {

// --- for the reference: what is sent and answered

constexpr std::string_view json = "application/json";

constexpr serve::ParameterSpec tag = {
    "ETag", "The sequence of the name's newest change, in quotes", {}, true};
constexpr serve::ParameterSpec tag_field[] = {tag};
constexpr serve::ParameterSpec read_conditions[] = {{"If-Match", "Tags; 412 where it has none of them"},
                                                    {"If-None-Match", "Tags; 304 where it has one of them"}};
constexpr serve::ParameterSpec write_conditions[] = {
    {"If-Match", "Tags; 412 where the name has none of them: it was changed meanwhile"},
    {"If-None-Match", "`*`: 412 where the name leads somewhere already"}};

constexpr serve::ParameterSpec resolve_query[] = {
    {"fresh", "`true`: what was learned before is asked for again"},
    {"scope", "`local`: nobody else is asked, and the answer is the signed records themselves"}};
constexpr serve::ParameterSpec resolved_tag[] = {
    {"ETag", "The sequence of the name's newest change, or the address; not with `scope`"}};
constexpr serve::AnswerSpec resolve_answers[] = {
    {200, "What the name or the address stands for, and who said so", {json, "http-resolved"}, resolved_tag},
    {304, "The client has it", {}, resolved_tag}};

constexpr serve::ParameterSpec providers_query[] = {
    {"region", "The client's region: providers there come first"},
    {"limit", "How many at most, up to 32; 5 without", "Int"},
    {"min_freshness", "Only providers that were heard of in so many seconds", "Int"}};
constexpr serve::AnswerSpec providers_answers[] = {
    {200, "The providers by their score, and how they were found", {json, "http-providers"}}};
constexpr serve::BodySpec announce_bodies[] = {{json, "http-announcement"}};
constexpr serve::AnswerSpec announce_answers[] = {
    {200,
     "How many were taken; a table with another epoch than before wants to hear everything again",
     {json, "http-announced"}}};

constexpr serve::ParameterSpec names_query[] = {
    {"prefix", "The beginning of the names"},
    {"after", "The name after which the list goes on: `next` of the page before"},
    {"limit", "How many at most; 100 without", "Int", false, 1, 1000}};
constexpr serve::AnswerSpec names_answers[] = {
    {200, "The names in their order; `next` where there are more", {json, "http-names"}}};

constexpr serve::ParameterSpec name_query[] = {
    {"history", "Without a value, before all others: its changes, the newest first"},
    {"after", "With `history`: the sequence below which the list goes on: `next` of the page before", "Int"},
    {"limit", "With `history`: how many at most, up to 1000; 100 without", "Int"}};
constexpr serve::ParameterSpec newest_tag[] = {
    {"ETag", "The sequence of the newest change; not with `history`"}};
constexpr serve::AnswerSpec name_answers[] = {
    {200, "The name's newest change; with `history`, all of them", {json, "http-name"}, newest_tag},
    {304, "The client has it", {}, tag_field}};
constexpr serve::BodySpec wish_bodies[] = {{json, "http-name-set"}};
constexpr serve::ParameterSpec set_fields[] = {tag, {"Location", "The name"}};
constexpr serve::AnswerSpec set_answers[] = {
    {201, "It leads somewhere now, and that survives a loss of power", {json, "http-name"}, set_fields},
    {200, "It leads somewhere else now", {json, "http-name"}, tag_field}};
constexpr serve::AnswerSpec removed_answers[] = {
    {200, "It leads nowhere; its history is kept", {json, "http-name"}, tag_field}};

constexpr std::string_view cbor = "application/vnd.cairn.manifest+cbor";
constexpr serve::ParameterSpec address_tag[] = {{"ETag", "The manifest's address, in quotes", {}, true}};
constexpr serve::ParameterSpec stored_fields[] = {{"Location", "Where the manifest is", {}, true},
                                                  address_tag[0]};
constexpr serve::AnswerSpec stored_answers[] = {
    {201, "It is kept, and survives a loss of power", {json, "http-stored"}, stored_fields},
    {200, "It was there already", {json, "http-stored"}, stored_fields}};
constexpr serve::AnswerSpec manifest_answers[] = {{200, "The manifest", {cbor}, address_tag},
                                                  {304, "The client has it", {}, address_tag}};

}  // namespace

std::span<const serve::RouteSpec> IndexShard::routes() {
  using http::Method;
  using serve::Asked;
  using serve::at_once;
  using serve::queued;
  using serve::staged;
  using serve::Takes;
  using Self = IndexShard;
  constexpr http::MethodSet reading = Method::get | Method::head;
  static constexpr serve::RouteSpec table[] = {
      {.pattern = "/resolve/{key:Rest}",
       .methods = reading,
       .summary = "What a name (`name:NAME`, or the name alone) or an address (`b3:…`) stands for",
       .handlers = at_once<&Self::try_resolve, &Self::resolve>(),
       .op = "index.read",
       .asked = Asked::of_reads,
       .query = resolve_query,
       .fields = read_conditions,
       .answers = resolve_answers},
      {.pattern = "/providers/{address:Address}",
       .methods = reading,
       .summary = "Who has an object, the best first",
       .handlers = at_once<&Self::try_providers, &Self::providers>(),
       .op = "index.read",
       .asked = Asked::of_reads,
       .query = providers_query,
       .answers = providers_answers},
      {.pattern = "/providers",
       .methods = Method::post,
       .summary = "Announce what nodes have, or no longer have: up to 1000 signed records",
       .handlers = staged<&Self::take_announcement, &Self::announce>(),
       .takes = Takes::body,
       .op = "node.peer",
       .bodies = announce_bodies,
       .needs_body = true,
       .answers = announce_answers},
      {.pattern = "/names",
       .methods = reading,
       .summary = "List names",
       .handlers = queued<&Self::names>(),
       .op = "index.read",
       .asked = Asked::of_reads,
       .query = names_query,
       .answers = names_answers},
      {.pattern = "/names/{name:Rest}",
       .methods = reading,
       .summary = "A name's newest change, or its history",
       .handlers = at_once<&Self::try_name, &Self::name>(),
       .op = "index.read",
       .asked = Asked::of_reads,
       .query = name_query,
       .fields = read_conditions,
       .answers = name_answers},
      {.pattern = "/names/{name:Rest}",
       .methods = Method::put,
       .summary = "Let a name lead to an object",
       .handlers = staged<&Self::take_document, &Self::set_name>(),
       .takes = Takes::body,
       .op = "index.write",
       .fields = write_conditions,
       .bodies = wish_bodies,
       .needs_body = true,
       .answers = set_answers},
      {.pattern = "/names/{name:Rest}",
       .methods = Method::del,
       .summary = "Let a name lead nowhere",
       .handlers = queued<&Self::remove_name>(),
       .op = "index.write",
       .fields = write_conditions,
       .answers = removed_answers},
      {.pattern = "/manifests/{address:Address}",
       .methods = reading,
       .summary = "Read a manifest",
       .handlers = queued<&Self::manifest>(),
       .op = "index.read",
       .asked = Asked::of_reads,
       .fields = read_conditions,
       .answers = manifest_answers},
      {.pattern = "/manifests/{address:Address}",
       .methods = Method::put,
       .summary = "Keep a manifest of up to 1 MiB; 409 if the bytes have another address",
       .handlers = staged<&Self::take_manifest, &Self::put_manifest>(),
       .takes = Takes::body,
       .op = "index.write",
       .needs_body = true,
       .answers = stored_answers},
  };
  return table;
}

std::span<const serve::RouteSpec> routes() { return IndexShard::routes(); }

}  // namespace cairn::index
