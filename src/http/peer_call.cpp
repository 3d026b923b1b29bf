#include "http/peer_call.h"

#include <array>

#include "http/fields.h"
#include "observe/span.h"

namespace cairn::http {

void add_context(PeerCall& peer, const CallContext* context) {
  if (context == nullptr) return;
  if (!context->corr_id.empty()) peer.add_field(name_of(FieldName::x_corr_id), context->corr_id);
  if (!context->span.valid()) return;
  std::array<char, observe::traceparent_size> trace;
  observe::format_traceparent_to(context->span, trace.data());
  peer.add_field(name_of(FieldName::traceparent), {trace.data(), trace.size()});
}

}  // namespace cairn::http
