// What storage answers, and which of its functions does.
#include "services/storage/incoming.h"
#include "services/storage/shard.h"

namespace cairn::storage {

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
       .handlers = serve::at_once<&Self::try_get, &Self::get>(),
       .op = "storage.get",
       .asked = Asked::of_reads},
      {.pattern = "/o/{address:Address}",
       .methods = Method::put,
       .handlers = staged<&Self::take_object, &Self::put_at>(),
       .takes = Takes::body,
       .op = "storage.put"},
      {.pattern = "/o/{address:Address}",
       .methods = Method::del,
       .handlers = queued<&Self::remove>(),
       .op = "storage.delete"},
      {.pattern = "/o/{address:Address}/proof",
       .methods = reading,
       .handlers = queued<&Self::proof>(),
       .op = "storage.get",
       .asked = Asked::of_reads},
      {.pattern = "/o", .methods = reading, .handlers = queued<&Self::list>(), .op = "storage.list"},
      {.pattern = "/o",
       .methods = Method::post,
       .handlers = staged<&Self::take_object, &Self::put_anywhere>(),
       .takes = Takes::body,
       .op = "storage.put"},
      // An upload stores something, although it says nothing yet.
      {.pattern = "/uploads",
       .methods = Method::post,
       .handlers = staged<&Self::take_document, &Self::begin_upload>(),
       .takes = Takes::body,
       .op = "storage.put",
       .stores_least = 1},
      {.pattern = "/uploads/{id:Id}",
       .methods = Method::patch,
       .handlers = staged<&Self::take_part, &Self::put_part>(),
       .takes = Takes::body,
       .op = "storage.put"},
      {.pattern = "/uploads/{id:Id}",
       .methods = Method::head,
       .handlers = queued<&Self::upload_status>(),
       .op = "storage.put"},
      {.pattern = "/uploads/{id:Id}",
       .methods = Method::del,
       .handlers = queued<&Self::abort_upload>(),
       .op = "storage.put"},
      {.pattern = "/uploads/{id:Id}/commit",
       .methods = Method::post,
       .handlers = staged<&Self::take_document, &Self::commit_upload>(),
       .takes = Takes::body,
       .op = "storage.put"},
      {.pattern = "/pins/{address:Address}",
       .methods = Method::put,
       .handlers = queued<&Self::put_pin>(),
       .op = "storage.pin"},
      {.pattern = "/pins/{address:Address}",
       .methods = Method::del,
       .handlers = queued<&Self::remove_pin>(),
       .op = "storage.pin"},
      {.pattern = "/admin/status",
       .methods = reading,
       .handlers = queued<&Self::status>(),
       .op = "storage.admin"},
      {.pattern = "/admin/scrub",
       .methods = Method::post,
       .handlers = queued<&Self::scrub>(),
       .op = "storage.admin"},
      {.pattern = "/admin/accept-loss",
       .methods = Method::post,
       .handlers = queued<&Self::accept_losses>(),
       .op = "storage.admin"},
  };
  return table;
}

}  // namespace cairn::storage
