// What the registry answers, and which of its functions does.
#include "services/registry/incoming.h"
#include "services/registry/shard.h"

namespace cairn::registry {

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
       .handlers = serve::open<&Self::try_head, &Self::wait_for_head>(),
       .op = "registry.read",
       .asked = Asked::of_reads},
      {.pattern = "/registry/{version:Int}",
       .methods = reading,
       .handlers = at_once<&Self::try_version, &Self::version>(),
       .op = "registry.read",
       .asked = Asked::of_reads},
      {.pattern = "/registry/log",
       .methods = reading,
       .handlers = at_once<&Self::log_range>(),
       .op = "registry.read",
       .asked = Asked::of_reads},
      {.pattern = "/registry/stream",
       .methods = Method::get,
       .handlers = serve::open<&Self::stream>(),
       .op = "registry.read",
       .asked = Asked::of_reads},
      {.pattern = "/registry/checkpoint",
       .methods = reading,
       .handlers = at_once<&Self::checkpoint>(),
       .op = "registry.read",
       .asked = Asked::of_reads},
      {.pattern = "/registry/proof/inclusion",
       .methods = reading,
       .handlers = at_once<&Self::inclusion>(),
       .op = "registry.read",
       .asked = Asked::of_reads},
      {.pattern = "/registry/proof/consistency",
       .methods = reading,
       .handlers = at_once<&Self::consistency>(),
       .op = "registry.read",
       .asked = Asked::of_reads},
      {.pattern = "/registry/tile/{path:Rest}",
       .methods = reading,
       .handlers = at_once<&Self::try_tile, &Self::entries>(),
       .op = "registry.read",
       .asked = Asked::of_reads},
      {.pattern = "/registry/proposals",
       .methods = Method::post,
       .handlers = staged<&Self::take_document, &Self::propose>(),
       .takes = Takes::body,
       .op = "registry.propose"},
      {.pattern = "/registry/proposals",
       .methods = reading,
       .handlers = queued<&Self::proposals>(),
       .op = "registry.read",
       .asked = Asked::of_reads},
      {.pattern = "/registry/proposals/{id:Id}",
       .methods = reading,
       .handlers = queued<&Self::proposal>(),
       .op = "registry.read",
       .asked = Asked::of_reads},
      {.pattern = "/registry/approvals/{id:Id}",
       .methods = Method::post,
       .handlers = staged<&Self::take_document, &Self::approve>(),
       .takes = Takes::body,
       .op = "registry.approve"},
      {.pattern = "/registry/commit/{id:Id}",
       .methods = Method::post,
       .handlers = staged<&Self::take_document, &Self::commit>(),
       .takes = Takes::body,
       .op = "registry.commit"},
      {.pattern = "/registry/supersede",
       .methods = Method::post,
       .handlers = staged<&Self::take_document, &Self::supersede>(),
       .takes = Takes::body,
       .op = "registry.govern"},
      {.pattern = "/registry/audit",
       .methods = reading,
       .handlers = queued<&Self::audit>(),
       .op = "registry.admin"},
  };
  return table;
}

}  // namespace cairn::registry
