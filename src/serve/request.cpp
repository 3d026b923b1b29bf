#include "serve/request.h"

#include "observe/span.h"
#include "runtime/random.h"

namespace cairn::serve {

void Request::take_context(Random& random) noexcept {
  if (!context.corr_id.empty()) return;
  const auto parent = observe::parse_traceparent(fields().get(http::FieldName::traceparent));
  context.corr_id = corr();
  if (const Principal* known = principal()) context.tenant = known->tenant;
  context.span = parent ? observe::child_of(*parent, random.next())
                        : observe::start_trace(random.next(), random.next(), random.next(), false);
}

}  // namespace cairn::serve
