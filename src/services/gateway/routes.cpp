// The gateway's routes: what goes where. A request that is passed on needs no capability here: the service
// behind it asks for that, and answers its other paths and methods itself.
#include "services/gateway/shard.h"

namespace cairn::gateway {
namespace {

constexpr serve::AnswerSpec passed_answers[] = {
    {200, "What the service behind it answers, with any status", {"*/*"}}};
constexpr serve::AnswerSpec tenants_answers[] = {
    {200, "At most 1,000 of the known tenants", {"application/json"}}};
constexpr serve::AnswerSpec unbuilt_answers[] = {
    {200, "What the service answers once it is built; until then 501 not_implemented", {"*/*"}}};

using http::Method;
constexpr http::MethodSet any_method =
    Method::get | Method::head | Method::post | Method::put | Method::del | Method::patch | Method::options;

constexpr serve::RouteSpec passed(std::string_view pattern, serve::Summary summary,
                                  serve::Handlers handlers) {
  return {.pattern = pattern,
          .methods = any_method,
          .summary = summary,
          .handlers = handlers,
          .takes = serve::Takes::body,
          .answers = passed_answers,
          .is_passed_on = true};
}

constexpr serve::RouteSpec unbuilt(std::string_view pattern, serve::Summary summary,
                                   serve::Handlers handlers) {
  return {.pattern = pattern,
          .methods = any_method,
          .summary = summary,
          .handlers = handlers,
          .answers = unbuilt_answers,
          .is_passed_on = true};
}

}  // namespace

std::span<const serve::RouteSpec> GatewayShard::routes() {
  using Self = GatewayShard;
  using serve::at_once;
  static constexpr serve::Handlers storage =
      at_once<&Self::try_pass<Upstream::storage>, &Self::pass<Upstream::storage>>();
  static constexpr serve::Handlers objects =
      at_once<&Self::try_pass<Upstream::storage>, &Self::pass_object>();
  static constexpr serve::Handlers index =
      at_once<&Self::try_pass<Upstream::index>, &Self::pass<Upstream::index>>();
  static constexpr serve::Handlers registry =
      at_once<&Self::try_pass<Upstream::registry>, &Self::pass<Upstream::registry>>();
  static constexpr serve::Handlers registry_open =
      serve::open<&Self::leave, &Self::pass_open<Upstream::registry>>();
  static constexpr serve::Handlers none = serve::at_once<&Self::refuse_unbuilt>();
  static constexpr serve::RouteSpec table[] = {
      passed("/o", "Objects: storage answers", storage),
      passed("/o/{rest:Rest}", "Objects: storage answers", objects),
      passed("/uploads", "Uploads: storage answers", storage),
      passed("/uploads/{rest:Rest}", "Uploads: storage answers", storage),
      passed("/pins/{rest:Rest}", "Pins: storage answers", storage),
      passed("/admin/status", "How the store is: storage answers", storage),
      passed("/admin/scrub", "Verify what is on the disk: storage answers", storage),
      passed("/admin/accept-loss", "Give up what is lost: storage answers", storage),
      {.pattern = "/admin/tenants",
       .methods = Method::get | Method::head,
       .summary = "Weights, quotas and standing of tenants",
       .handlers = serve::at_once<&Self::tell_tenants>(),
       .answers = tenants_answers,
       .op_of_handler = "gateway.admin"},
      // Their requests may wait for an event, or last.
      passed("/registry/head", "The newest version: the registry answers", registry_open),
      passed("/registry/stream", "Every new version: the registry answers", registry_open),
      passed("/registry/{rest:Rest}", "Descriptors: the registry answers", registry),
      passed("/resolve/{rest:Rest}", "What a name stands for: the index answers", index),
      passed("/names", "Names: the index answers", index),
      passed("/names/{rest:Rest}", "Names: the index answers", index),
      passed("/manifests/{rest:Rest}", "Manifests: the index answers", index),
      passed("/providers", "What nodes have: the index takes it in", index),
      passed("/providers/{rest:Rest}", "Who has an object: the index answers", index),
      unbuilt("/search/{rest:Rest}", "Search: the index is not built", none),
      unbuilt("/graph/{rest:Rest}", "The graph: the index is not built", none),
      unbuilt("/edge/{rest:Rest}", "Copies near the client: the edge is not built", none),
  };
  return table;
}

Result<> GatewayShard::refuse_unbuilt(serve::Request&) {
  return fail(ErrorCode::not_implemented, "the service behind this path is not built yet");
}

std::span<const serve::RouteSpec> routes() { return GatewayShard::routes(); }

}  // namespace cairn::gateway
